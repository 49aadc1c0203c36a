"""JavaScript's type conversion: https://tc39.es/ecma262/#sec-type-conversion."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, cast

_LARGEST_PLAIN: Final = 1e21
_LARGEST_EXACT: Final = float(1 << 53)


class Undefined(Enum):
    """Type of `UNDEFINED`, so that type checkers can tell it from every value."""

    UNDEFINED = "undefined"

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> Literal[False]:
        return False


UNDEFINED: Final = Undefined.UNDEFINED
"""The result of an expression that selects nothing, as ``undefined`` in JavaScript. None is ``null``."""


def plain_number(number: float) -> float | int:
    """A finite number; as an int if it is whole and JavaScript writes it without an exponent."""
    if not number.is_integer() or abs(number) >= _LARGEST_PLAIN:
        return number
    # Beyond that Python's `int` of a float has digits that JavaScript does not write: it writes the
    # shortest text and zeros.
    return int(number) if abs(number) < _LARGEST_EXACT else int(Decimal(repr(number)))


def json_value(value: Any) -> Any:
    """Makes a value plain JSON, by the rules of JavaScript's ``JSON.stringify``.

    Undefined members are left out; undefined entries, infinity and NaN become null. JSON is not copied.
    """
    match value:
        case str() | bool() | int() | None:
            return value
        case float():
            return plain_number(value) if math.isfinite(value) else None
        case Undefined():
            return None
        case dict():
            members = cast("dict[str, Any]", value)
            kept = {key: json_value(member) for key, member in members.items() if member is not UNDEFINED}
            # The same object where nothing changes: large replies pass through many nodes.
            same = len(kept) == len(members) and all(kept[key] is members[key] for key in kept)
            return members if same else kept
        case list():
            entries = cast("list[Any]", value)
            copied = [json_value(entry) for entry in entries]
            same = all(new is old for new, old in zip(copied, entries, strict=True))
            return entries if same else copied
        case _:
            return str(value)


def truthy(value: Any) -> bool:
    """``Boolean(value)``: empty arrays and objects are true."""
    if isinstance(value, dict | list):
        return True
    # NaN is false in JavaScript, and true in Python.
    return bool(value) and value == value


def scalar_text(value: str | float | bool | None) -> str:
    """``String(value)``: https://tc39.es/ecma262/#sec-numeric-types-number-tostring."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    text = json.dumps(plain_number(value) if isinstance(value, float) else value)
    # Python writes an exponent from 0.0001 on, JavaScript from 0.000001 on, and no zero in it.
    return f"{Decimal(text):f}" if text.endswith(("e-05", "e-06")) else text.replace("e-0", "e-")
