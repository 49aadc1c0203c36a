"""``knime-mcp graph``: documents that declare tools as graphs, checked, drawn and served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...types.texts import counted
from ..command_errors import CommandError, ExitCode, UsageError, needs_graph, reports_errors
from ..files import check_output, check_page, read_json, write_page, writing
from ..serving import LogLevel
from ..shared_options import HostOption, HttpOption, LogLevelOption
from ..terminal import complain, note, print_json, print_text, say
from .graph_documents import DialectChoice, read_document, serve_document, usable

if TYPE_CHECKING:
    from ...graph.graph_model import ToolDefinition
    from ...yaml_text import Problem


FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A graph document (YAML).")]
DialectOption = Annotated[
    DialectChoice,
    typer.Option(
        help="How the document is written: 'target' (conditions have a target, arguments that begin with $"
        " are expressions) or 'next' (conditions have a next, expressions are written {expr: ...})."
    ),
]
McpFileOption = Annotated[
    Path | None,
    typer.Option(
        "--mcp", "-m", metavar="MCP.json", help="Further servers; those of the document win on a clash."
    ),
]

AuditOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="Add a record of each call that a graph makes to this journal."),
]


@reports_errors
@needs_graph
def check(
    file: FileArgument,
    online: Annotated[
        bool,
        typer.Option(
            "--online", help="Also ask the servers whether they have the tools, and compare the arguments."
        ),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail as well.")] = False,
    dialect: DialectOption = DialectChoice.AUTO,
    mcp: McpFileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> ExitCode:
    """Find everything that is wrong with a graph document: syntax, expressions, ways through the graph.

    Each problem comes with line, column and key path. The exit code is 0 if the document can be served.

    Example: knime-mcp graph check tools.yaml --online
    """
    from ...yaml_text import Severity, sorted_problems

    checked = read_document(file, dialect=dialect, mcp_file=mcp)
    problems = checked.problems
    if online and checked.document is not None:
        from ...graph.online_checks import check_online

        problems = sorted_problems([*problems, *check_online(checked.document)])
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    warnings = len(problems) - errors
    failed = errors > 0 or (strict and warnings > 0)
    if as_json:
        document = checked.document
        print_json(
            {
                "file": str(file),
                "ok": not failed,
                "dialect": checked.dialect.dialect.value if checked.dialect else None,
                "tools": [tool.name for tool in document.tools] if document else [],
                "problems": [_problem_json(problem) for problem in problems],
            }
        )
        return ExitCode.FAILED if failed else ExitCode.OK
    for problem in problems:
        tell = complain if problem.severity is Severity.ERROR else note
        tell(problem.text(str(file)))
    if checked.dialect is not None:
        note(f"Dialect '{checked.dialect.dialect}': {checked.dialect.reason}.")
    counts = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
    if checked.document is not None:
        counts = f"{counted(len(checked.document.tools), 'tool')}, {counts}"
    say(f"{file}: {counts}", "bold red" if failed else "bold green")
    return ExitCode.FAILED if failed else ExitCode.OK


def _problem_json(problem: Problem) -> dict[str, Any]:
    position = problem.position
    return {
        "severity": problem.severity.value,
        "message": problem.message,
        "fix": problem.fix,
        "file": problem.file,
        "line": position.line if position else None,
        "column": position.column if position else None,
        "path": position.key_path if position else None,
    }


@reports_errors
@needs_graph
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("graph.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> ExitCode:
    """Write a graph document to start with: commented, and it runs as it is.

    Example: knime-mcp graph new tools.yaml
    """
    from ...graph.document_source import STARTER

    check_output(file)
    if file.exists() and not force:
        raise CommandError(f"{file} exists. Choose another name, or replace it with --force.")
    with writing(file):
        file.write_bytes(STARTER.read_bytes())
    note(f"Wrote {file}. Next: knime-mcp graph check {file}")
    return ExitCode.OK


@reports_errors
@needs_graph
def show(
    file: FileArgument,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tool.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="OUT.html", help="Write a page for a browser instead of Mermaid text."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN.json",
            help="A recorded run (its history as JSON): the page shows path, inputs, outputs.",
        ),
    ] = None,
    dialect: DialectOption = DialectChoice.AUTO,
    mcp: McpFileOption = None,
) -> ExitCode:
    """Draw the graphs of a document, as Mermaid text or as a page for a browser.

    Example: knime-mcp graph show tools.yaml --html tools.html
    """
    check_page(html)
    if run is not None and html is None:
        raise UsageError("--run needs --html OUT.html: a run is shown in a page.")
    # No server is called, so secrets may be missing.
    document = usable(file, read_document(file, dialect=dialect, mcp_file=mcp, fill_in=False))
    tools: tuple[ToolDefinition, ...] = document.tools
    if tool is not None:
        tools = tuple(definition for definition in tools if definition.name == tool)
        if not tools:
            known = ", ".join(definition.name for definition in document.tools) or "none"
            raise UsageError(f"There is no tool '{tool}'. The document has: {known}.")
    if html is None:
        from ...graph.graph_drawing import mermaid

        for number, definition in enumerate(tools):
            heading = f"%% {definition.name}\n" if len(tools) > 1 else ""
            print_text(f"{chr(10) if number else ''}{heading}{mermaid(definition)}".rstrip("\n"))
        return ExitCode.OK
    from .graph_page import graph_page

    recorded = read_json(run) if run is not None else None
    write_page(html, graph_page(file.name, document, tools, recorded))
    return ExitCode.OK


@reports_errors
@needs_graph
def serve(
    file: FileArgument,
    http: HttpOption = None,
    host: HostOption = "127.0.0.1",
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    audit: AuditOption = None,
    reload: Annotated[bool, typer.Option(help="Apply changes of the document while it is served.")] = True,
    validate: Annotated[
        bool, typer.Option(help="Compare arguments and results with the schemas in the document.")
    ] = True,
    log_level: LogLevelOption = LogLevel.INFO,
) -> ExitCode:
    """Serve the tools of a graph document as an MCP server.

    Over standard input and output, as programs start it, or over HTTP. OTEL_EXPORTER_OTLP_ENDPOINT sends a
    span per run and node there.

    Example: knime-mcp graph serve tools.yaml --http 8080
    """
    return serve_document(
        file,
        http=http,
        host=host,
        mcp=mcp,
        dialect=dialect,
        audit=audit,
        reload=reload,
        validate=validate,
        log_level=log_level,
    )
