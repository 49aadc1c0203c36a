"""The tables *Tools* and *Servers*: their columns and rows. The names and types of columns must not change.

The schemas for ``configure`` and the tables for ``execute`` are made from the same lists of columns, so that
they cannot differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...types.canonical import compact_json, without_surrogates
from ...types.column_kinds import ROW_ID, arrow_columns, knime_columns
from ...types.columns import column_name, knime_type, write_tools
from .example_arguments import example_arguments
from .findings import findings_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ...client.protocol.tools import ToolDefinition
    from ...types.column_kinds import ColumnKind
    from ...types.columns import ColumnForm
    from .provide import ProvidedTool, ServerOutcome

TOOLS_COLUMNS: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Tool name", "string"),
    ("Tool type", "string"),
    ("Server", "string"),
    ("Title", "string"),
    ("Description", "string"),
    ("Parameters", "string"),
    ("Example arguments", "string"),
    ("Read only", "boolean"),
    ("Destructive", "boolean"),
    ("Context tokens", "int32"),
    ("Security findings", "string"),
    ("Digest", "string"),
)
"""The columns of *Tools* after the tool column."""

SERVERS_COLUMNS: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Status", "string"),
    ("Server", "string"),
    ("Server version", "string"),
    ("Protocol", "string"),
    ("Tools", "int32"),
    ("Phase", "string"),
    ("Error", "string"),
    ("Next step", "string"),
)
"""The columns of *Servers*."""


def tools_schema(form: ColumnForm) -> Any:
    """Makes the `knext.Schema` of *Tools*."""
    import knime.extension as knext

    tool = knext.Column(knime_type(form), column_name(form))
    return knext.Schema.from_columns([tool, *knime_columns(TOOLS_COLUMNS)])


def servers_schema() -> Any:
    """Makes the `knext.Schema` of *Servers*."""
    import knime.extension as knext

    return knext.Schema.from_columns(knime_columns(SERVERS_COLUMNS))


def tools_table(tools: Sequence[ProvidedTool], form: ColumnForm) -> pa.Table:
    """Makes the table *Tools*; the shown names are unique and become the RowIDs."""
    import pyarrow as pa

    rows = [_tool_row(tool) for tool in tools]
    ids = pa.array([tool.shown_name for tool in tools], pa.string())
    cells = write_tools([tool.tool for tool in tools], form)
    return pa.table({ROW_ID: ids, column_name(form): cells, **arrow_columns(TOOLS_COLUMNS, rows)})


def servers_table(outcomes: Sequence[ServerOutcome]) -> pa.Table:
    """Makes the table *Servers*; the rows of the requests become the RowIDs."""
    import pyarrow as pa

    ids = pa.array([outcome.request.row for outcome in outcomes], pa.string())
    rows = [_server_row(outcome) for outcome in outcomes]
    return pa.table({ROW_ID: ids, **arrow_columns(SERVERS_COLUMNS, rows)})


def _context_tokens(definition: ToolDefinition, shown_name: str) -> int:
    """Estimates the tokens that a tool takes in a model's context.

    A quarter of the UTF-8 bytes of name, description and schema as sent to a model, rounded up: a rule of
    thumb that is right within a third for English and JSON.
    """
    shown = {"name": shown_name, "description": definition.description or ""}
    return -(-len(compact_json(shown | {"parameters": definition.input_schema}).encode()) // 4)


def _tool_row(tool: ProvidedTool) -> tuple[Any, ...]:
    definition = tool.definition
    return (
        tool.shown_name,
        "mcp",
        tool.tool.route.display,
        _text(definition.display_title),
        _text(definition.description),
        tool.tool.schema_json,
        example_arguments(definition.input_schema),
        definition.read_only,
        definition.destructive,
        _context_tokens(definition, tool.shown_name),
        findings_json(tool.findings),
        definition.digest,
    )


def _server_row(outcome: ServerOutcome) -> tuple[Any, ...]:
    error, server = outcome.error, outcome.server
    name_and_version = " ".join(filter(None, (server.name, server.version))) if server else None
    return (
        "failed" if error else "ok",
        outcome.request.server or None,
        _text(name_and_version or None),
        server.protocol_version if server else None,
        len(outcome.tools),
        outcome.phase,
        _text(error.what) if error else None,
        _text(error.fix) if error else None,
    )


def _text(text: str | None) -> str | None:
    return None if text is None else without_surrogates(text)
