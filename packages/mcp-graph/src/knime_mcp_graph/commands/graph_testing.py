"""``mcpgraph record`` and ``test``: runs that are kept and repeated."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knime_mcp.cli.command_errors import CommandError, ExitCode, Interrupt, UsageError, reports_errors
from knime_mcp.cli.files import check_output, read_json, writing
from knime_mcp.cli.terminal import complain, note, print_json, say
from knime_mcp.types.errors import coded
from knime_mcp.types.texts import counted
from knime_mcp.yaml_text import did_you_mean

from .graph_commands import DialectOption, FileArgument, McpFileOption, SecretArgumentOption, given_arguments
from .program import DialectChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..graph_cases import CaseOutcome, GraphCase
    from ..graph_model import GraphDocument


CasesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="CASES.json", help="The file of the cases; by default beside the document: x.tests.json."
    ),
]


def _read(file: Path) -> tuple[GraphCase, ...]:
    from ..graph_cases import read_cases

    return read_cases(read_json(file), str(file))


@reports_errors
def record(
    file: FileArgument,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool of the document.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE|JSON|@FILE", help="Its arguments, as for mcpgraph run."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the case; by default tool and arguments."),
    ] = None,
    cases: CasesOption = None,
    secret_argument: SecretArgumentOption = None,
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
) -> ExitCode:
    """Run a tool of a graph document, and keep the run as a case for mcpgraph test.

    The case has the arguments, the replies of the servers, the path, and the result or the error. A case of
    the same name is replaced. Secrets are marks in it.

    Example: mcpgraph record tools.yaml count_files directory=/tmp --name "some files"
    """
    from ..graph_cases import cases_file

    kept_in = cases or cases_file(file)
    check_output(kept_in)
    before = _read(kept_in) if kept_in.exists() else ()
    from ..document_loading import load_document

    document = load_document(file, dialect=dialect, mcp_file=mcp)
    values = given_arguments(arguments or [], document.tool(tool))
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        from ..api import McpGraphApi
        from ..graph_cases import recorded_case, run_case
        from ..run_control import RunError

        api = stack.enter_context(McpGraphApi(document, secret_arguments=secret_argument or ()))
        secrets = api.secrets_of(tool, values)
        shown = " ".join([tool, *(arguments or [])])
        try:
            case = recorded_case(
                document,
                name or secrets.text(shown),
                tool,
                values,
                call=api.sessions.call,
                secrets=secrets,
                is_canceled=interrupt,
            )
        except RunError as error:
            complain(coded(secrets.text(error.sentence), error.error_code))
            return ExitCode.CANCELED if error.kind == "stopped" else ExitCode.FAILED
    # A case of the same name is recorded anew.
    others = [other for other in before if other.name != case.name]
    text = json.dumps({"cases": [one.to_json() for one in (*others, case)]}, ensure_ascii=False, indent=2)
    with writing(kept_in):
        kept_in.write_text(f"{text}\n", encoding="utf-8")
    count = counted(len(case.calls), "call")
    note(f"Saved '{case.name}' in {kept_in}: {' → '.join(case.path or ())}, {count}")
    if case.error is not None:
        note(f"The run failed, which the case expects: {case.error}")
    # At once, as a case that fails by itself would be blamed on the next change.
    failures = run_case(document, case).failures
    if failures:
        complain(
            f"The case does not repeat itself, as where a time or chance is in it: {'; '.join(failures)}."
            f" Expect less of it in {kept_in}."
        )
    return ExitCode.FAILED if failures else ExitCode.OK


@reports_errors
def run_cases(
    file: FileArgument,
    cases: CasesOption = None,
    case: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this case; may be repeated.")
    ] = None,
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> ExitCode:
    """Run the cases of a graph document with their recorded replies: no server is started or called.

    The exit code is 0 if all cases give what they expect. The report names nodes that no case runs.

    Example: mcpgraph test tools.yaml
    """
    from ..graph_cases import cases_file

    kept_in = cases or cases_file(file)
    if not kept_in.exists():
        raise UsageError(f"There is no {kept_in}. Make it with: mcpgraph record {file} TOOL.")
    chosen = _chosen(_read(kept_in), case or [], kept_in)
    from ..document_loading import load_document

    # No server is called, so secrets may be missing.
    document = load_document(file, dialect=dialect, mcp_file=mcp, environ=None)
    outcomes: list[CaseOutcome] = []
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        from ..graph_cases import run_case
        from ..run_control import RunError

        try:
            for one in chosen:
                outcomes.append(run_case(document, one, is_canceled=interrupt))
                if not as_json:
                    _say_outcome(outcomes[-1])
        except RunError as error:
            complain(coded(error.sentence, error.error_code))
            return ExitCode.CANCELED
    return _report(file, document, outcomes, as_json=as_json)


def _chosen(cases: Sequence[GraphCase], names: Sequence[str], file: Path) -> list[GraphCase]:
    known = [case.name for case in cases]
    for name in names:
        if name not in known:
            fix = did_you_mean(name, known) or f"It has: {', '.join(known) or 'none'}."
            raise UsageError(f"{file} has no case '{name}'. {fix}")
    if not cases:
        raise CommandError(f"{file} has no cases.")
    return [case for case in cases if not names or case.name in names]


def _say_outcome(outcome: CaseOutcome) -> None:
    if not outcome.failures:
        say(f"ok    {outcome.case.name}")
        return
    say(f"FAIL  {outcome.case.name}", "bold red")
    for failure in outcome.failures:
        say(f"      {failure}".replace("\n", "\n      "))


def _report(file: Path, document: GraphDocument, outcomes: list[CaseOutcome], *, as_json: bool) -> ExitCode:
    ran = frozenset[tuple[str, str]]().union(*(outcome.nodes for outcome in outcomes))
    nodes = [(tool.name, node.id) for tool in document.tools for node in tool.nodes]
    never = [f"{tool}.{node}" for tool, node in nodes if (tool, node) not in ran]
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    if as_json:
        listed: list[dict[str, Any]] = [
            {
                "name": one.case.name,
                "tool": one.case.tool,
                "ok": not one.failures,
                "failures": list(one.failures),
            }
            for one in outcomes
        ]
        counts = {"all": len(nodes), "ran": len(nodes) - len(never), "never": never}
        print_json({"file": str(file), "ok": not failed, "cases": listed, "nodes": counts})
        return ExitCode.FAILED if failed else ExitCode.OK
    if never:
        note(f"No case runs: {', '.join(never)}")
    counted_cases = f"{counted(len(outcomes), 'case')}, {failed} failed"
    say(
        f"{file}: {counted_cases}, {len(nodes) - len(never)} of {counted(len(nodes), 'node')} ran",
        "bold red" if failed else "bold green",
    )
    return ExitCode.FAILED if failed else ExitCode.OK
