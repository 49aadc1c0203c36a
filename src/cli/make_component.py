"""``knime-mcp make-component``: a tool as a KNIME workflow with a setting for each of its parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..types.texts import counted
from .command_errors import ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions, ToolArgument, UrlArgument, takes_connection
from .files import check_output, writing
from .terminal import note


@reports_errors
@takes_connection
def make_component(
    url: UrlArgument = None,
    tool: ToolArgument = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.knwf", help="The workflow to write; else TOOL.knwf.")
    ] = None,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Make a KNIME workflow of a tool.

    It has a Configuration node for each parameter of the tool, and an MCP Tool Caller that they set. Import
    it into KNIME, select all and choose Create component to have one node with these settings; or run it
    with: knime-mcp run FILE.knwf --set NAME=VALUE

    Example: knime-mcp make-component http://127.0.0.1:8931/mcp count_words --out count_words.knwf
    """
    route, words = connection.one_route([word for word in (url, tool) if word is not None])
    if len(words) != 1:
        raise UsageError("Which tool? Write its name after the server.")
    if out is not None and out.suffix.lower() != ".knwf":
        raise UsageError(f"{out} should end in .knwf, as it is a KNIME workflow.")
    check_output(out)
    from ..headless import use_standin

    use_standin()
    from ..knwf import write_workflow
    from ..tools.tool_component import file_stem, tool_workflow
    from .sessions import Sessions

    with Interrupt() as interrupt, Sessions(connection, interrupt) as sessions:
        found = sessions.find_tool(route, words[0])
    workflow = tool_workflow(found)
    file = out or Path(f"{file_stem(found)}.knwf")
    with writing(file):
        write_workflow(workflow, file)
    note(f"Wrote {file}, with {counted(len(workflow.nodes) - 1, 'setting')}")
    return ExitCode.OK
