"""Values of expressions: JSON, and nothing at all."""

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
"""What selects nothing, as ``undefined`` in JavaScript. None is ``null``, which is a value."""


def plain_number(number: float) -> float | int:
    """A number as JSON writes it in JavaScript: without a fraction where it has none.

    Args:
        number: A finite number.

    Returns:
        An int where the value is whole and JavaScript would write its digits.
    """
    if not number.is_integer() or abs(number) >= _LARGEST_PLAIN:
        return number
    return int(number) if abs(number) < _LARGEST_EXACT else int(Decimal(repr(number)))


def json_value(value: Any) -> Any:
    """What is left of a value when it is written as JSON in JavaScript.

    Args:
        value: JSON in which `UNDEFINED`, infinity and NaN may occur.

    Returns:
        The value itself if it is JSON already, otherwise a copy: undefined members are left out, undefined
        entries and numbers that JSON does not have are null.
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
