"""What scalars without quotes mean in graph documents: as js-yaml reads them, with JavaScript's numbers."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from ...yaml_text import core_scalar
from ..expressions.coercion import to_string
from ..expressions.values import plain_number

_LARGEST_EXACT: Final = 2**53
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|[0-9][0-9_]*)(?<!_)")
_FLOAT: Final = re.compile(
    r"(?:[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9_]+(?:[eE][-+]?[0-9]+)?)(?<!_)"
)
_INFINITE: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN: Final = frozenset({".nan", ".NaN", ".NAN"})


def javascript_scalar(text: str) -> Any:
    """What a scalar without quotes means.

    Args:
        text: The scalar.

    Returns:
        None, a truth value, a number or the text itself. Numbers with nothing behind the point are integers,
        as in JavaScript.
    """
    if _INT.fullmatch(text):
        return _whole(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return plain_number(float(text.replace("_", "")))
    if text in _NAN:
        return math.nan
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    value = core_scalar(text)
    # All numbers of js-yaml are above; it does not know "-.5".
    return value if value is None or isinstance(value, bool) else text


def javascript_key(text: str) -> str:
    """What JavaScript makes of a key without quotes: every key is a text."""
    return to_string(javascript_scalar(text))


def _whole(text: str) -> int | float:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 10)
    # A document's number is a JavaScript number; longer ones would also be slow to read.
    exact = int(digits[2:], base) if base != 10 else int(digits[:400])
    whole = sign * (exact if len(digits) <= 400 else 10**400)
    return whole if abs(whole) <= _LARGEST_EXACT else plain_number(_as_float(whole))


def _as_float(whole: int) -> float:
    try:
        return float(whole)
    except OverflowError:
        return math.inf if whole > 0 else -math.inf
