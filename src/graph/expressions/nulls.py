"""JSON for the library, where None is undefined: ``null`` is a marker, keys are in JavaScript's order."""

from __future__ import annotations

from typing import Any, Final, cast

from .coercion import indices_first
from .engine import Utils

NULL: Final = Utils.NULL_VALUE
"""The library's marker for ``null``; None means undefined there."""


def marked(value: Any) -> Any:
    """Converts JSON into the form that the library evaluates.

    Args:
        value: JSON.

    Returns:
        The value with `NULL` for None, and the keys of objects as `indices_first` orders them. Unchanged
        parts are not copied.
    """
    if value is None:
        return NULL
    kind: Any = cast("Any", type)(value)
    if kind is dict:
        members = indices_first(cast("dict[str, Any]", value))
        changed = {key: new for key, old in members.items() if (new := marked(old)) is not old}
        return {**members, **changed} if changed else members
    if kind is list:
        entries = cast("list[Any]", value)
        new = [marked(entry) for entry in entries]
        return new if any(a is not b for a, b in zip(new, entries, strict=True)) else entries
    return value
