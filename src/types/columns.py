"""The columns of the nodes' tables: their kinds, for Arrow and for KNIME, and tool columns of any form.

KNIME accepts no new cell type from a Python extension, so the form of a tool column depends on the KNIME in
which a node runs. The available cell types are looked up in KNIME's registry, not derived from its version.
Arrow is loaded when a column is written or read, as commands that do neither start without it.
"""

from __future__ import annotations

import difflib
import importlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from .errors import MCPError, SettingInvalid, ToolFormatError, ToolNotFound
from .routing import qualified, server_labels
from .texts import counted
from .tool import MCPTool, WorkflowTool, from_json_text, from_json_value, to_json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import knime.extension as knext
    import pyarrow as pa

    from .arrow import CarrierCell
    from .tool import Tool


AUTO: Final = "<auto>"
"""The value of the setting *Tool column* for all tool columns."""

ROW_ID: Final = "<RowID>"
"""The name of the first column of Arrow data, from which KNIME takes the RowIDs."""

ColumnKind = Literal["string", "int32", "int64", "double", "boolean", "date", "moment"]
"""The kind of values in a column. A moment is in UTC, with microseconds."""


# A node promises its columns in `configure` and delivers them in `execute`. Both are made from the same list
# of columns, by `knime_columns` and `arrow_columns`, so that they cannot differ.


def arrow_type(kind: ColumnKind) -> pa.DataType:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "moment": pa.timestamp("us", tz="UTC"),
    }
    return types[kind]


def arrow_columns(
    columns: Sequence[tuple[str, ColumnKind]], rows: Sequence[Sequence[Any]]
) -> dict[str, pa.Array]:
    """The columns of a table, from their names and kinds, and rows with one value per column."""
    import pyarrow as pa

    return {
        name: pa.array([row[place] for row in rows], arrow_type(kind))
        for place, (name, kind) in enumerate(columns)
    }


def knime_columns(columns: Iterable[tuple[str, ColumnKind]]) -> list[Any]:
    """The columns of a schema, a `knext.Column` for each name and kind."""
    import knime.extension as knext

    types = {
        "string": knext.string(),
        "int32": knext.int32(),
        "int64": knext.int64(),
        "double": knext.double(),
        "boolean": knext.bool_(),
        "date": knext.datetime(date=True, time=False, timezone=False),
        "moment": knext.datetime(date=True, time=True, timezone=True),
    }
    return [knext.Column(types[kind], name) for name, kind in columns]


# The Java classes by which KNIME knows cell types.
NATIVE_FACTORY: Final = "org.knime_mcp.types.ToolValueFactory"
"""The project's own cell type, which the stand-in has; there is no such Java class, so KNIME has it not."""
CARRIER_FACTORY: Final = "org.knime.core.node.agentic.tool.WorkflowToolValueFactory"
"""Today's cell type of workflow tools."""
KNIME_TOOL_FACTORY: Final = "org.knime.core.node.agentic.tool.ToolValueFactory"
"""KNIME's future cell type of tools of both kinds."""

_PORTABLE_NAME: Final = re.compile(r"Tool \(JSON\)( \(.+\))?")
_JSON_FACTORY: Final = "org.knime.core.data.json.JSONValueFactory"
_TOOL_FACTORIES: Final = frozenset({NATIVE_FACTORY, KNIME_TOOL_FACTORY, CARRIER_FACTORY})


class ColumnForm(StrEnum):
    NATIVE = "native"
    """A cell type for tools of both kinds: KNIME's own if it has one, the project's outside KNIME."""

    CARRIER = "carrier"
    """KNIME's cell type for workflow tools; an MCP tool travels in it."""

    PORTABLE = "portable"
    """A String column with JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeCell:
    """KNIME's own cell of a workflow tool, kept unchanged for execution."""

    kind: Any  # the cell's type, whose value factory makes the value
    cells: Any  # of the column
    position: int

    def value(self) -> object:
        return self.kind.decode(self.cells[self.position].as_py())


