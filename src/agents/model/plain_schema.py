"""A server's schema as a plain object, for agents of others, which do not learn what an endpoint refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from ...client.validation.argument_schemas import properties_in, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_AT_THE_TOP: Final = (
    *("$schema", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then"),
    *("else", "default", "nullable"),
)
DATA_WORDS: Final = frozenset({"enum", "const", "default", "examples"})  # their values are no schemas
SCHEMAS_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_DEEPEST: Final = 64


def simpler_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a schema that strict endpoints accept, as close to the server's as possible.

    The schema is an object with properties, without alternatives at the top level. Every object in it has
    ``properties``, every array has ``items``, and enums hold texts only.
    """
    whole = cast("dict[str, Any]", _completed(dict(schema), 0))
    simple = {**whole, **resolve(whole, whole)}
    for word in _NOT_AT_THE_TOP:
        simple.pop(word, None)
    if not isinstance(simple.get("required"), list):
        simple.pop("required", None)
    declared = properties_in(whole, whole).items()
    properties: dict[str, Any] = {
        name: part if isinstance(part, dict) else {} for name, part in declared if part is not False
    }
    return {**simple, "type": "object", "properties": properties}


def declared_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def _completed(value: Any, depth: int, *, by_name: bool = False) -> Any:
    """Completes a schema, a list of schemas, or (`by_name`) schemas by name."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_completed(inner, depth + 1) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    schema = cast("dict[str, Any]", value)
    if by_name:
        return {name: _completed(inner, depth + 1) for name, inner in schema.items()}
    completed: dict[str, Any] = {
        word: inner if word in DATA_WORDS else _completed(inner, depth + 1, by_name=word in SCHEMAS_BY_NAME)
        for word, inner in schema.items()
    }
    values = cast("list[Any] | None", schema["enum"] if isinstance(schema.get("enum"), list) else None)
    if values and not all(isinstance(value, str) for value in values):
        del completed["enum"]  # Google's endpoints accept texts only
        choice = f"One of {json.dumps(values, ensure_ascii=False)}"
        completed["description"] = f"{schema['description']} {choice}" if "description" in schema else choice
    kind = schema.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    if "array" in kinds and "items" not in schema:
        completed["items"] = {}
    if "object" in kinds and not isinstance(schema.get("properties"), dict):
        completed["properties"] = {}
    return completed
