"""JSON pointers (RFC 6901): writing them, and finding the value at a pointer."""

from collections.abc import Iterable
from typing import Any, cast

_LONGEST_NUMBER = 9


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
