"""Schemas of a document's tools: compiled for validation, and in a form that all clients accept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..client.limits import Limits
from ..client.validation.schemas import CompiledSchema, compile_schema
from ..types.canonical import compact_json
from ..types.errors import MCPError
from .expressions.values import json_value
from .raw_values import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping


def compiled(schema: Mapping[str, Any]) -> CompiledSchema:
    """Compiles a schema. An unusable schema has a `fault`, and all values are valid."""
    try:
        return compile_schema(compact_json(schema), Limits())
    except MCPError as error:
        return CompiledSchema(dict(schema), None, error.what)


def listable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in a form that can be listed: the schemas of its properties are objects.

    The official SDK for TypeScript refuses a whole list if the schema of a property is ``true`` or ``false``.
    """
    copy = json_value(dict(schema))
    properties = mapping(copy.get("properties"))
    if any(isinstance(property_, bool) for property_ in properties.values()):
        as_objects: dict[bool, Any] = {True: {}, False: {"not": {}}}
        copy["properties"] = {
            name: as_objects[property_] if isinstance(property_, bool) else property_
            for name, property_ in properties.items()
        }
    return copy
