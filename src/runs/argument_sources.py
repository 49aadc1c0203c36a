"""Where the arguments of calls come from: rows of a table, JSON, and names with values that people type.

The node *MCP Tool Caller* and ``knime-mcp batch`` plan their calls here, so that the same table gives the
same calls. Rows are read as the calls are started, a piece of the table at a time, and only the columns that
some tool has a parameter for. A defective row becomes an error of that row only. The table may be the
*Results* of an earlier run: what it says about the calls of that run is no argument.

The rules for a cell: a missing one is an omitted argument, and null only where the tool demands the argument
and accepts null (elsewhere only JSON can express it); a floating-point
number without a fraction is an integer where the schema wants an integer; text is parsed as JSON where the
schema wants no text, and numbers and booleans are written where it wants only text, as in the dialog; dates
are ISO 8601; list cells are arrays; `cell_contents` knows pictures, files and bytes. Others are sent
unchanged, and the schema decides. Columns that the tool does not know are never sent: they are reported once.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ..audit.arrow_cells import Unreadable, in_microseconds, python_value
from ..client.protocol.messages import DEEPEST, is_deeper
from ..client.validation.argument_schemas import ANYTHING, Parameter, parameters_of, type_of
from ..types.columns import ROW_ID, ColumnForm, ColumnKind, column_name
from ..types.errors import ArgumentsInvalid, MCPError, SettingInvalid, ToolNotFound
from ..types.texts import compact_json, folded_name, iso_duration, json_integer, listed, pointer_step
from .call_values import PlannedCall
from .cell_contents import content_as_json, content_of_file, how_to_convert

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ..audit.table_formats import FileTable
    from ..types.tool import Tool

_EXACT: Final = 2**53  # every whole number below is exact as a double
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
_OUTCOME: Final = frozenset({"Result", "Status", "Error"})
_KEYS_OF_RECORDS: Final = ("List", "Position")  # beside *Input row* and *Tool name*, in *Records*
_WITH_ZONE: Final = re.compile(r"[\dT:.+-]+Z?\[[\w/+:-]+\]")
_RENAMED: Final = re.compile(r" \(input\)(?: #\d+)?$")

LARGE: Final = 1 << 26
"""Bytes at which a piece is written out, even with few rows."""
_USUAL: Final = 512
_SHARED: Final = "knime.struct_dict_encoded"

_TEXT = frozenset({"string"})
_IN_WORDS = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a number",
    "number": "a number",
    "string": "a text",
    "array": "an array",
}


@dataclass(frozen=True, kw_only=True)
class ParameterRows:
    """The rows of a table of parameters, as their source has them."""

    table: pa.Table  # the rows, with their RowIDs as first column. Columns of mixed types are JSON text.
    # whether cells have types. The cells of a CSV file are text, which the tool's schema turns into values: a
    # postal code keeps its leading zero.
    typed: bool = True
    # the rows as objects, where columns may have several types; otherwise the table is read
    objects: Sequence[Mapping[str, Any]] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns in order, without the RowIDs."""
        return self.table.column_names[1:]

    @classmethod
    def of_file(cls, read: FileTable) -> Self:
        """The rows of a file, with their numbers from 1 as RowIDs."""
        import pyarrow as pa

        numbers = pa.array(map(str, read.numbers or range(1, read.total + 1)), pa.string())
        table = pa.Table.from_arrays([numbers, *read.table.columns], names=[ROW_ID, *read.columns])
        return cls(table=table, typed=read.typed, objects=read.objects)

    def rows(self, start: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields RowID and cells by column name, None for a missing cell.

        A cell is read at its first use, and raises `ArgumentsInvalid` if it cannot be read.
        """
        size = rows_per_piece(self.table)
        # From the piece that holds the first row, as cells may refer to others of their piece.
        for first in range(start - start % size, self.table.num_rows, size):
            piece = _Piece(self.table.slice(first, size))
            for index in range(max(0, start - first), len(piece.row_ids)):
                objects = self.objects
                row = _Row(piece, index) if objects is None else _Cells(objects[first + index])
                yield piece.row_ids[index], row


@dataclass(slots=True, kw_only=True)
class PlannedCalls:
    """The calls of a run: one, or one per row of parameters."""

    # finds a tool by the name in a cell; raises `ToolNotFound`. Needed with ``tool_column``.
    find_tool: Callable[[str], Tool] | None = None
    tool: Tool | None = None  # the tool of all calls, None where each row names its own
    problem: MCPError | None = None  # the reason why no call can be made, None if calls can be made
    # arguments of every call, entered as JSON; arguments of a row win over them
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    # arguments of every call, entered as names and values; they win over ``values``
    pairs: Sequence[tuple[str, str]] = ()
    # whether an empty value there stands for nothing, where the tool's schema lets it be left out or null
    omit_empty: bool = False
    parameters: ParameterRows | None = None  # the rows, None for a single call
    tool_column: str | None = None  # the column that names each row's tool
    # the column that holds all arguments of a row as JSON; None for one column per argument
    json_column: str | None = None
    decimal_comma: bool = False  # whether texts for parameters that are numbers are written as 1.234,5
    # whether a row without any argument is an error, if the tool has parameters: such rows are often no calls
    demands_arguments: bool = False
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

    def columns_of(self, tool: Tool) -> tuple[Mapping[str, Parameter], dict[str, str]] | None:
        """The parameters of a tool, and the columns of those that have one; None for arguments in JSON."""
        if self.json_column is not None:
            return None
        known = self._known.get(id(tool)) or self._learn(tool)
        return known.parameters, known.plan.arguments

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
            return {**known.fixed, **of_row}
        if self.parameters.typed:
            of_row = arguments_from_row(row, known.plan, known.parameters, decimal_comma=self.decimal_comma)
        else:
            cells = _cells_of(row, known.plan, known.parameters, decimal_comma=self.decimal_comma)
            of_row = arguments_from_pairs(cells.items(), known.parameters)
        nulls = {name: None for name, column in known.nulls.items() if row[column] is None}
        arguments = {**nulls, **known.fixed, **of_row}
        if self.demands_arguments and known.parameters and not arguments:
            there = listed(f"'{column}'" for column in known.plan.arguments.values())
            raise ArgumentsInvalid(
                "The row has no argument for the tool: its cells are missing"
                + (f" in {there}" if there else ""),
                fix="Fill one of them, or remove the row",
            )
        return arguments

    def _learn(self, tool: Tool) -> _KnownTool:
        parameters = parameters_of(tool, self._columns)
        candidates = [name for name in self._columns if name in parameters or name not in self._outcomes]
        plan = plan_columns(parameters, candidates)
        self._matched.update(plan.arguments.values())
        entered = arguments_from_pairs(self.pairs, parameters, files=True)
        if self.omit_empty:
            empty = {name.strip() for name, text in self.pairs if not text}
            entered = _without_empty(entered, empty, parameters)
        fixed = {**self.values, **entered}
        nulls = {name: column for name, column in plan.arguments.items() if parameters[name].wants_null}
        known = self._known[id(tool)] = _KnownTool(tool, parameters, plan, fixed, nulls)
        return known


def outcome_columns(columns: Collection[str]) -> frozenset[str]:
    """Finds the columns that an earlier *Results* or *Records* has about its calls; none in other tables."""
    if _SIGNS_OF_RESULTS.isdisjoint(columns) and not set(columns) >= _OUTCOME:
        return frozenset()
    own = {*(name for name, *_ in RESULT_COLUMNS), *map(column_name, ColumnForm), *_KEYS_OF_RECORDS}
    return frozenset(name for name in columns if _RENAMED.sub("", name) in own)


@dataclass(frozen=True, slots=True)
class _KnownTool:
    tool: Tool  # keeps the object alive, so that its `id` is not used again
    parameters: dict[str, Parameter]
    plan: ColumnPlan
    fixed: dict[str, Any]
    nulls: dict[str, str]  # the columns whose missing cells are null


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
        return _readable(self._piece.column(name)[self._index], name)


class _Cells(dict[str, Any]):
    """A row of a file whose cells have several types."""

    def __getitem__(self, name: str) -> Any:
        return _readable(super().__getitem__(name), name)


def _readable(value: Any, column: str) -> Any:
    if isinstance(value, Unreadable):
        raise ArgumentsInvalid(
            f"The cell of column '{column}' cannot be read: {value.why}",
            fix=value.fix or f"{how_to_convert(value.kind)}, or remove the column",
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
        # KNIME's struct dictionaries refer to rows of the same batch: such a batch must not be cut.
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


def values_of(column: Any) -> list[Any]:
    """The values of an Arrow column, `Unreadable` for a cell that Python cannot read; see `python_values`."""
    import pyarrow as pa

    if not _has_values(column.type):
        kind = str(getattr(column.type, "logical_type", ""))
        unknown = Unreadable("KNIME does not tell Python how to read its type", kind)
        # Nobody knows what the stored parts mean, and they may be keys of file stores.
        return [unknown if present else None for present in column.is_valid().to_pylist()]
    if pa.types.is_nested(column.type) or getattr(column.type, "unit", "") == "ns":
        return [_value(cell, python_value) for cell in in_microseconds(column)]
    try:
        return column.to_pylist()
    except Exception:  # a value factory of any extension may fail in any way
        # One cell after the other, so that only the broken ones are lost.
        return [_value(cell, methodcaller("as_py")) for cell in column]


def _value(cell: Any, read: Callable[[Any], Any]) -> Any:
    try:
        return read(cell)
    except Exception as error:
        return Unreadable(type(error).__name__)


def _has_values(kind: Any) -> bool:
    """Returns whether KNIME has a value factory for such cells; without one it gives their stored parts."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        if pa.types.is_struct(kind.storage_type):
            from knime.api.types import FallbackPythonValueFactory, get_converter

            converter = get_converter(getattr(kind, "logical_type", ""))
            return not isinstance(converter, FallbackPythonValueFactory)
        return _has_values(kind.storage_type)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return not is_list or _has_values(kind.value_type)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The column of each argument, and the columns that the tool does not know."""

    arguments: dict[str, str]
    unmatched: tuple[str, ...]


def plan_columns(parameters: Iterable[str], columns: Sequence[str]) -> ColumnPlan:
    """Finds the column for each argument: the one with the same name, else the only one that looks alike.

    Names look alike if they differ only in case, in space around them, or in Unicode normalization, which
    differs between systems.
    """
    names, known = list(parameters), set(columns)
    column_of = {name: name for name in names if name in known}
    taken = set(column_of.values())
    by_normalized: dict[str, list[str]] = {}
    for column in columns:
        if column not in taken:
            by_normalized.setdefault(folded_name(column), []).append(column)
    open_names = [name for name in names if name not in column_of]
    # `Path` and `path` as parameters would share one column: then neither gets it.
    rivals = Counter(map(folded_name, open_names))
    for name in open_names:
        alike = by_normalized.get(folded_name(name), [])
        if len(alike) == 1 and rivals[folded_name(name)] == 1:
            column_of[name] = alike[0]
    used = set(column_of.values())
    return ColumnPlan(column_of, tuple(column for column in columns if column not in used))


def arguments_from_row(
    row: Mapping[str, Any],
    plan: ColumnPlan,
    parameters: Mapping[str, Parameter],
    *,
    decimal_comma: bool = False,
) -> dict[str, Any]:
    """Makes the arguments of one call from the cells of a row, by column name; missing cells are left out.

    With `decimal_comma`, texts for parameters that are numbers are written as ``1.234,5``. Raises
    `ArgumentsInvalid` with the argument's pointer if JSON cannot hold a cell's value.
    """
    cells = _cells_of(row, plan, parameters, decimal_comma=decimal_comma)
    return {name: _argument(value, parameters[name], pointer_step(name)) for name, value in cells.items()}


def _cells_of(
    row: Mapping[str, Any], plan: ColumnPlan, parameters: Mapping[str, Parameter], *, decimal_comma: bool
) -> dict[str, Any]:
    """The cells of a row by parameter, without missing ones."""
    cells = {name: row[column] for name, column in plan.arguments.items() if row[column] is not None}
    if not decimal_comma:
        return cells
    return {name: _with_point(cell, parameters[name]) for name, cell in cells.items()}


_NUMBER_WITH_COMMA: Final = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")


def _with_point(cell: Any, parameter: Parameter) -> Any:
    """A text such as ``1.234,5`` as ``1234.5`` where a number is wanted; other cells as they are."""
    if not isinstance(cell, str) or parameter.kinds.isdisjoint(("number", "integer")):
        return cell
    # A point that is not before three digits separates no thousands: `1.5` stays one and a half.
    if not _NUMBER_WITH_COMMA.fullmatch(cell.strip()):
        return cell
    return cell.strip().replace(".", "").replace(",", ".")


def _argument(cell: Any, parameter: Parameter, pointer: str) -> Any:
    try:
        return cell_to_json(cell, parameter, pointer)
    except ArgumentsInvalid as error:
        match cell:
            case float():
                error.fix = "Make the cell missing, or give it a number, such as with the node Expression"
            case str() if any("\ud800" <= character <= "\udfff" for character in cell):
                error.fix = f"{error.fix}. The node String Cleaner removes such characters"
            case _:
                pass
        raise


def arguments_from_json(value: Any, *, source: str) -> dict[str, Any]:
    """Reads all arguments of a call from JSON text or the value of a JSON cell; None and empty text are none.

    `source` is named in the error if that is no JSON object, such as ``column 'Arguments'``.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    if isinstance(value, str):
        try:
            value = _parse(value)
        except ValueError as error:
            raise ArgumentsInvalid(
                f"The text in {source} {error}",
                fix='Write a JSON object, such as {"city": "Konstanz", "days": 3}',
            ) from None
    if not isinstance(value, dict):
        kind = _IN_WORDS.get(type_of(value), f"a {type(value).__name__}")
        raise ArgumentsInvalid(
            f"The JSON in {source} is {kind}, but arguments are an object",
            fix='Write a JSON object, such as {"city": "Konstanz", "days": 3}',
        )
    return cell_to_json(value, ANYTHING, "")


def parse_arguments_setting(text: str) -> dict[str, Any]:
    """Reads arguments that a person entered as JSON in a dialog; `SettingInvalid` if that is no object."""
    try:
        return arguments_from_json(text, source="the setting 'Arguments as JSON'")
    except ArgumentsInvalid as error:
        raise SettingInvalid(error.what, setting="arguments_json", fix=error.fix) from None


def arguments_from_pairs(
    pairs: Iterable[tuple[str, str]], parameters: Mapping[str, Parameter], *, files: bool = False
) -> dict[str, Any]:
    """Reads arguments that a person entered as names and values; of equal names the last counts.

    A value is text if the schema takes text or does not say. Otherwise it is read as JSON (``5``, ``true``,
    ``["a", "b"]``); booleans may be written in any case, as Excel (``TRUE``) and pandas (``True``) do. A
    value that is not JSON stays text, which the schema check then refuses. With ``files``, the address of a
    file (``file:/…``) stands for its content where the schema wants bytes: never for values from a table,
    which somebody else may have written.
    """
    named = {name.strip(): value for name, value in pairs if name.strip()}
    return {
        name: _typed(text, parameters.get(name, ANYTHING), pointer_step(name), files)
        for name, text in named.items()
    }


def _without_empty(
    arguments: Mapping[str, Any], empty: Collection[str], parameters: Mapping[str, Parameter]
) -> dict[str, Any]:
    """The arguments, of which empty ones are left out or null; what has to be there is an empty text.

    `agent_parameters.arguments_given` has the same rule for the agents of KNIME.
    """
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        parameter = parameters.get(name, ANYTHING)
        if name not in empty:
            kept[name] = value
        elif not parameter.is_optional:
            kept[name] = None if parameter.wants_null else value
    return kept


def cell_to_json(value: Any, parameter: Parameter, pointer: str) -> Any:
    """Turns a cell's value, which is not missing, into a JSON value of the types that the schema gives.

    Raises `ArgumentsInvalid` with the pointer if JSON cannot hold the value.
    """
    if is_deeper(value, DEEPEST):
        raise ArgumentsInvalid(
            f"The value at {pointer or 'the top'} is nested too deeply",
            pointer=pointer,
            fix=f"Give no more than {DEEPEST} levels of lists and objects inside each other",
        )
    if "object" in parameter.kinds and isinstance(value, list) and value:
        pairs = cast("list[Any]", value)
        if all(isinstance(pair, tuple) for pair in pairs):  # Arrow's form of a map
            return _as_json(dict(pairs), parameter, pointer)
    return _as_json(value, parameter, pointer)


def _as_json(value: Any, parameter: Parameter, pointer: str) -> Any:
    match value:
        case None:
            return value
        case bool() | int():  # a number may be shown with zeros before it
            return str(value).lower() if parameter.is_text else value
        case float():
            if not math.isfinite(value):
                raise ArgumentsInvalid(
                    f"The value at {pointer} is {value}, which JSON does not have",
                    pointer=pointer,
                    fix="Give a number that is finite, or leave it out",
                )
            if parameter.is_text:
                return _float_as_text(value)
            wants_integer = "integer" in parameter.kinds and "number" not in parameter.kinds
            return int(value) if wants_integer and value.is_integer() else value
        case Decimal() if value.is_finite():
            if parameter.is_text:
                return f"{value:f}"
            number = int(value) if value == value.to_integral_value() else float(value)
            if Decimal(repr(number)) != value:
                raise ArgumentsInvalid(
                    f"The value at {pointer} is {value}, which has more digits than a number in JSON keeps",
                    pointer=pointer,
                    fix="Round it, or convert it to text if the tool takes text",
                )
            return number
        case str():
            return _text_to_json(value, parameter, pointer)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return iso_duration(value)
        case dict():
            members = cast("dict[Any, Any]", value)
            read = {
                str(name): _as_json(inner, ANYTHING, pointer + pointer_step(str(name)))
                for name, inner in members.items()
            }
            return compact_json(read) if parameter.kinds == _TEXT else read
        case list() | tuple() | set() | frozenset():
            values = cast("list[Any] | set[Any]", value)
            item = Parameter(parameter.item_kinds, content=parameter.content)
            # A set has no order of its own, and the same row must give the same call, and the same digest.
            ordered = sorted(values, key=str) if isinstance(values, set | frozenset) else values
            return [_as_json(inner, item, f"{pointer}/{index}") for index, inner in enumerate(ordered)]
        case _:
            return content_as_json(value, parameter.content, parameter.kinds, pointer)


def _float_as_text(value: float) -> str:
    # Programs without missing integers keep ids as 10045.0; beyond it, whole numbers are rounded.
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT else repr(value)


def _text_to_json(text: str, parameter: Parameter, pointer: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentsInvalid(
            f"The text at {pointer or 'the top'} holds half of a surrogate pair, which is not Unicode text",
            pointer=pointer,
            fix="Remove the broken character; text that was cut in the middle of an emoji is the usual cause",
        ) from None
    read = _read_text(text, parameter)
    return text if isinstance(read, str) else _as_json(read, parameter, pointer)


def _read_text(text: str, parameter: Parameter) -> Any:
    """Reads text as JSON where the schema takes no text; what it would not take stays text."""
    if not parameter.kinds or ("string" in parameter.kinds and parameter.takes_text(text)):
        return text
    if "boolean" in parameter.kinds and text.strip().lower() in {"true", "false"}:
        return text.strip().lower() == "true"
    with suppress(ValueError):  # the check against the schema gives a better error
        value = _parse(text)
        kind = type_of(value)
        # A fraction where an integer is wanted: the check says so better than of the text.
        numbers = {kind, *parameter.kinds} >= {"integer", "number"}
        return value if numbers or kind == "null" or kind in parameter.kinds - _TEXT else text
    return text


def _typed(text: str, parameter: Parameter, pointer: str, files: bool) -> Any:
    if files and parameter.content and text.startswith("file:"):
        return content_of_file(Path(url2pathname(urlsplit(text).path)), parameter.content, pointer)
    if parameter.is_moment and _WITH_ZONE.fullmatch(text):
        text = text.partition("[")[0]  # JSON Schema's moments have no name of a zone, as KNIME's do
    return cell_to_json(_read_text(text, parameter), parameter, pointer)


def _parse(text: str) -> Any:
    constants: list[str] = []
    try:
        value = json.loads(text, parse_constant=constants.append, parse_int=json_integer)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise ValueError("holds a number with too many digits") from None
    if constants:
        raise ValueError(f"holds {constants[0]}, which JSON does not have")
    return value
