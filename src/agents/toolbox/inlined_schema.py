"""Schemas for agents of LangChain's own, which put what a reference names in its place.

A reference that leads nowhere, or more of them than can be written out, would cost such an agent all of its
tools. Our own loop hands schemas on as they came, see `functions`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, cast

from langchain_core.utils.json_schema import dereference_refs

from ...tools.json_pointer import at_pointer

_MOST_PARTS: Final = 50_000
_KEPT: Final = ("title", "description", "type", "enum", "default")


def inlinable(schema: dict[str, Any]) -> dict[str, Any]:
    """Makes a schema that LangChain can read.

    Args:
        schema: The schema of a tool's arguments.

    Returns:
        The same; if LangChain cannot read it, one that only names and describes the arguments.
    """
    with suppress(Exception):  # whatever LangChain makes of what a server sent
        if not _is_too_large(schema):
            dereference_refs(schema)
            return schema or {"type": "object", "properties": {}}
    named = properties_of(schema).items()
    return {
        "type": "object",
        "properties": {name: _described(part) for name, part in named if name != "$ref"},
    }


def properties_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Gives the arguments that a schema names; none where it does not say."""
    found = schema.get("properties")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _described(part: Any) -> dict[str, Any]:
    fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
    return {word: fields[word] for word in _KEPT if word in fields}


def _is_too_large(schema: dict[str, Any]) -> bool:
    waiting: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    for _ in range(_MOST_PARTS):
        if not waiting:
            return False
        part, inside = waiting.pop()
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            waiting += [(inner, inside) for inner in fields.values()]
            name = fields.get("$ref")
            if isinstance(name, str) and name not in inside:
                waiting.append((at_pointer(schema, name), inside | {name}))
        elif isinstance(part, list):
            waiting += [(inner, inside) for inner in cast("list[Any]", part)]
    return True