def choose_form(wanted: Literal["auto", "native", "carrier", "portable"]) -> ColumnForm:
    """The form in which a node writes tools; ``auto`` is the first one that this KNIME supports."""
    if wanted == "auto":
        # In the order of the enum, whose last form every KNIME has.
        return next(form for form in ColumnForm if _type_of(form) is not None)
    form = ColumnForm(wanted)
    knime_type(form)  # raises for a form that is not supported
    return form


def column_name(form: ColumnForm) -> str:
    """The name of the tool column: ``Tool``, or ``Tool (JSON)`` for a text column."""
    return "Tool (JSON)" if form is ColumnForm.PORTABLE else "Tool"


def knime_type(form: ColumnForm) -> Any:
    """KNIME's type of a column of the form; `SettingInvalid` if this KNIME does not support it."""
    kind = _type_of(form)
    if kind is None:
        raise SettingInvalid(
            f"This KNIME has no cell type for tool columns of the form '{form}'",
            setting="column_form",
            fix="Choose 'auto'",
        )
    return kind


NO_TOOL: Final = MCPTool(
    "(no such tool)", "There is no such tool: the call was not made", "{}", "stdio:none", "none"
)
"""Stands in result tables for a tool that was not found: KNIME's pandas cannot read a missing tool cell."""


def cells_without_gaps(tools: Iterable[Tool | None], form: ColumnForm) -> list[Tool | None]:
    """The tools for `write_tools`, with `NO_TOOL` instead of missing cells, which text columns may have."""
    return [NO_TOOL if tool is None and form is not ColumnForm.PORTABLE else tool for tool in tools]


def write_tools(
    tools: Sequence[Tool | None], form: ColumnForm, cells: Sequence[CarrierCell] | None = None
) -> pa.Array:
    """Makes the tool column of a node's output, None for a missing cell; as carrier only in ``execute``.

    ``cells`` are what KNIME's own agents run, see `encode_carrier`.

    The array has the type that `knext.Table.from_pyarrow` requires for such a column.
    """
    import pyarrow as pa

    from . import arrow

    if form is ColumnForm.PORTABLE:
        return pa.array([None if tool is None else to_json_text(tool) for tool in tools], pa.string())
    kind = knime_type(form).to_pyarrow()
    match form:
        case ColumnForm.CARRIER:
            layout, encode = arrow.CARRIER_STORAGE, partial(arrow.encode_carrier, cells=cells)
        case ColumnForm.NATIVE if kind.storage_type == arrow.KNIME_TOOL_STORAGE:
            layout, encode = arrow.KNIME_TOOL_STORAGE, arrow.encode_knime_tools
        case ColumnForm.NATIVE:
            layout, encode = arrow.TOOL_STORAGE, arrow.encode_tools
        case _:
            assert_never(form)
    # Java refuses, or misreads, a struct that differs from its own; so does an older cell of a newer KNIME.
    if kind.storage_type != layout:
        raise _unknown_layout(kind.storage_type, layout, None)
    return pa.ExtensionArray.from_storage(kind, encode(tools))


def is_tool_column(column: knext.Column) -> bool:
    """Whether a column holds tools by its type, or is a text or JSON column with the tool column's name."""
    factory = java_factory(column.ktype)
    may_be_json = _is_text(column) or factory == _JSON_FACTORY
    return factory in _TOOL_FACTORIES or (may_be_json and bool(_PORTABLE_NAME.fullmatch(column.name)))


def may_hold_tools(column: knext.Column) -> bool:
    """Whether a column can be chosen as tool column: a tool, text or JSON column."""
    return is_tool_column(column) or _is_text(column) or java_factory(column.ktype) == _JSON_FACTORY


def tool_column_names(schema: knext.Schema, wanted: str | None = AUTO) -> list[str]:
    """Names of a table's tool columns: the wanted one, or all for `AUTO`, None, ""; else `SettingInvalid`."""
    if not wanted or wanted == AUTO:
        return [column.name for column in schema if is_tool_column(column)]
    chosen = next((column for column in schema if column.name == wanted), None)
    if chosen is None or not may_hold_tools(chosen):
        tools = ", ".join(f"'{column.name}'" for column in schema if is_tool_column(column))
        raise SettingInvalid(
            f"The column '{wanted}' holds no tools"
            if chosen is not None
            else f"There is no column '{wanted}'",
            setting="tool_column",
            fix=f"Choose {AUTO} or one of the tool columns: {tools}" if tools else _NO_TOOLS,
        )
    return [wanted]


