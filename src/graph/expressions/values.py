"""Values of expressions: JSON and `UNDEFINED`."""

from __future__ import annotations

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
    """Turns a whole float into an int, as JavaScript's JSON has no ``.0``.

    Args:
        number: A finite number.

    Returns:
        An int if the number is whole and JavaScript writes it without an exponent, otherwise the number.
    """
    if not number.is_integer() or abs(number) >= _LARGEST_PLAIN:
        return number
    return int(number) if abs(number) < _LARGEST_EXACT else int(Decimal(repr(number)))


def json_value(value: Any) -> Any:
    """Makes a value plain JSON, by the rules of JavaScript's ``JSON.stringify``.

    Args:
        value: JSON in which `UNDEFINED`, infinity and NaN may occur.

    Returns:
        The value itself if it is JSON already, otherwise a copy: undefined members are left out; undefined
        entries, infinity and NaN become null.
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
            same = len(kept) == len(members) and all(kept[key] is members[key] for key in kept)
            return members if same else kept
        case list():
            entries = cast("list[Any]", value)
            copied = [json_value(entry) for entry in entries]
            same = all(new is old for new, old in zip(copied, entries, strict=True))
            return entries if same else copied
        case _:
            return str(value)
