"""The calls that a run of the Caller makes: one, or one per row of the parameter table.

Rows are read as the calls are started, a piece of the table at a time, and only the columns that some tool
has a parameter for. A defective row becomes an error of that row only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..types.errors import ArgumentsInvalid, MCPError, ToolNotFound
from .cell_arguments import (
    Unreadable,
    arguments_from_json,
    arguments_from_pairs,
    arguments_from_row,
    parameters_of,
    plan_columns,
    values_of,
)
from .one_call import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import pyarrow as pa

    from ..types.tool import Tool
    from .cell_arguments import ColumnPlan, Parameter


LARGE: Final = 1 << 26
"""Bytes at which a piece is written out, even with few rows."""
_USUAL: Final = 512
_SHARED: Final = "knime.struct_dict_encoded"


def rows_per_piece(table: pa.Table | None) -> int:
    """The number of rows, at least 1, in all pieces of a parameter table except the last."""
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


@dataclass(slots=True, kw_only=True)
class CallPlan:
    """The source of a run's calls.

    Attributes:
        find_tool: Finds a tool by the name in a cell; raises `ToolNotFound`.
        tool: The tool of all calls, None where each row names its own.
        problem: The reason why no call can be made, None if calls can be made.
        values: Arguments of every call, entered as JSON; arguments of a row win over them.
        pairs: Arguments of every call, entered as names and values; they win over ``values``.
        parameters: The parameter table with RowIDs first, None for a single call.
        tool_column: The column that names each row's tool.
        json_column: The column that holds all arguments of a row as JSON; None for one column per argument.
        argument_columns: Columns that may be arguments.
        outcome_columns: Those of them that an earlier Caller wrote about its calls; they are arguments only
            of parameters with exactly the same name: a *Status* is no ``status``.
    """

    find_tool: Callable[[str], Tool]
    tool: Tool | None = None
    problem: MCPError | None = None
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    pairs: Sequence[tuple[str, str]] = ()
    parameters: pa.Table | None = None
    tool_column: str | None = None
    json_column: str | None = None
    argument_columns: Sequence[str] = ()
    outcome_columns: Collection[str] = ()
    _matched: set[str] = field(default_factory=set[str])
    _known: dict[int, _KnownTool] = field(default_factory=dict[int, "_KnownTool"])
    _found: dict[str, Tool | ToolNotFound] = field(default_factory=dict[str, "Tool | ToolNotFound"])

    @property
    def total(self) -> int:
        """The number of calls."""
        return 1 if self.parameters is None else self.parameters.num_rows

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Columns that no tool so far has a parameter for."""
        if self.parameters is None or self.json_column is not None or not self._known:
            return ()
        expected = {*self._matched, *self.outcome_columns}
        return tuple(name for name in self.argument_columns if name not in expected)

    def calls(self) -> Iterator[Call]:
        """Yields the calls, in the order of the rows."""
        if self.parameters is None:
            yield self._call(None, None)
            return
        size = rows_per_piece(self.parameters)
        for start in range(0, self.parameters.num_rows, size):
            piece = _Piece(self.parameters.slice(start, size))
            for index, row_id in enumerate(piece.row_ids):
                yield self._call(row_id, _Row(piece, index))

    def _call(self, row_id: str | None, row: _Row | None) -> Call:
        tool, arguments, error = self.tool, None, self.problem
        if error is None:
            try:
                tool = tool or self._tool_of(row)
                arguments = self._arguments(tool, row)
            except MCPError as caught:
                error = caught
        return Call(tool=tool, arguments=arguments, input_row=row_id, error=error)

    def _tool_of(self, row: _Row | None) -> Tool:
        assert row is not None, "without a tool of all calls, each row names its own"
        assert self.tool_column is not None, "in this column"
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

    def _arguments(self, tool: Tool, row: _Row | None) -> dict[str, Any]:
        known = self._known.get(id(tool))
        if known is None:
            known = self._known[id(tool)] = self._learn(tool)
        if row is None:
            return dict(known.fixed)
        if self.json_column is not None:
            of_row = arguments_from_json(row[self.json_column], source=f"column '{self.json_column}'")
        else:
            of_row = arguments_from_row(row, known.plan, known.parameters)
        return {**known.fixed, **of_row}

    def _learn(self, tool: Tool) -> _KnownTool:
        parameters = parameters_of(tool, self.argument_columns)
        columns = [c for c in self.argument_columns if c in parameters or c not in self.outcome_columns]
        plan = plan_columns(parameters, columns)
        self._matched.update(plan.arguments.values())
        fixed = {**self.values, **arguments_from_pairs(self.pairs, parameters)}
        return _KnownTool(tool, parameters, plan, fixed)


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
            self._columns[name] = values_of(self._table.column(name))
        return self._columns[name]


class _Row(dict[str, Any]):
    """A row of parameters; a cell is read at its first use."""

    def __init__(self, piece: _Piece, index: int) -> None:
        super().__init__()
        self._piece, self._index = piece, index

    def __missing__(self, name: str) -> Any:
        value = self._piece.column(name)[self._index]
        if isinstance(value, Unreadable):
            raise ArgumentsInvalid(
                f"The cell of column '{name}' cannot be read: {value.why}",
                fix="Convert the column to text or numbers, or remove it",
            )
        return value
