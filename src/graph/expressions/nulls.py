"""``null`` for the library, to which None is what JavaScript calls undefined."""

from __future__ import annotations

from typing import Any, Final, cast

from .engine import Utils

NULL: Final = Utils.NULL_VALUE
"""``null`` inside of an evaluation; None is undefined there."""


def marked(value: Any) -> Any:
    """JSON as the library has to see it.

    Args:
        value: JSON.

    Returns:
        The value with `NULL` for None. Parts without None are those of the value, not copies.
    """
    if value is None:
        return NULL
    kind: Any = cast("Any", type)(value)
    if kind is dict:
        members = cast("dict[str, Any]", value)
        changed = {key: new for key, old in members.items() if (new := marked(old)) is not old}
        return {**members, **changed} if changed else members
    if kind is list:
        entries = cast("list[Any]", value)
        new = [marked(entry) for entry in entries]
        return new if any(a is not b for a, b in zip(new, entries, strict=True)) else entries
    return value
