"""Turns the cells of a parameter table, and what people type, into the arguments of a call.

The rules: a missing cell is an omitted argument (only JSON can express null); a floating-point number
without a fraction is an integer where the schema wants an integer; text is parsed as JSON where the schema
wants no text, and numbers and booleans are written where it wants only text, as in the dialog; dates are
ISO 8601; list cells are arrays; `cell_contents` knows pictures, files and bytes. All other values are sent
unchanged, and the schema decides. Columns that the tool does not know are never sent: they are reported once.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, assert_never, cast
from unicodedata import normalize

from ..client.protocol.messages import DEEPEST, as_object, is_deeper
from ..client.validation.argument_schemas import (
    items,
    kinds,
    matches,
    member,
    parts_of,
    properties_in,
    required_names,
    type_of,
)
from ..types.errors import ArgumentsInvalid, SettingInvalid
from ..types.texts import compact_json, pointer_step
from ..types.tool import MCPTool, WorkflowTool
from .cell_contents import Content, content_as_json, wanted_content

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..types.tool import Tool

_TEXT = frozenset({"string"})
_SCALARS = frozenset({"number", "integer", "boolean"})
_IN_WORDS = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a number",
    "number": "a number",
    "string": "a text",
    "array": "an array",
}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a cell that Python cannot read; `why` and `kind`, a name of its type, are for an error."""

    why: str
    kind: str = ""


def values_of(column: Any) -> list[Any]:
    """The values of an Arrow column: None for a missing cell, `Unreadable` for one that Python cannot read.

    Moments have no nanoseconds, which Python does not have.
    """
    if not _has_values(column.type):
        kind = str(getattr(column.type, "logical_type", ""))
        unknown = Unreadable("KNIME does not tell Python how to read its type", kind)
        return [unknown if present else None for present in column.is_valid().to_pylist()]
    if getattr(column.type, "unit", "") == "ns":
        from ..audit.table_formats import in_microseconds

        column = in_microseconds(column)
    try:
        return column.to_pylist()
    except Exception:  # a value factory of any extension may fail in any way
        return [_value(cell) for cell in column]


def _value(cell: Any) -> Any:
    try:
        return cell.as_py()
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
class Parameter:
    """The JSON types that a parameter takes, such as ``integer``, and those of an array's items.

    They are empty where the schema does not say. `content` is how it wants bytes.
    """

    kinds: frozenset[str] = frozenset()
    item_kinds: frozenset[str] = frozenset()
    content: Content = ""

    @property
    def is_text(self) -> bool:
        """Whether it takes text, and neither numbers nor booleans."""
        return "string" in self.kinds and not self.kinds & _SCALARS


ANYTHING = Parameter()


def parameters_of(tool: Tool, columns: Sequence[str] = ()) -> dict[str, Parameter]:  # @ToolTypeDispatch
    """A tool's parameters by name, in the order in which the tool lists them.

    ``columns`` that match a ``patternProperties`` pattern of the schema are parameters, too.
    """
    match tool:
        case MCPTool():
            return parameters_in(tool.parameter_schema, columns)
        case WorkflowTool():
            # Not a schema as a whole: KNIME stores one schema per Configuration node, by parameter name.
            return _parameters(tool.parameter_schema, tool.parameter_schema)
        case _:
            assert_never(tool)


def parameters_in(schema: Mapping[str, Any], columns: Sequence[str] = ()) -> dict[str, Parameter]:
    """The parameters in the schema of a tool's arguments; see `parameters_of`."""
    properties = properties_in(schema, schema)
    for name in _undeclared(schema, columns):
        properties.setdefault(name, member(schema, schema, name))
    return _parameters(properties, schema)


def _parameters(properties: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Parameter]:
    return {
        name: Parameter(_kinds(inner, root), _kinds(items(inner, root), root), _content(name, inner, root))
        for name, inner in properties.items()
    }


def _content(name: str, schema: Any, root: Mapping[str, Any]) -> Content:
    return wanted_content(name, [*parts_of(schema, root), *parts_of(items(schema, root), root)])