def read_tools(
    table: knext.Table, column: str | None = AUTO, *, unreadable: dict[str, MCPError] | None = None
) -> list[Tool | None]:
    """Reads the tools of a table with tool columns of any form: one per row, None if all cells are missing.

    For `AUTO`, None and "" each row's first cell in a tool column that is not missing counts. Raises
    `ToolFormatError` if a cell cannot be read; the message names row and field. With ``unreadable``, such
    errors are put there by RowID instead, and the tool is None.
    """
    import pyarrow as pa

    from .arrow import to_list

    names = tool_column_names(table.schema, column)
    if not names:
        raise SettingInvalid("The table has no tool column", setting="tool_column", fix=_NO_TOOLS)
    data = table[names].to_pyarrow()
    if isinstance(data, pa.RecordBatch):  # KNIME's form of a batch
        data = pa.Table.from_batches([data])
    rows = [row for chunk in data.column(0).chunks for row in to_list(chunk)]
    tools: list[Tool | None] = [None] * len(rows)
    for name in names:
        cells: list[Tool | None] = []
        for chunk in data.column(name).chunks:
            cells += _read_cells(chunk, rows[len(cells) : len(cells) + len(chunk)], name, unreadable)
        tools = [cell if tool is None else tool for tool, cell in zip(tools, cells, strict=True)]
    return [None if tool is not None and _is_no_tool(tool) else tool for tool in tools]


def _is_no_tool(tool: Tool) -> bool:
    return tool.name == NO_TOOL.name and isinstance(tool, MCPTool) and tool.server_uri == NO_TOOL.server_uri


def knime_value(tool: WorkflowTool) -> object:
    if isinstance(tool.native, NativeCell):
        return tool.native.value()
    if tool.native is not None:
        return tool.native
    if not tool.filestore_keys or _registered("knime.types.tool", "WorkflowTool") is None:
        raise ToolFormatError(
            "The workflow of this tool is not here",
            field="filestore_keys",
            tool=tool.name,
            fix="Connect the table that the node Workflow to Tool made, in the same KNIME",
        )
    kt: Any = importlib.import_module("knime.types.tool")

    def knime_ports(ports: Iterable[Any]) -> list[Any]:
        return [kt.ToolPort(port.name, port.description, port.type, port.spec) for port in ports]

    return kt.WorkflowTool(
        tool.name,
        tool.description,
        tool.parameter_schema,
        tool.message_output_port_index,
        knime_ports(tool.input_ports),
        knime_ports(tool.output_ports),
        tool.filestore_keys,
    )


_NO_TOOLS: Final = "Connect the output of MCP Tool Provider or Workflow to Tool"


def _read_cells(
    chunk: Any, rows: Sequence[str], name: str, unreadable: dict[str, MCPError] | None
) -> list[Tool | None]:
    try:
        return _read_chunk(chunk, rows, name)
    except ToolFormatError as error:
        if unreadable is None:
            raise
        # Arrow names no row, so the cells of a broken column are read one by one until it is known which.
        if len(rows) == 1:
            unreadable[rows[0]] = error
            return [None]
    singles = (_read_cells(chunk.slice(i, 1), rows[i : i + 1], name, unreadable) for i in range(len(rows)))
    return [tool for cells in singles for tool in cells]


