"""The one canonical JSON of the project, and the one rule for text that is not valid Unicode.

Everything that is compared, hashed, chained or written into a JSON column goes through `canonical_json`, so
that equal values have equal text. Strings are cleaned on the way: Arrow stores UTF-8, and a single lone
surrogate in a single cell makes KNIME lose the whole table.
"""

from __future__ import annotations

import json
from typing import Any, Final

# Made once: `json.dumps` makes one for each call, which costs as much as the text of a small value.
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL: Final = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)


def canonical_json(value: Any) -> str:
    """Writes a JSON value as canonical text.

    Keys are sorted by code point, there is no insignificant space, non-ASCII characters are kept as they
    are, and lone surrogates become U+FFFD. A number keeps Python's own text, thus ``1`` and ``1.0`` differ.

    Args:
        value: What `json` can write: dict with text keys, list, tuple, str, int, float, bool, None.

    Returns:
        The JSON text.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have, or a value that contains itself.
        TypeError: Something that JSON cannot hold.
    """
    return without_surrogates(_CANONICAL.encode(value))


def compact_json(value: Any) -> str:
    """Writes a JSON value without insignificant space and with its keys in their own order.

    For schemas: the order in which a server lists properties is the order in which people and models read
    them. Errors are those of `canonical_json`.
    """
    return without_surrogates(_COMPACT.encode(value))


def without_surrogates(text: str) -> str:
    """Makes text encodable as UTF-8, such as what a broken escape in a server's JSON gives.

    Returns:
        The text with every lone surrogate replaced by U+FFFD and every pair joined to its character; the
        same object where there was none.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
