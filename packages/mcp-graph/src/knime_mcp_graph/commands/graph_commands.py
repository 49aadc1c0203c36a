"""``mcpgraph``: documents that declare tools as graphs, checked, drawn, run and served."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from knime_mcp.cli.command_errors import CommandError, ExitCode, Interrupt, UsageError, reports_errors
from knime_mcp.cli.files import (
    check_journal,
    check_output,
    check_page,
    read_json,
    recorded_run,
    split_pairs,
    text_or_file,
    with_pairs,
    write_page,
    writing,
)
from knime_mcp.cli.serving import LogLevel, check_exposure
from knime_mcp.cli.shared_options import HostOption, HttpOption, LogLevelOption
from knime_mcp.cli.terminal import LONGEST_ERROR, complain, note, print_json, print_text, say
from knime_mcp.types.errors import coded
from knime_mcp.types.texts import beginning, counted, why_no_json

from .program import DialectChoice, serve_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knime_mcp.audit.secrets import SecretMarker

    from ..graph_model import GraphDocument, GraphTool
    from ..nodes import Node
    from ..run_state import NodeRecord


_LONGEST = 2000
_EXAMPLE = '{"name": "value"}'
_JSON_BEGINS = ("{", "[", '"', "@")


FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A graph document (YAML).")]
DialectOption = Annotated[
    DialectChoice,
    typer.Option(help="By which of its two forms the document is read, if 'check' names the wrong one."),
]
McpFileOption = Annotated[
    Path | None,
    typer.Option("--mcp", "-m", metavar="MCP.json", help="Further servers; the document's count first."),
]
AuditOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="Add a record of each call to this journal."),
]
SecretArgumentOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Hide this argument wherever runs and calls are on record; may be repeated.",
    ),
]
NoValidateOption = Annotated[
    bool, typer.Option("--no-validate", help="Let arguments and results differ from their schemas.")
]


@reports_errors
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("graph.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> ExitCode:
    """Write a graph document to start with: commented, and it runs as it is.

    Example: mcpgraph new tools.yaml
    """
    from ..document_loading import STARTER

    check_output(file)
    if file.exists() and not force:
        raise CommandError(f"{file} exists. Choose another name, or replace it with --force.")
    with writing(file):
        file.write_bytes(STARTER.read_bytes())
    note(f"Wrote {file}. Next: mcpgraph check {file}")
    return ExitCode.OK


@reports_errors
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

    Each problem comes with line, column and key path. The exit code is 0 without errors. What surely fails
    when it runs is an error, though the rest of the document can be served.

    Example: mcpgraph check tools.yaml --online
    """
    from knime_mcp.yaml_text import Severity, sorted_problems

    from ..document_loading import check_document

    checked = check_document(file, dialect=dialect, mcp_file=mcp, environ=os.environ)
    problems = checked.problems
    if online and checked.document is not None:
        from ..online_checks import check_online

        asked = check_online(checked.document)
        # Once more, with what is known now of the outputs that expressions read.
        checked = check_document(file, dialect=dialect, mcp_file=mcp, environ=os.environ, called=asked.tools)
        problems = sorted_problems([*checked.problems, *asked.problems])
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
                "problems": [problem.to_json() for problem in problems],
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


