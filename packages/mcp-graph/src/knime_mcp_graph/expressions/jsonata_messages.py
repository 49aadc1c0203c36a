"""What JSONata's errors say, with JSON's words for values, and where in the expression they are."""

from __future__ import annotations

import math
import re
from typing import Any, Final, cast

from .jsonata_functions import json_of
from .jsonata_library import NULL, JException

_LONGEST_VALUE: Final = 200
_PLACE: Final = re.compile(r"(\{?)\{\{\w+\}\}\}?")

_TYPES: Final = {
    "a": "arrays",
    "b": "booleans",
    "f": "functions",
    "n": "numbers",
    "o": "objects",
    "s": "strings",
}
"""The types that the letters in signatures stand for."""

#: Errors whose values the library stores in another order than its texts use them.
_REORDERED: Final = {"D1002": ("expected",), "D3100": ("location",), "T2007": ("expected", "current")}
#: Errors of ``$eval``; their messages contain the error of the inner expression.
_WITH_CAUSE: Final = frozenset({"D3120", "D3121"})
#: Errors whose location is not a position in the expression.
_PLACELESS: Final = frozenset({"D3100"})


def message(error: Exception) -> str:
    """The message of a `JException`, whose own text has Python's values, and ``Object`` for function."""
    details = cast("Any", error)
    template: str | None = cast("Any", JException).error_codes.get(details.error)
    if template is None:
        return str(details.error)
    names = _REORDERED.get(details.error, ("current", "expected", "extra"))
    values = iter([getattr(details, name) for name in names])
    if details.error == "S0213" and details.current is None:
        values = iter([NULL])
    elif details.error == "T0412":
        values = iter([details.current, details.expected, _TYPES.get(details.extra[0], details.extra)])
    elif details.error in _WITH_CAUSE:
        values = iter([_cause(details.__context__)])
    text = _PLACE.sub(lambda place: _shown(next(values, None), plain=bool(place[1])), _as_npm(template))
    return text.removesuffix(": undefined")


def position(error: Exception) -> int | None:
    """The position of the error in the expression, in characters; None if it is not known."""
    details = cast("Any", error)
    return details.location if details.location > 0 and details.error not in _PLACELESS else None


def _cause(error: BaseException | None) -> str:
    if isinstance(error, JException):
        return message(error)
    return " ".join(str(error).split()) or type(error).__name__


def _as_npm(template: str) -> str:
    # The library's text says 1e6, but its range operator allows up to 1e7 entries.
    template = template.replace('"', "'")
    return template.replace(" Object ", " function ").replace("a Object", "a function").replace("1e6", "1e7")


def _shown(value: Any, *, plain: bool) -> str:
    """A value as JSON; long values are cut, as they are the caller's data."""
    if value is None:
        return "undefined"
    if plain and isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    text = json_of(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
