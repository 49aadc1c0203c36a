"""Canonical JSON, JSON pointers (RFC 6901), the digest of a definition, and text that is no Unicode.

Values that are compared, hashed, chained or written into a JSON column are written by `canonical_json`, so
that equal values have equal text. Lone surrogates are replaced: Arrow stores UTF-8, and one lone surrogate in
one cell makes KNIME lose the whole table.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# Made once: `json.dumps` makes an encoder per call, which takes as long as writing a small value.
_LONGEST_NUMBER: Final = 9  # digits of an index in a pointer
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


def why_no_json(error: ValueError | RecursionError) -> str:
    """The reason why `json` cannot read a text, for the end of a sentence."""
    match error:
        case RecursionError():
            return "it is nested too deeply"
        case json.JSONDecodeError():
            return f"{error.msg} in line {error.lineno}, column {error.colno}"
        case _:  # integers with too many digits
            return "it holds a number with thousands of digits"


def definition_digest(
    *,
    name: str,
    title: str | None,
    description: str | None,
    input_schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    annotations: Mapping[str, Any] | None,
) -> str:
    """Computes the digest of a tool's definition as a server gives it in ``tools/list``; it pins the tool.

    A person reads a tool's description and schema once and trusts the tool from then on. The digest covers
    all parts of the definition that a server may change later, so that a call can check that they are still
    the same. The order of keys does not count; an absent part (None) differs from an empty part.

    Returns:
        ``sha256:`` and 64 hexadecimal digits: SHA-256 over canonical JSON.

    Raises:
        ValueError: A number that JSON does not have.
    """
    definition = {
        "annotations": None if annotations is None else dict(annotations),
        "description": description,
        "inputSchema": dict(input_schema),
        "name": name,
        "outputSchema": None if output_schema is None else dict(output_schema),
        "title": title,
    }
    return "sha256:" + hashlib.sha256(canonical_json(definition).encode()).hexdigest()


def pointer_step(name: str | int) -> str:
    """A name or index as one step of a pointer, with the slash before it."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def pointer_text(path: Iterable[str | int]) -> str:
    """A path as a pointer."""
    return "".join(map(pointer_step, path))


def at_pointer(value: Any, pointer: str) -> Any:
    """The value at a pointer; None if there is no such place."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(key)
            continue
        items = cast("list[Any]", value) if isinstance(value, list) else []
        is_number = key.isascii() and key.isdigit() and len(key) <= _LONGEST_NUMBER
        value = items[int(key)] if is_number and int(key) < len(items) else None
    return value
