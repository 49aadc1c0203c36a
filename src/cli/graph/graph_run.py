"""``knime-mcp graph run``: runs a tool of a document once."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ...types.texts import why_no_json
from ..command_errors import ExitCode, UsageError, needs_graph, reports_errors
from ..files import check_journal, check_output, open_journal, text_or_file, writing
from ..interrupt import Interrupt
from ..key_value import split_pairs, with_pairs
from ..terminal import complain, note, print_json
from .graph_commands import AuditOption, DialectOption, FileArgument, McpFileOption
from .graph_documents import DialectChoice, read_document, usable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...audit.secrets import SecretMarker
    from ...graph.graph_model import Node
    from ...graph.run_state import NodeRecord

_LONGEST = 2000
_EXAMPLE = '{"name": "value"}'
_JSON_BEGINS = ("{", "[", '"', "@")


@reports_errors
@needs_graph
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
    save_run: Annotated[
        Path | None,
        typer.Option(metavar="RUN.json", help="Save what ran; knime-mcp graph show --run draws it."),
    ] = None,
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    audit: AuditOption = None,
    validate: Annotated[
        bool, typer.Option(help="Compare arguments and result with the schemas in the document.")
    ] = True,
) -> ExitCode:
    """Run a tool of a graph document once, and print its result.

    Each node is named on standard error as it ends.

    Example: knime-mcp graph run tools.yaml count_files directory=/tmp --trace
    """
    words = arguments or []
    given = [_json_object(word) for word in words if word.startswith(_JSON_BEGINS)]
    pairs = split_pairs(word for word in words if not word.startswith(_JSON_BEGINS))
    check_output(save_run)
    check_journal(audit)
    document = usable(file, read_document(file, dialect=dialect, mcp_file=mcp))
    if tool is None:
        known = ", ".join(definition.name for definition in document.tools) or "none"
        raise UsageError(f"Which tool? Write its name after the file. The document has: {known}.")
    values: dict[str, Any] = {}
    for part in given:
        values |= part
    if pairs:
        definition = document.tool(tool)
        values = with_pairs(values, pairs, {} if definition is None else definition.input_schema)
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        from ...graph.api import McpGraphApi
        from ...graph.graph_spans import spans_from_environment
        from ...graph.run_control import Hooks, RunError

        spans = spans_from_environment()
        if spans is not None:
            stack.callback(spans.close)
        journal = stack.enter_context(open_journal(audit, about=f"knime-mcp graph run {file.name} {tool}"))
        api = stack.enter_context(McpGraphApi(document, journal=journal, spans=spans, check_schemas=validate))
        printer = _Printer(api.secrets, full=trace)
        hooks = Hooks(on_node_complete=printer.completed, on_node_error=printer.failed)
        try:
            result = api.executor.run(tool, values, hooks=hooks, is_canceled=interrupt)
        except RunError as error:
            message = api.secrets.scrub(str(error))
            _save(save_run, api.secrets, tool, values, error.history, error=message)
            complain(message)
            return ExitCode.CANCELED if error.kind == "stopped" else ExitCode.FAILED
        _save(save_run, api.secrets, tool, values, result.history, result=result.result)
        print_json(result.result)
    return ExitCode.OK


class _Printer:
    """Prints each node when it ends, with marks instead of the credentials of servers."""

    def __init__(self, secrets: SecretMarker, *, full: bool) -> None:
        self._secrets = secrets
        self._full = full

    def completed(self, record: NodeRecord, node: Node, context: Mapping[str, Any]) -> None:
        """Prints a node that has ended."""
        self._show(record, node, context, "")

    def failed(self, record: NodeRecord, node: Node, _error: Exception) -> None:
        """Prints a node that has failed."""
        self._show(record, node, record.context(), " failed")

    def _show(self, record: NodeRecord, node: Node, context: Mapping[str, Any], ending: str) -> None:
        branch = f" {'/'.join(record.branch)}" if record.branch else ""
        took = f"{record.duration or 0:.1f} ms"
        note(f"{record.index:4} {record.node_id} ({record.node_type}){branch} {took}{ending}")
        if not self._full:
            return
        from ...graph.expressions import UNDEFINED
        from ...graph.graph_model import evaluated

        note(f"       input:      {self._short(context if record.input is UNDEFINED else record.input)}")
        for name, value in evaluated(node):
            note(f"       {name + ':':<11} {_lines(value) if isinstance(value, str) else self._short(value)}")
        note(f"       output:     {self._short(record.output)}")
        if record.error is not None:
            note(f"       error:      {self._secrets.scrub(record.error)}")

    def _short(self, value: Any) -> str:
        from ...graph.expressions import UNDEFINED
        from ...graph.expressions.javascript import json_value

        if value is UNDEFINED:
            return "nothing"
        text = json.dumps(self._secrets.scrub(json_value(value)), ensure_ascii=False, default=str)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def _lines(text: str) -> str:
    return text.strip().replace("\n", "\n                   ")


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
        "executionHistory": [record.to_json() for record in history],
        **({"result": result} if error is None else {"error": {"message": error}}),
    }
    with writing(file):
        file.write_text(
            json.dumps(secrets.scrub(saved), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
    note(f"Saved {file}")