@reports_errors
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

    Example: mcpgraph show tools.yaml --html tools.html
    """
    check_page(html)
    if run is not None and html is None:
        raise UsageError("--run needs --html OUT.html: a run is shown in a page.")
    from ..document_loading import load_document

    # No server is called, so secrets may be missing.
    document = load_document(file, dialect=dialect, mcp_file=mcp, environ=None)
    tools: tuple[GraphTool, ...] = document.tools
    if tool is not None:
        tools = tuple(definition for definition in tools if definition.name == tool)
        if not tools:
            raise UsageError(f"There is no tool '{tool}'. {_tools_of(document)}")
    if html is None:
        from ..graph_drawing import mermaid

        for number, definition in enumerate(tools):
            heading = f"%% {definition.name}\n" if len(tools) > 1 else ""
            print_text(f"{chr(10) if number else ''}{heading}{mermaid(definition)}".rstrip("\n"))
        return ExitCode.OK
    from .graph_page import graph_page

    recorded = read_json(run) if run is not None else None
    write_page(html, graph_page(file.name, document, tools, recorded))
    return ExitCode.OK


@reports_errors
def run(
    file: FileArgument,
    tool: Annotated[
        str | None, typer.Argument(metavar="TOOL", help="The tool of the document.", show_default=False)
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE|JSON|@FILE",
            help="Its arguments, each as key=value or key:=JSON; or all as a JSON object, or a file with one;"
            " @- reads stdin.",
        ),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show input, expression and output of each node.")
    ] = False,
    secret_argument: SecretArgumentOption = None,
    save_run: Annotated[
        Path | None,
        typer.Option(metavar="RUN.json", help="Save what ran; mcpgraph show --run draws it."),
    ] = None,
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    audit: AuditOption = None,
    no_validate: NoValidateOption = False,
) -> ExitCode:
    """Run a tool of a graph document once, and print its result.

    Each node is named on standard error as it ends.

    Example: mcpgraph run tools.yaml count_files directory=/tmp --trace
    """
    check_output(save_run)
    check_journal(audit)
    from ..document_loading import load_document

    document = load_document(file, dialect=dialect, mcp_file=mcp)
    if tool is None:
        raise UsageError(f"Which tool? Write its name after the file. {_tools_of(document)}")
    values = given_arguments(arguments or [], document.tool(tool))
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        from ..api import McpGraphApi, spans_from_environment
        from ..run_control import Hooks, RunError

        spans = spans_from_environment()
        if spans is not None:
            stack.callback(spans.close)
        about = f"mcpgraph run {file.name} {tool}"
        run = stack.enter_context(recorded_run(audit, about=about))
        api = stack.enter_context(
            McpGraphApi(
                document,
                run=run,
                spans=spans,
                check_schemas=not no_validate,
                secret_arguments=secret_argument or (),
            )
        )
        # The limit is of the process, which does nothing else here.
        api.executor.hold_memory()
        secrets = api.secrets_of(tool, values)
        definition = document.tool(tool)
        shown = secrets.mark(values, *([definition.input_schema_json] if definition else []))
        printer = _Printer(secrets, full=trace)
        hooks = Hooks(
            on_node_complete=printer.completed,
            on_node_error=printer.failed,
        )
        try:
            result = api.executor.run(tool, values, hooks=hooks, is_canceled=interrupt)
        except RunError as error:
            message = secrets.text(error.sentence)
            _save(save_run, secrets, tool, shown, error.history, error=message)
            complain(coded(beginning(message, LONGEST_ERROR), error.error_code))
            is_stopped = error.kind == "stopped"
            # The block ends without an exception, and would be on record as complete.
            if run is not None:
                run.close("canceled" if is_stopped else "failed")
            return ExitCode.CANCELED if is_stopped else ExitCode.FAILED
        _save(save_run, secrets, tool, shown, result.history, result=result.result)
        _print_result(tool, result.result, secrets)
    return ExitCode.OK


def _print_result(tool: str, result: Any, secrets: SecretMarker) -> None:
    counts: Counter[str] = Counter()
    print_json(secrets.data(result, counts))
    if counts:
        from knime_mcp.audit.secrets import hidden_note

        note(hidden_note(tool, counts.total()))


def _tools_of(document: GraphDocument) -> str:
    return f"The document has: {', '.join(tool.name for tool in document.tools) or 'none'}."


class _Printer:
    """Prints each node when it ends, with marks instead of the credentials of servers."""

    def __init__(self, secrets: SecretMarker, *, full: bool) -> None:
        self._secrets = secrets
        self._full = full

    def completed(self, record: NodeRecord, node: Node, context: Mapping[str, Any]) -> None:
        self._show(record, node, context, "")

    def failed(self, record: NodeRecord, node: Node, _error: Exception) -> None:
        self._show(record, node, record.context(), " failed")

    def _show(self, record: NodeRecord, node: Node, context: Mapping[str, Any], ending: str) -> None:
        branch = f" {'/'.join(record.branch)}" if record.branch else ""
        took = f"{record.duration or 0:.1f} ms"
        note(f"{record.index:4} {record.node_id} ({record.node_type}){branch} {took}{ending}")
        if not self._full:
            return
        from ..expressions.javascript import json_value
        from ..graph_model import shown_part

        shown = record.to_json(self._secrets)
        seen = shown["input"] if "input" in shown else record.context_without(self._secrets, context)
        note(f"       input:      {_short(seen)}")
        for name, part in node.parts:
            value = shown_part(part)
            text = _lines(value) if isinstance(value, str) else _short(self._secrets.shown(json_value(value)))
            note(f"       {name + ':':<11} {text}")
        note(f"       output:     {_short(shown['output']) if 'output' in shown else 'nothing'}")
        if record.nothing:
            note(f"       nothing at: {', '.join(record.nothing)}")
        if record.error is not None:
            note(f"       error:      {self._secrets.text(record.error)}")


def _short(value: Any) -> str:
    return beginning(json.dumps(value, ensure_ascii=False, default=str), _LONGEST)


def _lines(text: str) -> str:
    return text.strip().replace("\n", "\n                   ")


def given_arguments(words: list[str], tool: GraphTool | None) -> dict[str, Any]:
    """The arguments of a tool, from the words after its name."""
    values: dict[str, Any] = {}
    for word in words:
        if word.startswith(_JSON_BEGINS):
            values |= _json_object(word)
    pairs = split_pairs(word for word in words if not word.startswith(_JSON_BEGINS))
    return with_pairs(values, pairs, {} if tool is None else tool.input_schema) if pairs else values


def _json_object(text: str) -> dict[str, Any]:
    json_text, source = text_or_file(text, "the arguments")
    try:
        parsed = json.loads(json_text)
    except (ValueError, RecursionError) as error:
        why = "The arguments cannot" if source == "the arguments" else f"The arguments in {source} cannot"
        raise UsageError(
            f"{why} be read as JSON: {why_no_json(error)}. Write them as key=value, or as '{_EXAMPLE}'."
        ) from None
    if not isinstance(parsed, dict):
        raise UsageError(f"The arguments must be a JSON object, such as '{_EXAMPLE}', or key=value.")
    return cast("dict[str, Any]", parsed)


def _save(
    file: Path | None,
    secrets: SecretMarker,
    tool: str,
    arguments: Any,
    history: tuple[NodeRecord, ...],
    *,
    result: Any = None,
    error: str | None = None,
) -> None:
    if file is None:
        return
    saved = {
        "tool": tool,
        "arguments": arguments,
        "executionHistory": [record.to_json(secrets) for record in history],
        **({"result": secrets.shown(result)} if error is None else {"error": {"message": error}}),
    }
    with writing(file):
        file.write_text(json.dumps(saved, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    note(f"Saved {file}")


@reports_errors
def serve(
    file: FileArgument,
    http: HttpOption = None,
    host: HostOption = "127.0.0.1",
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    audit: AuditOption = None,
    secret_argument: SecretArgumentOption = None,
    no_reload: Annotated[
        bool, typer.Option("--no-reload", help="Serve the document as it is now, whatever becomes of it.")
    ] = False,
    no_validate: NoValidateOption = False,
    unprotected: Annotated[
        bool,
        typer.Option("--unprotected", help="Let everybody call who reaches the address."),
    ] = False,
    tokens_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Let in only clients with a bearer token of this file, one a line.",
        ),
    ] = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> ExitCode:
    """Serve the tools of a graph document as an MCP server.

    Over standard input and output, as programs start it, or over HTTP. OTEL_EXPORTER_OTLP_ENDPOINT sends a
    span per run and node there.

    Example: mcpgraph serve tools.yaml --http 8080
    """
    what = "call these tools, with the rights of this program and the credentials of its servers"
    if tokens_file is not None and (http is None or unprotected):
        raise UsageError(f"--tokens-file does not go with {'--unprotected' if unprotected else 'stdin'}.")
    if http is not None and tokens_file is None:
        instead = "--tokens-file FILE asks for a bearer token"
        check_exposure(host, what, instead, unprotected=unprotected)
    return serve_document(
        file,
        http=http,
        host=host,
        mcp=mcp,
        dialect=dialect,
        audit=audit,
        secret_arguments=secret_argument or (),
        reload=not no_reload,
        validate=not no_validate,
        log_level=log_level,
        tokens=tokens_file,
    )
