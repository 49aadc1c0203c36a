"""A table of parameters read into planned calls: one call, or one per row.

The node *MCP Tool Caller* and ``knime-mcp batch`` plan their calls here, so that the same table gives the
same calls. Rows are read as the calls are started, a piece of the table at a time, and only the columns that
some tool has a parameter for. A defective row becomes an error of that row only.

The table may be the *Results* of an earlier run: what it says about the calls of that run is no argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from ..types.columns import ROW_ID, ColumnForm, ColumnKind, column_name
from ..types.errors import ArgumentsInvalid, MCPError, ToolNotFound
from .call_values import PlannedCall
from .cell_arguments import (
    Unreadable,
    arguments_from_json,
    arguments_from_pairs,
    arguments_from_row,
    parameters_of,
    plan_columns,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ..audit.table_formats import FileTable
    from ..types.tool import Tool
    from .cell_arguments import ColumnPlan, Parameter

ResultKind = ColumnKind | Literal["image"]

RESULT_COLUMNS: Final[tuple[tuple[str, str, ResultKind], ...]] = (
    ("Tool name", "tool_name", "string"),
    ("Tool type", "tool_type", "string"),
    ("Server", "server", "string"),
    ("Digest", "digest", "string"),
    ("Input row", "input_row", "string"),
    ("Arguments", "arguments", "string"),
    ("Status", "status", "string"),
    ("Result", "result", "string"),
    ("Structured result", "structured_result", "string"),
    ("Error", "error", "string"),
    ("Image", "image", "image"),
    ("Files", "files", "string"),
    ("Started at", "moment", "moment"),
    ("Duration (s)", "duration", "double"),
    ("Attempts", "attempts", "int32"),
)
"""Name, attribute of the record, and kind of each column of *Results* about a call, except the tool's."""
_SIGNS_OF_RESULTS: Final = frozenset({"Input row", "Structured result", "Duration (s)"})
_RENAMED: Final = re.compile(r" \(input\)(?: #\d+)?$")

LARGE: Final = 1 << 26
"""Bytes at which a piece is written out, even with few rows."""
_USUAL: Final = 512
_SHARED: Final = "knime.struct_dict_encoded"


@dataclass(frozen=True, kw_only=True)
class ParameterRows:
    """The rows of a table of parameters, as their source has them.

    Attributes:
        table: The rows, with their RowIDs as first column. Columns of mixed types are JSON text.
        typed: Whether cells have types. The cells of a CSV file are text, which the tool's schema turns into
            values: a postal code keeps its leading zero.
        objects: The rows as objects, where columns may have several types; otherwise the table is read.
    """

    table: pa.Table
    typed: bool = True
    objects: Sequence[Mapping[str, Any]] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns in order, without the RowIDs."""
        return self.table.column_names[1:]

    @classmethod
    def of_file(cls, read: FileTable) -> Self:
        """The rows of a file, with their numbers from 1 as RowIDs."""
        import pyarrow as pa

        numbers = pa.array(map(str, range(1, read.total + 1)), pa.string())
        table = pa.Table.from_arrays([numbers, *read.table.columns], names=[ROW_ID, *read.columns])
        return cls(table=table, typed=read.typed, objects=read.objects)

    def rows(self, start: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields RowID and cells by column name, None for a missing cell.

        A cell is read at its first use, and raises `ArgumentsInvalid` if it cannot be read.
        """
        size = rows_per_piece(self.table)
        for first in range(start - start % size, self.table.num_rows, size):
            piece = _Piece(self.table.slice(first, size))
            for index in range(max(0, start - first), len(piece.row_ids)):
                objects = self.objects
                row = _Row(piece, index) if objects is None else objects[first + index]
                yield piece.row_ids[index], row


