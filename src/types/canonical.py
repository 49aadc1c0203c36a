"""The project's canonical JSON, and its rule for text that is not valid Unicode.

Values that are compared, hashed, chained or written into a JSON column are written by `canonical_json`, so
that equal values have equal text. Lone surrogates are replaced: Arrow stores UTF-8, and one lone surrogate in
one cell makes KNIME lose the whole table.
"""

from __future__ import annotations

import json
from typing import Any, Final

# Made once: `json.dumps` makes an encoder per call, which takes as long as writing a small value.
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL: Final = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)


def canonical_json(value: Any) -> str:
    """Writes a JSON value as canonical text.

    Keys are sorted by code point, there is no insignificant space, non-ASCII characters are not escaped, and
    lone surrogates become U+FFFD. Numbers are written as Python writes them, thus ``1`` and ``1.0`` differ.

    Args:
        value: A value that `json` can write: dict with text keys, list, tuple, str, int, float, bool, None.

    Returns:
        The JSON text.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have, or a value that contains itself.
        TypeError: A value of another type.
    """
    return without_surrogates(_CANONICAL.encode(value))


def compact_json(value: Any) -> str:
    """Writes a JSON value without insignificant space; keys keep their order.

    Used for schemas: people and models read properties in the order in which the server lists them. Raises
    the errors of `canonical_json`.
    """
    return without_surrogates(_COMPACT.encode(value))


def without_surrogates(text: str) -> str:
    """Makes text encodable as UTF-8, such as text with a broken escape in a server's JSON.

    Returns:
        The text with every lone surrogate replaced by U+FFFD and every pair joined to its character; the
        same object for a text without surrogates.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
