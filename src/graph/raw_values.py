"""Reads values of unknown shape."""

from __future__ import annotations

from typing import Any, cast


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, otherwise an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def entries(value: Any) -> list[Any]:
    """The value if it is a list, otherwise an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []
