"""Cells of Arrow tables as values of Python, of JSON, and as text.

Python has no nanoseconds and no year 20,000, JSON has no moments and no NaN, CSV has no lists: what becomes
of such cells is decided here, for files that are read and written and for the arguments of calls.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date, time, timedelta
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, cast

from ..types.texts import iso_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

OUT_OF_RANGE: Final = "<value out of range>"  # as Arrow writes it


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a cell that cannot be read; its `why`, `kind` of cell, and `fix` are for an error."""

    why: str
    kind: str = ""
    fix: str = ""


def python_values(column: pa.ChunkedArray[Any]) -> Iterator[Any]:
    """Yields the cells of a column: None for a missing one, a dict for a map, moments in microseconds.

    A cell of which Python has no value, such as the year 20,000, is Arrow's scalar.
    """
    column = in_microseconds(column)
    # Decided per column: looking at the type of each cell takes five times as long as reading it.
    read = methodcaller("as_py") if _is_read_by_arrow(column.type) else python_value
    return map(partial(_value_or_cell, read), column)


def _value_or_cell(read: Callable[[Any], Any], cell: Any) -> Any:
    try:
        return read(cell)
    except (ValueError, OverflowError):
        return cell


def python_value(cell: Any) -> Any:
    """The value of a cell as `python_values` has it; raises what Arrow raises if Python has none."""
    import pyarrow as pa

    if not cell.is_valid or _is_read_by_arrow(cell.type):
        return cell.as_py()
    if pa.types.is_map(cell.type):
        pairs = [[python_value(entry["key"]), python_value(entry["value"])] for entry in cell.values]
        members = dict(pairs)
        return members if len(members) == len(pairs) else pairs  # of two with the same key none is lost
    if pa.types.is_struct(cell.type):
        return {name: python_value(inner) for name, inner in cell.items()}
    if pa.types.is_nested(cell.type):
        return [python_value(inner) for inner in cell.values]
    return in_microseconds(cell).as_py()


def _is_read_by_arrow(kind: Any) -> bool:
    """Whether Arrow's own values will do: no pairs in place of maps, and no nanoseconds, which it refuses."""
    import pyarrow as pa

    inner = (kind.field(position).type for position in range(kind.num_fields))
    is_exact = getattr(kind, "unit", "") == "ns" or pa.types.is_map(kind)
    return pa.types.is_union(kind) or (not is_exact and all(map(_is_read_by_arrow, inner)))


def in_microseconds(cells: Any) -> Any:
    """A column, or a cell, of moments without nanoseconds, which Python does not have; others unchanged."""
    import pyarrow as pa

    kind = cells.type
    if getattr(kind, "unit", "") != "ns":
        return cells
    if pa.types.is_timestamp(kind):
        return cells.cast(pa.timestamp("us", kind.tz), safe=False)
    return cells.cast(pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us"), safe=False)


def json_value(value: Any) -> Any:
    """A cell's value as JSON: moments and durations as in ISO 8601; text for what JSON does not have."""
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {str(name): json_value(inner) for name, inner in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return list(map(json_value, cast("list[Any]", value)))
        case bytes():
            return value.decode(errors="backslashreplace")
        case date() | time():  # a datetime is a date, too
            return value.isoformat()
        case timedelta():
            return iso_duration(value)
        case Unreadable():
            return value
        case _:
            return OUT_OF_RANGE if hasattr(value, "as_py") else str(value)


def flat_table(table: pa.Table) -> pa.Table:
    """The table with lists, structures, bytes and similar columns as text, as CSV has no such types."""
    import pyarrow as pa

    kinds = pa.types
    flat = (kinds.is_primitive, kinds.is_string, kinds.is_large_string, kinds.is_decimal, kinds.is_dictionary)
    for position, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        if kinds.is_timestamp(field.type) and field.type.tz is not None:  # the zone may be unknown here
            column = column.cast(pa.timestamp(field.type.unit, "UTC"))
        elif not any(is_flat(field.type) for is_flat in flat):
            column = as_text(column)
        table = table.set_column(position, field.name, column)
    return table


def as_text(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """A column of any type as text: bytes are decoded, other values become JSON."""
    import pyarrow as pa

    return pa.array(map(_text, python_values(column)), pa.string())


def _text(value: Any) -> str | None:
    value = json_value(value)
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