def _read_chunk(chunk: Any, rows: Sequence[str], name: str) -> list[Tool | None]:
    import pyarrow as pa

    from . import arrow

    kind = chunk.type
    factory = java_factory(kind)
    is_plain = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    if factory is None and not is_plain:
        raise SettingInvalid(f"The column '{name}' holds no tools", setting="tool_column", fix=_NO_TOOLS)
    if factory in {None, _JSON_FACTORY}:
        reader = from_json_text if factory is None else from_json_value
        values = zip(chunk.to_pylist(), rows, strict=True)
        # A missing cell becomes an empty text in a CSV file.
        return [None if value in (None, "") else reader(value, row=row) for value, row in values]
    cells = chunk.storage
    if factory == CARRIER_FACTORY:
        if cells.type != arrow.CARRIER_STORAGE:
            raise _unknown_layout(cells.type, arrow.CARRIER_STORAGE, rows[0] if rows else None)
        return arrow.decode_carrier(cells, rows, lambda position: NativeCell(kind, cells, position))
    if factory == KNIME_TOOL_FACTORY and cells.type == arrow.KNIME_TOOL_STORAGE:
        return arrow.decode_knime_tools(cells, rows)
    return arrow.decode_tools(cells, rows=rows)  # a future KNIME type may have the documented nine fields


def _type_of(form: ColumnForm) -> Any:
    import knime.api.schema as ks

    match form:
        case ColumnForm.NATIVE:
            return _registered("knime.types.tool", "Tool") or _registered(
                MCPTool.__module__, MCPTool.__name__
            )
        case ColumnForm.CARRIER:
            return _registered("knime.types.tool", "WorkflowTool")
        case ColumnForm.PORTABLE:
            return ks.string()
        case _:
            assert_never(form)


def _registered(module: str, name: str) -> Any:
    import knime.api.schema as ks

    try:
        return ks.logical(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, TypeError):
        return None


def java_factory(kind: Any) -> str | None:
    """Reads the Java class from a column type, KNIME's or Arrow's; None for plain types."""
    try:
        # KNIME's metadata of a column type is JSON with the class,
        # beside `data_type` in tables of older versions.
        return json.loads(getattr(kind, "logical_type", "") or "{}").get("value_factory_class")
    except ValueError:
        return None


def _is_text(column: knext.Column) -> bool:
    import knime.api.schema as ks

    return column.ktype == ks.string()


def _unknown_layout(found: Any, wanted: Any, row: str | None) -> ToolFormatError:
    return ToolFormatError(
        f"KNIME's tool cells have a layout that is unknown here. Found {found}, wanted {wanted}",
        field="tool_type",
        row=row,
        fix="Update the extension, or choose 'portable' as column form",
    )


_SUGGESTIONS: Final = 3
_SHOWN: Final = 10


