"""Tables from JSON: a list of records as a server's structured result holds it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from ...types.canonical import compact_json, without_surrogates
from .names import numbered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_COLUMNS: Final = 1000
_EXACT: Final = 2**53  # up to here every whole number is a double
_LONG: Final = 2**63


def find_records(structured: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Finds the lists of records in a structured result, each with its name.

    That is the value itself, with an empty name, or each member of an object that is a list of records. SDKs
    wrap a list as ``{"result": [...]}``; its name is empty, too.
    """
    if isinstance(structured, dict):
        members = cast("dict[str, Any]", structured)
        for name, value in members.items():
            if _are_records(value):
                yield ("" if len(members) == 1 and name == "result" else name), value
    elif _are_records(structured):
        yield "", structured


def records_table(records: Sequence[dict[str, Any]]) -> pa.Table | None:
    """Makes a table of records.

    Columns are the union of the records' keys, in the order in which they first appear. A column of one kind
    of JSON value has its type: boolean, 64-bit integer, double, text. Whole numbers and fractions together
    are doubles where that changes no number. All else (lists, objects, integers beyond 64 bits, mixed kinds)
    is text: texts as they are, other values as JSON. What is null or missing is missing. Records with more
    than 1,000 different keys are no rows of a table: None.
    """
    keys: dict[str, None] = {}
    for record in records:
        if not record.keys() <= keys.keys():
            keys.update(dict.fromkeys(record))
            if len(keys) > _MOST_COLUMNS:
                return None
    columns = [_column([record.get(key) for record in records]) for key in keys]
    # KNIME wants names that are unique and not blank.
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
    except ValueError:  # 1e999 is JSON, but no number that Python could write as JSON again
        return without_surrogates(json.dumps(value, ensure_ascii=False))


def _is_long(values: list[Any]) -> bool:
    """Returns whether the texts together exceed what Arrow's string type can address."""
    return sum(len(value) for value in values if isinstance(value, str)) > 2**29