@dataclass(slots=True, kw_only=True)
class PlannedCalls:
    """The calls of a run: one, or one per row of parameters.

    Attributes:
        find_tool: Finds a tool by the name in a cell; raises `ToolNotFound`. Needed with ``tool_column``.
        tool: The tool of all calls, None where each row names its own.
        problem: The reason why no call can be made, None if calls can be made.
        values: Arguments of every call, entered as JSON; arguments of a row win over them.
        pairs: Arguments of every call, entered as names and values; they win over ``values``.
        parameters: The rows, None for a single call.
        tool_column: The column that names each row's tool.
        json_column: The column that holds all arguments of a row as JSON; None for one column per argument.
    """

    find_tool: Callable[[str], Tool] | None = None
    tool: Tool | None = None
    problem: MCPError | None = None
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    pairs: Sequence[tuple[str, str]] = ()
    parameters: ParameterRows | None = None
    tool_column: str | None = None
    json_column: str | None = None
    _columns: list[str] = field(init=False)
    # Those of them that an earlier run wrote about its calls. They are arguments only of parameters with
    # exactly the same name: a *Status* is no ``status``.
    _outcomes: frozenset[str] = field(init=False)
    _matched: set[str] = field(default_factory=set[str])
    _known: dict[int, _KnownTool] = field(default_factory=dict[int, "_KnownTool"])
    _found: dict[str, Tool | ToolNotFound] = field(default_factory=dict[str, "Tool | ToolNotFound"])

    def __post_init__(self) -> None:
        columns = [] if self.parameters is None else self.parameters.columns
        self._columns = [name for name in columns if name != self.tool_column]
        self._outcomes = outcome_columns(columns)

    @property
    def total(self) -> int:
        """The number of calls."""
        return 1 if self.parameters is None else self.parameters.table.num_rows

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Columns that no tool so far has a parameter for."""
        if self.parameters is None or self.json_column is not None or not self._known:
            return ()
        expected = {*self._matched, *self._outcomes}
        return tuple(name for name in self._columns if name not in expected)

    def calls(self, start: int = 0) -> Iterator[PlannedCall]:
        """Yields the calls in the order of the rows, from a row's index on."""
        if self.parameters is None:
            if not start:
                yield self._call(None, None)
            return
        for row_id, row in self.parameters.rows(start):
            yield self._call(row_id, row)

    def _call(self, row_id: str | None, row: Mapping[str, Any] | None) -> PlannedCall:
        tool, arguments, error = self.tool, None, self.problem
        if error is None:
            try:
                tool = tool or self._tool_of(row)
                arguments = self._arguments(tool, row)
            except MCPError as caught:
                error = caught
        return PlannedCall(tool=tool, arguments=arguments, input_row=row_id, error=error)

    def _tool_of(self, row: Mapping[str, Any] | None) -> Tool:
        assert row is not None, "without a tool of all calls, each row names its own"
        assert self.tool_column is not None, "in this column"
        assert self.find_tool is not None, "and can be found by it"
        name = row[self.tool_column]
        if name is None:
            raise ToolNotFound(
                f"The cell of column '{self.tool_column}' is missing, so there is no tool to call",
                fix="Write the name of a tool of the Tools input into it",
            )
        tool = self._found.get(str(name))
        if tool is None:  # once per name, as looking for similar names is slow
            try:
                tool = self.find_tool(str(name))
            except ToolNotFound as error:
                tool = error
            self._found[str(name)] = tool
        if isinstance(tool, ToolNotFound):
            raise tool.at()
        return tool

    def _arguments(self, tool: Tool, row: Mapping[str, Any] | None) -> dict[str, Any]:
        known = self._known.get(id(tool)) or self._learn(tool)
        if row is None or self.parameters is None:
            return dict(known.fixed)
        if self.json_column is not None:
            of_row = arguments_from_json(row[self.json_column], source=f"column '{self.json_column}'")
        elif self.parameters.typed:
            of_row = arguments_from_row(row, known.plan, known.parameters)
        else:
            cells = ((name, row[column]) for name, column in known.plan.arguments.items())
            of_row = arguments_from_pairs(
                ((name, text) for name, text in cells if text is not None), known.parameters
            )
        return {**known.fixed, **of_row}

    def _learn(self, tool: Tool) -> _KnownTool:
        parameters = parameters_of(tool, self._columns)
        candidates = [name for name in self._columns if name in parameters or name not in self._outcomes]
        plan = plan_columns(parameters, candidates)
        self._matched.update(plan.arguments.values())
        fixed = {**self.values, **arguments_from_pairs(self.pairs, parameters)}
        known = self._known[id(tool)] = _KnownTool(tool, parameters, plan, fixed)
        return known


def outcome_columns(columns: Collection[str]) -> frozenset[str]:
    """Finds the columns that an earlier *Results* table has about its calls; none in other tables."""
    if _SIGNS_OF_RESULTS.isdisjoint(columns):
        return frozenset()
    own = {*(name for name, *_ in RESULT_COLUMNS), *map(column_name, ColumnForm)}
    return frozenset(name for name in columns if _RENAMED.sub("", name) in own)


@dataclass(frozen=True, slots=True)
class _KnownTool:
    tool: Tool  # keeps the object alive, so that its `id` is not used again
    parameters: dict[str, Parameter]
    plan: ColumnPlan
    fixed: dict[str, Any]


class _Piece:
    """Some rows of a table; a column is decoded when its first cell is read."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns: dict[str, list[Any]] = {}
        self.row_ids: list[str] = table.column(0).to_pylist()

    def column(self, name: str) -> list[Any]:
        """The cells of a column as Python values; `Unreadable` for cells that Python cannot read."""
        if name not in self._columns:
            self._columns[name] = values_of(self._table.column(self._table.column_names.index(name, 1)))
        return self._columns[name]


class _Row(dict[str, Any]):
    """A row of parameters; a cell is read at its first use."""

    def __init__(self, piece: _Piece, index: int) -> None:
        super().__init__()
        self._piece, self._index = piece, index

    def __missing__(self, name: str) -> Any:
        value = self._piece.column(name)[self._index]
        if isinstance(value, Unreadable):
            from .cell_contents import how_to_convert

            raise ArgumentsInvalid(
                f"The cell of column '{name}' cannot be read: {value.why}",
                fix=f"{how_to_convert(value.kind)}, or remove the column",
            )
        return value


def rows_per_piece(table: pa.Table | None) -> int:
    """The number of rows, at least 1, in all pieces of a parameter table except the last.

    KNIME stores cells of many types, such as XML and molecules, once per batch: equal cells after the first
    hold only a key to it. A piece that begins within a batch would lose them, so such a table is cut into its
    batches.
    """
    if table is None or not table.num_rows:
        return _USUAL
    if cells_are_shared(table):
        return max(len(chunk) for chunk in table.column(0).chunks)
    return max(1, min(_USUAL, LARGE * table.num_rows // max(1, table.nbytes)))


def cells_are_shared(table: pa.Table) -> bool:
    """Returns whether a column has cells that depend on other cells of their batch."""
    return any(_shares_cells(kind) for kind in table.schema.types)


def _shares_cells(kind: Any) -> bool:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return kind.extension_name.startswith(_SHARED) or _shares_cells(kind.storage_type)
    if pa.types.is_struct(kind):
        return any(_shares_cells(field.type) for field in kind)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return is_list and _shares_cells(kind.value_type)
