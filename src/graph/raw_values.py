"""Reads values of unknown shape."""

from __future__ import annotations

import json
from typing import Any, cast


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, otherwise an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def entries(value: Any) -> list[Any]:
    """The value if it is a list, otherwise an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def kind_of(value: Any) -> str:
    """The kind of a value in words: ``text``, ``a number``, ``an empty value`` ..."""
    match value:
        case None:
            return "an empty value"
        case bool():
            return json.dumps(value)
        case int() | float():
            return f"the number {value}"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "a mapping"
