"""Makes tables of the lists of records in a server's structured result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from ...types.canonical import compact_json, without_surrogates
from .names import numbered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_COLUMNS: Final = 1000
_EXACT: Final = 2**53  # every whole number up to here is exact as a double
_LONG: Final = 2**63


def find_records(structured: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Finds the lists of records in a structured result, each with its name.

    The value itself may be a list of records, with an empty name, or members of an object. SDKs wrap a list
    as ``{"result": [...]}``, whose name is empty, too.
    """
    if isinstance(structured, dict):
        members = cast("dict[str, Any]", structured)
        for name, value in members.items():
            if _are_records(value):
                yield ("" if len(members) == 1 and name == "result" else name), value
    elif _are_records(structured):
        yield "", structured


def records_table(records: Sequence[dict[str, Any]]) -> pa.Table | None:
    """Makes a table of records; None for records with more than 1,000 different keys.

    Columns are the union of the records' keys, in the order in which they first appear. A column of one kind
    of JSON value has its type: boolean, 64-bit integer, double, text. Whole numbers and fractions together
    are doubles if that changes no number. All other columns (lists, objects, integers beyond 64 bits, mixed
    kinds) are text, with texts unchanged and other values as JSON. Null and absent values are missing cells.
    """
    keys: dict[str, None] = {}
    for record in records:
        if not record.keys() <= keys.keys():
            keys.update(dict.fromkeys(record))
            if len(keys) > _MOST_COLUMNS:
                return None
    columns = [_column([record.get(key) for record in records]) for key in keys]
    # KNIME requires names that are unique and not blank.
    names = numbered([without_surrogates(key).strip() or "column" for key in keys])
    return pa.table(columns, names=list(names))


def _are_records(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    entries = cast("list[Any]", value)
    return all(isinstance(entry, dict) for entry in entries) and any(entries)


def _column(values: list[Any]) -> pa.Array:
    kinds: set[type] = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(value is None or -_LONG <= value < _LONG for value in values):
        return pa.array(values, pa.int64())
    if kinds == {float} or (kinds == {int, float} and all(_is_exact(value) for value in values)):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array(
        [_text(value) for value in values], pa.large_string() if _is_long(values) else pa.string()
    )


def _is_exact(value: Any) -> bool:
    return not isinstance(value, int) or -_EXACT <= value <= _EXACT


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return without_surrogates(value)
    try:
        return compact_json(value)
    except ValueError:  # Python reads 1e999 as infinity, which `compact_json` refuses
        return without_surrogates(json.dumps(value, ensure_ascii=False))


def _is_long(values: list[Any]) -> bool:
    """Returns whether the texts together exceed what Arrow's string type can address."""
    return sum(len(value) for value in values if isinstance(value, str)) > 2**29
