"""The values of unquoted scalars in YAML 1.2: https://yaml.org/spec/1.2.2/#103-core-schema.

PyYAML follows YAML 1.1, in which ``yes`` is a truth value, ``010`` is eight and ``12:30`` is a number.
"""

from __future__ import annotations

import math
import re
from typing import Final

NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
TRUE: Final = frozenset({"true", "True", "TRUE"})
FALSE: Final = frozenset({"false", "False", "FALSE"})
_INT: Final = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
#: The digits of the largest float; Python is slow with, or refuses, texts that are much longer.
_MOST_DIGITS: Final = 309


def core_scalar(text: str) -> str | int | float | bool | None:
    """Resolves an unquoted scalar.

    Args:
        text: The scalar.

    Returns:
        None, a truth value, a number or the text itself. JSON has no infinite numbers: ``.inf``, ``.nan``
        and numbers beyond the largest float stay texts.
    """
    if text in NULL:
        return None
    if text in TRUE or text in FALSE:
        return text in TRUE
    if _INT.fullmatch(text):
        base = {"0x": 16, "0o": 8}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base) if len(text) <= _MOST_DIGITS else text
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text
