"""``knime-nodes check-workflow``: whole workflows against the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from knime_mcp.cli.command_errors import ExitCode, reports_errors
from knime_mcp.cli.terminal import note, print_json, say
from knime_mcp.types.texts import counted

from .node_catalogue import CatalogueOption, open_catalogue, tell_origin

if TYPE_CHECKING:
    from ..outline_check import WorkflowCheck

_SHOWN: Final = 20


@reports_errors
def check_workflow(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="The outline of a workflow, as JSON."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON.")] = False,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """Check a workflow: unknown nodes, wrong ports, wrong settings, deprecated nodes.

    Only what is certainly wrong is an error, and the exit code is then 1. The tool check_workflow of the MCP
    server takes the same outlines.

    Example: knime-nodes check-workflow outline.json
    """
    from ..node_service import workflow_check_as_json
    from ..outline_check import check_workflow as check_outline
    from ..workflow_outline import read_outline

    outline = read_outline(file.read_text("utf-8", "replace"))
    with open_catalogue(catalogue) as opened, opened.reading() as reader:
        check = check_outline(reader, outline)
        if as_json:
            print_json(workflow_check_as_json(check))
        else:
            _tell(check)
            tell_origin(reader.origin)
    return ExitCode.FAILED if check.valid is False else ExitCode.OK


def _tell(check: WorkflowCheck) -> None:
    for finding in check.findings:
        setting = f"setting '{finding.setting}' " if finding.setting else ""
        colour = "red" if finding.severity == "error" else "yellow"
        say(f"{finding.severity}: {finding.where}: {setting}{finding.problem}", colour)
        say(f"  {finding.fix}")
    for text in check.notes:
        note(text)
    for where, why in list(check.not_judged)[:_SHOWN]:
        note(f"Not judged: {where}: {why}")
    if len(check.not_judged) > _SHOWN:
        note(f"… and {counted(len(check.not_judged) - _SHOWN, 'more place')} not judged")
    wrong = sum(finding.severity == "error" for finding in check.findings)
    say(
        f"{counted(check.nodes, 'node')}, {counted(check.settings, 'configuration')} and"
        f" {counted(check.connections, 'connection')} judged: {counted(wrong, 'error')},"
        f" {counted(len(check.findings) - wrong, 'warning')}",
        "bold",
    )