def _kinds(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """The types that a schema names, or else the types of the values that it lists."""
    return kinds(schema, root) or frozenset(map(type_of, _enum_values(schema, root)))


def _enum_values(schema: Any, root: Mapping[str, Any]) -> Iterator[Any]:
    for part in parts_of(schema, root):
        if "const" in part:
            yield part["const"]
        if isinstance(values := part.get("enum"), list):
            yield from cast("list[Any]", values)


def _undeclared(root: Mapping[str, Any], columns: Sequence[str]) -> Iterator[str]:
    """Undeclared parameters: names that the schema only requires, and columns that match its patterns."""
    for part in parts_of(root, root):
        yield from sorted(required_names(part))
        for pattern in as_object(part.get("patternProperties")):
            yield from (column for column in columns if matches(pattern, column, unknown=False))


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
            by_normalized.setdefault(_normalized(column), []).append(column)
    open_names = [name for name in names if name not in column_of]
    rivals = Counter(map(_normalized, open_names))
    for name in open_names:
        alike = by_normalized.get(_normalized(name), [])
        if len(alike) == 1 and rivals[_normalized(name)] == 1:
            column_of[name] = alike[0]
    used = set(column_of.values())
    return ColumnPlan(column_of, tuple(column for column in columns if column not in used))


def _normalized(name: str) -> str:
    return normalize("NFC", name.strip().casefold())


def arguments_from_row(
    row: Mapping[str, Any], plan: ColumnPlan, parameters: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Makes the arguments of one call from the cells of a row, by column name; missing cells are left out.

    Raises `ArgumentsInvalid` with the argument's pointer if JSON cannot hold a cell's value.
    """
    cells = {name: row[column] for name, column in plan.arguments.items() if row[column] is not None}
    return {name: cell_to_json(value, parameters[name], pointer_step(name)) for name, value in cells.items()}


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
    pairs: Iterable[tuple[str, str]], parameters: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Reads arguments that a person entered as names and values; of equal names the last counts.

    A value is text if the schema takes text or does not say. Otherwise it is read as JSON (``5``, ``true``,
    ``["a", "b"]``); booleans may be written in any case, as Excel (``TRUE``) and pandas (``True``) do. A
    value that is not JSON stays text, which the schema check then refuses.
    """
    named = {name.strip(): value for name, value in pairs if name.strip()}
    return {
        name: _typed(text, parameters.get(name, ANYTHING), pointer_step(name)) for name, text in named.items()
    }


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
    return _as_json(value, parameter, pointer)


def _as_json(value: Any, parameter: Parameter, pointer: str) -> Any:
    match value:
        case None:
            return value
        case bool() | int():
            return json.dumps(value) if parameter.is_text else value
        case float():
            if not math.isfinite(value):
                raise ArgumentsInvalid(
                    f"The value at {pointer} is {value}, which JSON does not have",
                    pointer=pointer,
                    fix="Make the cell missing, or give it a number",
                )
            if parameter.is_text:
                return repr(value)
            wants_integer = "integer" in parameter.kinds and "number" not in parameter.kinds
            return int(value) if wants_integer and value.is_integer() else value
        case Decimal() if value.is_finite():
            if parameter.is_text:
                return str(value)
            return int(value) if value == value.to_integral_value() else float(value)
        case str():
            return _text_to_json(value, parameter, pointer)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _iso_duration(value)
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
            ordered = sorted(values, key=str) if isinstance(values, set | frozenset) else values
            return [_as_json(inner, item, f"{pointer}/{index}") for index, inner in enumerate(ordered)]
        case _:
            return content_as_json(value, parameter.content, parameter.kinds, pointer)


def _iso_duration(value: timedelta) -> str:
    """Writes a duration as ISO 8601, such as ``PT1M30.5S``; a negative duration has a leading minus sign."""
    micros = abs(value) // timedelta(microseconds=1)
    seconds, micros = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    parts = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    parts += f"{seconds}{fraction}S" if seconds or micros or not parts else ""
    return ("-" if value < timedelta() else "") + "PT" + parts


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
    return text if isinstance(read, str) else read


def _read_text(text: str, parameter: Parameter) -> Any:
    """Reads text as JSON where the schema takes no text; what it would not take stays text."""
    if not parameter.kinds or "string" in parameter.kinds:
        return text
    if "boolean" in parameter.kinds and text.strip().lower() in {"true", "false"}:
        return text.strip().lower() == "true"
    with suppress(ValueError):  # the check against the schema gives a better error
        value = _parse(text)
        kind = type_of(value)
        # A fraction where an integer is wanted: the check says so better than of the text.
        numbers = {kind, *parameter.kinds} >= {"integer", "number"}
        return value if numbers or kind in parameter.kinds else text
    return text


def _typed(text: str, parameter: Parameter, pointer: str) -> Any:
    return cell_to_json(_read_text(text, parameter), parameter, pointer)


def _parse(text: str) -> Any:
    constants: list[str] = []
    try:
        value = json.loads(text, parse_constant=constants.append)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise ValueError("holds a number with too many digits") from None
    if constants:
        raise ValueError(f"holds {constants[0]}, which JSON does not have")
    return value
