"""JavaScript's type conversion: https://tc39.es/ecma262/#sec-type-conversion."""

from __future__ import annotations

import math
import re
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


#: White space and line ends of JavaScript.
SPACES: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

_NUMBER: Final = re.compile(r"[+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_MOST_DIGITS: Final = 21
_FEWEST_ZEROS: Final = -6
_RADIX: Final = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)", re.ASCII)


def truthy(value: Any) -> bool:
    """``Boolean(value)``: empty arrays and objects are true."""
    if isinstance(value, dict | list):
        return True
    # NaN is false in JavaScript, and true in Python.
    return bool(value) and value == value


def to_number(value: Any) -> float | int:
    """``Number(value)``."""
    match value:
        case bool():
            return int(value)
        case int():
            return value if abs(value) < 1 << 53 else _float(value)
        case float():
            return value
        case None:
            return 0
        case str():
            return _number_of(value)
        case dict() | list():
            return _number_of(to_string(value))
        case _:
            return math.nan


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _number_of(text: str) -> float | int:
    trimmed = text.strip(SPACES)
    if not trimmed:
        return 0
    if _RADIX.fullmatch(trimmed):
        return to_number(int(trimmed, 0))
    return _decimal(trimmed) if _NUMBER.fullmatch(trimmed) else math.nan


def _decimal(text: str) -> float:
    return float(text.replace("Infinity", "inf"))


def to_string(value: Any) -> str:
    """``String(value)``."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int() | float():
            return number_text(value)
        case list():
            return ",".join(
                "" if entry is None or entry is UNDEFINED else to_string(entry)
                for entry in cast("list[Any]", value)
            )
        case dict():
            return "[object Object]"
        case _:
            return "undefined"


def number_text(value: float) -> str:
    """A number as JavaScript writes it: https://tc39.es/ecma262/#sec-numeric-types-number-tostring."""
    if isinstance(value, int) and abs(value) < 1 << 53:
        return str(value)
    number = _float(value) if isinstance(value, int) else value
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = f"{abs(number)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return sign + _with_point(digits, point)


def _with_point(digits: str, point: int) -> str:
    """Digits with the decimal point after `point` of them."""
    if len(digits) <= point <= _MOST_DIGITS:
        return digits + "0" * (point - len(digits))
    if 0 < point <= _MOST_DIGITS:
        return f"{digits[:point]}.{digits[point:]}"
    if _FEWEST_ZEROS < point <= 0:
        return f"0.{'0' * -point}{digits}"
    exponent = point - 1
    shown = f"e{'+' if exponent >= 0 else '-'}{abs(exponent)}"
    return f"{digits[0]}{'.' + digits[1:] if len(digits) > 1 else ''}{shown}"