class ToolLookup:
    """The tools of a table, one per row or None, by all their names and their RowIDs.

    `unreadable` are the errors of rows whose cells cannot be read. They are errors only of calls of tools
    that are not in the other rows.
    """

    def __init__(
        self,
        tools: Sequence[Tool | None],
        row_ids: Sequence[str],
        unreadable: Mapping[str, MCPError] = MappingProxyType({}),
    ) -> None:
        self.unreadable = unreadable
        present = [(tool, row_id) for tool, row_id in zip(tools, row_ids, strict=True) if tool is not None]
        self.tools = [tool for tool, _ in present]
        self._row_ids = {id(tool): row_id for tool, row_id in reversed(present)}
        self._by_name = _index((tool.name, tool) for tool in self.tools)
        self._by_row = _index((row_id, tool) for tool, row_id in present)
        self._by_remote = _index((tool.tool_name, tool) for tool in self.tools if isinstance(tool, MCPTool))

    @classmethod
    def of_table(cls, table: knext.Table, column: str) -> ToolLookup:
        """Of a table with tool columns, as `read_tools` reads it."""
        names = tool_column_names(table.schema, column)
        row_ids = table[names].get().to_pyarrow().column(0).to_pylist()
        unreadable: dict[str, MCPError] = {}
        return cls(read_tools(table, column, unreadable=unreadable), row_ids, unreadable)

    def find(self, name: str) -> Tool:
        """Finds a tool by name. `ToolNotFound` says what to write instead.

        The first kind of name that fits counts: shown name, ``name @ server`` (host and port, or the whole
        URL), RowID, name on the server.
        """
        for wanted in dict.fromkeys((name, name.strip())):  # a server may put spaces around a name
            tools = self._find(wanted)
            if len(tools) == 1:
                return tools[0]
            if tools:
                raise self._ambiguous(wanted, tools)
        raise self._unknown(name.strip())

    def _find(self, wanted: str) -> list[Tool]:
        if wanted in self._by_name:
            return self._by_name[wanted]
        for index in (self._by_qualified, self._by_row, self._by_remote):
            if wanted in index:
                return index[wanted]
        return []

    # Most calls say no more than the name, and the servers of many tools take time to tell apart.
    @cached_property
    def _qualified(self) -> dict[int, list[str]]:
        return dict(zip(map(id, self.tools), _qualified_names(self.tools), strict=True))

    @cached_property
    def _by_qualified(self) -> dict[str, list[Tool]]:
        return _index((name, tool) for tool in self.tools for name in self._qualified[id(tool)])

    def _ambiguous(self, wanted: str, tools: list[Tool]) -> ToolNotFound:
        spellings = [self._spelling(tool) for tool in tools]
        return ToolNotFound(
            f"{len(tools)} of the tools are named {wanted!r}",
            suggestions=tuple(spellings),
            fix=f"Write {_listed(spellings)}",
        )

    def _spelling(self, tool: Tool) -> str:
        """The shortest name that only this tool has."""
        if len(self._by_name[tool.name]) == 1:
            return tool.name
        for name in self._qualified[id(tool)]:
            if len(self._by_qualified[name]) == 1:
                return name
        return self._row_ids[id(tool)]

    def _unknown(self, wanted: str) -> MCPError:
        if self.unreadable and (wanted in self.unreadable or not self.tools):
            return self.unreadable.get(wanted) or next(iter(self.unreadable.values()))
        if not self.tools:
            return ToolNotFound(
                f"There is no tool {wanted!r}: the Tools input has no tools",
                fix="Look at the table of the node before this one",
            )
        spellings: dict[str, list[str]] = {}
        for index in (self._by_name, self._by_remote):
            for name, tools in index.items():
                spellings.setdefault(name.casefold(), []).extend(map(self._spelling, tools))
        similar = difflib.get_close_matches(wanted.casefold(), spellings, n=_SUGGESTIONS, cutoff=0.5)
        close = dict.fromkeys(spelling for name in similar for spelling in spellings[name])
        suggestions = tuple(islice(close, _SUGGESTIONS))
        return ToolNotFound(
            f"There is no tool {wanted!r} in the Tools input, which has {counted(len(self.tools), 'tool')}"
            + (f" and {counted(len(self.unreadable), 'row')} that cannot be read" if self.unreadable else ""),
            suggestions=suggestions,
            fix=f"Did you mean {_listed(suggestions)}?"
            if suggestions
            else f"Choose {_listed(islice(self._by_name, _SHOWN))}",
        )


def _qualified_names(tools: Sequence[Tool]) -> list[list[str]]:  # @ToolTypeDispatch
    """The names of each tool with its server, as ``name @ server``; those of the shown name come first."""
    servers = [tool.route.url if isinstance(tool, MCPTool) else "" for tool in tools]
    labels = dict(zip(servers, server_labels(servers), strict=True))
    spelled: list[list[str]] = []
    for tool, server in zip(tools, servers, strict=True):
        match tool:
            case MCPTool():
                names = dict.fromkeys((tool.name, tool.tool_name))
                places = (labels[server], server)
                spellings = [qualified(name, place) for name in names for place in places]
                spellings += [qualified(name, server, tool.route.credential) for name in names]
                spelled.append(spellings)
            case WorkflowTool():
                spelled.append([f"{tool.name} @ workflow"])
            case _:
                assert_never(tool)
    return spelled


def _index(named: Iterable[tuple[str, Tool]]) -> dict[str, list[Tool]]:
    index: dict[str, list[Tool]] = {}
    for name, tool in named:
        tools = index.setdefault(name, [])
        if tool not in tools:  # the same tool in two rows is one tool
            tools.append(tool)
    return index


def _listed(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names)
