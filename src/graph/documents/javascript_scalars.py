"""Resolves unquoted scalars in graph documents like js-yaml, with JavaScript's numbers."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from ...yaml_text import core_scalar
from ..expressions.coercion import to_number, to_string
from ..expressions.values import plain_number

_INT: Final = re.compile(r"([-+]?)(0b[01]+|0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+)")
_FLOAT: Final = re.compile(r"(?:[-+]?[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN: Final = frozenset({".nan", ".NaN", ".NAN"})
_LONGEST: Final = 1100
"""Binary digits of the largest number; Python is slow with, or refuses, longer texts."""


def javascript_scalar(text: str) -> Any:
    """Resolves an unquoted scalar.

    Args:
        text: The scalar.

    Returns:
        None, a truth value, a number or the text itself. Numbers that are too large stay texts; numbers
        without a fraction are integers, as in JavaScript.
    """
    if text in _NAN:
        return math.nan
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    if (whole := _INT.fullmatch(text)) and len(text) <= _LONGEST:
        digits = whole[2]
        base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 10)
        number = to_number(int(whole[1] + digits[2 if base != 10 else 0 :], base))
    elif _FLOAT.fullmatch(text):
        number = float(text)
    else:
        value = core_scalar(text)
        # All numbers of js-yaml were handled above; it does not accept "-.5".
        return value if value is None or isinstance(value, bool) else text
    if not math.isfinite(number):
        return text
    return number if isinstance(number, int) else plain_number(number)


def javascript_key(text: str) -> str:
    """The text to which JavaScript converts an unquoted key."""
    return to_string(javascript_scalar(text))
