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
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ..client.protocol.messages import DEEPEST, is_deeper
from ..client.validation.argument_schemas import ANYTHING, Parameter, parameters_of, type_of
from ..types.errors import ArgumentsInvalid, MCPError, SettingInvalid, ToolNotFound
from ..types.texts import compact_json, folded_name, iso_duration, json_integer, listed, pointer_step
from .call_values import PlannedCall
from .cell_contents import content_as_json, content_of_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ..types.tool import Tool
    from .parameter_rows import ParameterRows

_EXACT: Final = 2**53  # every whole number below is exact as a double
THOUSANDS: Final = r"[.'’ \u00a0\u202f]"
"""What separates thousands where the comma is decimal."""
_WITH_ZONE: Final = re.compile(r"[\dT:.+-]+Z?\[[\w/+:-]+\]")
_TEXT = frozenset({"string"})
_IN_WORDS = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a number",
    "number": "a number",
    "string": "a text",
    "array": "an array",
}


@dataclass(slots=True, kw_only=True)
class PlannedCalls:
    """The calls of a run: one, or one per row of parameters."""

    # finds a tool by the name in a cell; raises `ToolNotFound`. Needed with ``tool_column``.
    find_tool: Callable[[str], Tool] | None = None
    tool: Tool | None = None  # the tool of all calls, None where each row names its own
    problem: MCPError | None = None  # the reason why no call can be made, None if calls can be made
    # arguments of every call, entered as JSON; arguments of a row win over them
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    # arguments of every call, entered as names and values; they win over ``values``. An empty value is left
    # out or null, where the tool's schema allows that
    pairs: Sequence[tuple[str, str]] = ()
    parameters: ParameterRows | None = None  # the rows, None for a single call
    tool_column: str | None = None  # the column that names each row's tool
    # the column that holds all arguments of a row as JSON; None for one column per argument
    json_column: str | None = None
    # the columns of parameters that are called differently
    named_columns: Mapping[str, str] = field(default_factory=dict[str, str])
    decimal_comma: bool = False  # whether texts for parameters that are numbers are written as 1.234,5
    # columns that an earlier run wrote about its calls, which are arguments only of parameters with exactly
    # the same name: a *Status* is no ``status``
    outcomes: frozenset[str] = frozenset()
    # whether a row without any argument is an error, if the tool has parameters: such rows are often no calls
    demands_arguments: bool = False
    _columns: list[str] = field(init=False)
    _matched: set[str] = field(default_factory=set[str])
    _known: dict[int, _KnownTool] = field(default_factory=dict[int, "_KnownTool"])
    _found: dict[str, Tool | ToolNotFound] = field(default_factory=dict[str, "Tool | ToolNotFound"])

    def __post_init__(self) -> None:
        columns = [] if self.parameters is None else self.parameters.columns
        self._columns = [name for name in columns if name != self.tool_column]

    @property
    def total(self) -> int:
        """The number of calls."""
        return 1 if self.parameters is None else self.parameters.table.num_rows

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Columns that no tool so far has a parameter for."""
        if self.parameters is None or self.json_column is not None or not self._known:
            return ()
        expected = {*self._matched, *self.outcomes}
        return tuple(name for name in self._columns if name not in expected)

    def columns_of(self, tool: Tool) -> tuple[Mapping[str, Parameter], dict[str, str]] | None:
        """The parameters of a tool, and the columns of those that have one; None for arguments in JSON."""
        if self.json_column is not None:
            return None
        known = self._known.get(id(tool)) or self._learn(tool)
        return known.parameters, known.columns

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
        of_row = arguments_from_row(row, known.columns, known.parameters, decimal_comma=self.decimal_comma)
        nulls = {name: None for name, column in known.nulls.items() if row[column] is None}
        arguments = {**nulls, **known.fixed, **of_row}
        if self.demands_arguments and known.parameters and not arguments:
            there = listed(f"'{column}'" for column in known.columns.values())
            raise ArgumentsInvalid(
                "The row has no argument for the tool: its cells are missing"
                + (f" in {there}" if there else ""),
                fix="Fill one of them, or remove the row",
            )
        return arguments

    def _learn(self, tool: Tool) -> _KnownTool:
        parameters = parameters_of(tool, [*self._columns, *self.named_columns])
        named = {name: column for name, column in self.named_columns.items() if name in parameters}
        candidates = [
            name
            for name in self._columns
            if name not in named.values() and (name in parameters or name not in self.outcomes)
        ]
        column_of = plan_columns([name for name in parameters if name not in named], candidates) | named
        self._matched.update(column_of.values())
        entered = arguments_from_pairs(self.pairs, parameters, files=True)
        said = {name.strip(): text for name, text in self.pairs}  # of equal names the last counts
        empty = {name for name, text in said.items() if not text}
        fixed = {**self.values, **_without_empty(entered, empty, parameters)}
        nulls = {name: column for name, column in column_of.items() if parameters[name].wants_null}
        known = self._known[id(tool)] = _KnownTool(tool, parameters, column_of, fixed, nulls)
        return known


@dataclass(frozen=True, slots=True)
class _KnownTool:
    tool: Tool  # keeps the object alive, so that its `id` is not used again
    parameters: dict[str, Parameter]
    columns: dict[str, str]  # by argument
    fixed: dict[str, Any]
    nulls: dict[str, str]  # the columns whose missing cells are null


def plan_columns(parameters: Iterable[str], columns: Sequence[str]) -> dict[str, str]:
    """Finds the column for each argument: the one with the same name, else the only one that looks alike.

    Names look alike if they differ only in case, in blanks, hyphens and underscores, as heads of sheets
    do, or in Unicode normalization, which differs between systems.
    """
    names, known = list(parameters), set(columns)
    column_of = {name: name for name in names if name in known}
    taken = set(column_of.values())
    by_normalized: dict[str, list[str]] = {}
    for column in columns:
        if column not in taken:
            by_normalized.setdefault(_bare_name(column), []).append(column)
    open_names = [name for name in names if name not in column_of]
    # `Path` and `path` as parameters would share one column: then neither gets it.
    rivals = Counter(map(_bare_name, open_names))
    for name in open_names:
        alike = by_normalized.get(_bare_name(name), [])
        if len(alike) == 1 and rivals[_bare_name(name)] == 1:
            column_of[name] = alike[0]
    return column_of


def _bare_name(name: str) -> str:
    return re.sub(r"[\s_-]", "", folded_name(name)) or name


def arguments_from_row(
    row: Mapping[str, Any],
    columns: Mapping[str, str],
    parameters: Mapping[str, Parameter],
    *,
    decimal_comma: bool = False,
) -> dict[str, Any]:
    """Makes the arguments of one call from the cells of a row, by column name; missing cells are left out.

    ``columns`` has the column of each argument. With `decimal_comma`, texts for parameters that are
    numbers are written as ``1.234,5``. Raises `ArgumentsInvalid` with the argument's pointer if JSON cannot
    hold a cell's value.
    """
    cells = {name: row[column] for name, column in columns.items() if row[column] is not None}
    if decimal_comma:
        cells = {name: _with_point(cell, parameters[name]) for name, cell in cells.items()}
    return {name: cell_to_json(cell, parameters[name], pointer_step(name)) for name, cell in cells.items()}


_NUMBER_WITH_COMMA: Final = re.compile(rf"\+?(-?(?:[1-9]\d{{0,2}}(?:{THOUSANDS}\d{{3}})+|\d+)(?:,\d+)?)")


def _with_point(cell: Any, parameter: Parameter) -> Any:
    """A text such as ``1.234,5`` as ``1234.5`` where a number is wanted; other cells as they are."""
    if not isinstance(cell, str) or parameter.kinds.isdisjoint(("number", "integer")):
        return cell
    # A point that is not before three digits separates no thousands: `1.5` stays one and a half.
    number = _NUMBER_WITH_COMMA.fullmatch(cell.strip())
    return cell if number is None else re.sub(THOUSANDS, "", number[1]).replace(",", ".")


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
    arguments: dict[str, Any] = {}
    for name, text in named.items():
        parameter, pointer = parameters.get(name, ANYTHING), pointer_step(name)
        if files and parameter.content and text.startswith("file:"):
            path = Path(url2pathname(urlsplit(text).path))
            arguments[name] = content_of_file(path, parameter.content, pointer)
        else:
            arguments[name] = cell_to_json(text, parameter, pointer)
    return arguments


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
        elif not parameter.is_optional and not parameter.content:  # a file that nobody chose is missing
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
    """The text where the schema takes it, else the JSON that it says; what fits neither stays text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentsInvalid(
            f"The text at {pointer or 'the top'} holds half of a surrogate pair, which is not Unicode text",
            pointer=pointer,
            fix="Remove the broken character; text that was cut in the middle of an emoji is the usual cause",
        ) from None
    if parameter.is_moment and _WITH_ZONE.fullmatch(text):
        return text.partition("[")[0]  # JSON Schema's moments have no name of a zone, as KNIME's do
    if not parameter.kinds or ("string" in parameter.kinds and parameter.takes_text(text)):
        return text
    if "boolean" in parameter.kinds and text.strip().lower() in {"true", "false"}:
        return text.strip().lower() == "true"
    try:
        value = _parse(text)
    except ValueError:  # the check against the schema gives a better error
        return text
    kind = type_of(value)
    # A fraction where an integer is wanted: the check says so better than of the text.
    numbers = {kind, *parameter.kinds} >= {"integer", "number"}
    is_taken = numbers or kind == "null" or kind in parameter.kinds - _TEXT
    return cell_to_json(value, parameter, pointer) if is_taken else text


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
