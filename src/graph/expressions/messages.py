"""What went wrong in an expression, in JSONata's words."""

from __future__ import annotations

import math
import re
from typing import Any, Final, cast

from .engine import JException
from .nulls import NULL
from .own_functions import json_of

_LONGEST_VALUE: Final = 200
_PLACE: Final = re.compile(r"(\{?)\{\{\w+\}\}\}?")

#: Errors in which the library puts something else first.
_REORDERED: Final = {"D1002": ("expected",), "D3100": ("location",), "T2007": ("expected", "current")}
#: Errors that the library places somewhere else than in the expression.
_PLACELESS: Final = frozenset({"D3100"})


def message(error: Exception) -> str:
    """Says what a `JException` means.

    Args:
        error: The error. Its own text has values as Python writes them, and ``Object`` for function.
    """
    found = cast("Any", error)
    template: str | None = cast("Any", JException).error_codes.get(found.error)
    if template is None:
        return str(found.error)
    names = _REORDERED.get(found.error, ("current", "expected", "extra"))
    values = iter([getattr(found, name) for name in names])
    if found.error == "S0213" and found.current is None:
        values = iter([NULL])
    text = _PLACE.sub(lambda place: _shown(next(values, None), plain=bool(place[1])), _as_npm(template))
    return text.removesuffix(": undefined")


def position(error: Exception) -> int | None:
    """Where in the expression something is wrong, in characters; None if that is not known."""
    found = cast("Any", error)
    return found.location if found.location > 0 and found.error not in _PLACELESS else None


def _as_npm(template: str) -> str:
    # The range operator gives more than the library's text says.
    template = template.replace('"', "'")
    return template.replace(" Object ", " function ").replace("a Object", "a function").replace("1e6", "1e7")


def _shown(value: Any, *, plain: bool) -> str:
    """A value as JSON; long ones are cut, because they are data of whoever calls."""
    if value is None:
        return "undefined"
    if plain and isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    text = json_of(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
