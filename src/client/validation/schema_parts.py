"""Reads JSON Schemas without a validator: the parts that describe a value, and what a server means by them.

Nothing is evaluated: all branches of ``allOf``, ``anyOf`` and ``oneOf`` and all local references count. No
references are fetched, and recursive ones are followed only once. A server's schema may be hostile: the work
grows with its size, not with the square of it.

`as_meant` rewrites schemas that are stricter than their servers. Some libraries (zod, by default) declare
properties with a default as required, although the server fills them in. OpenAPI's ``nullable`` has no
meaning in JSON Schema, and its ``oneOf`` is used for alternatives that overlap. Servers accept such
arguments, and clients that do not check send them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from ...types.texts import at_pointer
from ..protocol.jsonrpc import as_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema_rs import Validator

_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DATA: Final = frozenset({"default", "enum", "const", "examples", "example"})
MOST_PARTS: Final = 1000
"""The largest number of subschemas that are read for one value."""


def as_meant(schema: Any, *, overlapping: bool) -> Any:
    """Rewrites a schema to what its server means.

    Args:
        schema: A schema of bounded depth.
        overlapping: True to replace ``oneOf`` by ``anyOf``, so that values may fit several alternatives.
            References into the ``oneOf`` then lead nowhere.

    Returns:
        A copy in which properties with a default are not required, and ``nullable`` ones accept null.
    """
    if isinstance(schema, list):
        return [as_meant(part, overlapping=overlapping) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    node: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in _MAPS and isinstance(value, dict):
            parts = cast("dict[str, Any]", value).items()
            node[key] = {name: as_meant(part, overlapping=overlapping) for name, part in parts}
        else:
            node[key] = value if key in _DATA else as_meant(value, overlapping=overlapping)
    _require_less(node)
    if overlapping and "oneOf" in node and "anyOf" not in node:
        node["anyOf"] = node.pop("oneOf")
    if node.get("nullable") is not True:
        return node
    if "$ref" in node or "allOf" in node:
        return {"anyOf": [node, {"type": "null"}]}
    _take_null(node)
    return node


def _require_less(node: dict[str, Any]) -> None:
    required, properties = node.get("required"), node.get("properties")
    if not (isinstance(required, list) and isinstance(properties, dict)):
        return
    parts = cast("dict[str, Any]", properties)
    defaulted = {name for name, part in parts.items() if isinstance(part, dict) and "default" in part}
    names = cast("list[Any]", required)
    node["required"] = [name for name in names if not (isinstance(name, str) and name in defaulted)]
    if not node["required"]:
        del node["required"]  # draft-04 does not allow an empty list


def _take_null(node: dict[str, Any]) -> None:
    declared, options = node.get("type"), node.get("enum")
    if declared is not None:
        node["type"] = [*(cast("list[str]", declared) if isinstance(declared, list) else [declared]), "null"]
    if isinstance(options, list):
        node["enum"] = [*cast("list[Any]", options), None]
    for word in ("anyOf", "oneOf"):
        if isinstance(node.get(word), list):
            node[word] = [*node[word], {"type": "null"}]


def parts_of(schema: Any, root: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Finds all subschemas that describe the same value as a schema.

    Args:
        schema: Schema of a value; anything except an object is ignored.
        root: The schema that references point into.

    Returns:
        The schema itself, its branches and the schemas that they refer to; each once, at most 1,000.
    """
    parts: dict[int, dict[str, Any]] = {}
    waiting: deque[Any] = deque([schema])
    while waiting and len(parts) < MOST_PARTS:
        part = waiting.popleft()
        if not isinstance(part, dict) or id(cast("object", part)) in parts:
            continue
        part = cast("dict[str, Any]", part)
        parts[id(part)] = part
        waiting.extend(_referred(part.get(key), root) for key in ("$ref", "$dynamicRef"))
        for key in ("allOf", "anyOf", "oneOf"):
            waiting.extend(as_list(part.get(key)))
        waiting.extend((part.get("then"), part.get("else")))
    return list(parts.values())


def properties_in(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Collects the members that a schema of an object declares.

    Returns:
        The members' schemas by name, in the order in which they are declared.
    """
    properties: dict[str, Any] = {}
    for part in parts_of(schema, root):
        for name, inner in as_object(part.get("properties")).items():
            properties.setdefault(name, inner)
    return properties


def member(schema: Any, root: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Finds the schema of one member of an object.

    Returns:
        A schema of which every branch may apply.
    """
    schemas: list[Any] = []
    for part in parts_of(schema, root):
        properties = as_object(part.get("properties"))
        if name in properties:
            schemas.append(properties[name])
            continue
        schemas.append(part.get("additionalProperties"))
        patterns = as_object(part.get("patternProperties"))
        schemas += [inner for pattern, inner in patterns.items() if matches(pattern, name, unknown=True)]
    return {"anyOf": schemas}


def items(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Finds the schema of the items of an array.

    Returns:
        A schema of which every branch may apply.
    """
    schemas: list[Any] = []
    for part in parts_of(schema, root):
        declared = part.get("items")
        schemas += [*(as_list(declared) or [declared]), *as_list(part.get("prefixItems"))]
    return {"anyOf": schemas}


def kinds(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """Collects the JSON types that a schema declares.

    Returns:
        Names such as ``integer``; empty if the schema declares none.
    """
    types: set[str] = set()
    for part in parts_of(schema, root):
        declared = part.get("type")
        names = as_list(declared) or [declared]
        types.update(name for name in names if isinstance(name, str))
    return frozenset(types)


def resolve(root: dict[str, Any], schema: Any) -> dict[str, Any]:
    """Follows a reference within a schema.

    Returns:
        The referenced part, with the keywords beside ``$ref``; an empty schema if the reference leads
        nowhere, out of the schema, or in a cycle.
    """
    seen: set[str] = set()
    beside: dict[str, Any] = {}
    while isinstance(schema, dict):
        current = cast("dict[str, Any]", schema)
        reference = current.get("$ref")
        if not isinstance(reference, str):
            return {**current, **beside}
        if reference in seen:  # a cycle
            break
        seen.add(reference)
        beside = {**{key: value for key, value in current.items() if key != "$ref"}, **beside}
        schema = _referred(reference, root)
    return beside


def required_names(schema: Mapping[str, Any]) -> set[str]:
    """The names of the properties that a schema requires; entries that are not texts are skipped."""
    return {name for name in as_list(schema.get("required")) if isinstance(name, str)}


def listed_parameters(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Lists parameters by name, also behind references and in alternatives, and the required names."""
    whole = resolve(schema, schema)
    parts = [whole, *(resolve(schema, part) for part in as_list(whole.get("allOf")))]
    return properties_in(schema, schema), {name for part in parts for name in required_names(part)}


def type_of(value: Any) -> str:
    """The name of a value's JSON type; a number without a fraction is an ``integer``, too."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "integer" if value == value // 1 else "number"
        case str():
            return "string"
        case _:
            return "array" if isinstance(value, list) else "object"


def matches(pattern: str, text: str, *, unknown: bool) -> bool:
    """Searches a text for a server's pattern, in linear time; Python's ``re`` may take exponential time.

    Args:
        pattern: A regular expression.
        text: The text.
        unknown: The result for an invalid pattern, and for one with look-around or back-references.

    Returns:
        Whether the text contains the pattern.
    """
    validator = _validator(pattern)
    return unknown if validator is None else validator.is_valid(text)


def as_list(value: Any) -> list[Any]:
    """The value, if it is a list; otherwise an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def _referred(reference: Any, root: Mapping[str, Any]) -> Any:
    """Follows a reference within the schema, by JSON pointer or by name; other references are ignored."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer[:1] in ("", "/"):
        return at_pointer(root, pointer)
    return _named_parts(_SameObject(root)).get(pointer)


@dataclass(frozen=True, slots=True, eq=False)
class _SameObject:
    """A schema as the key of a cache: compared by identity, as comparing its content would take longer."""

    schema: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(maxsize=16)
def _named_parts(root: _SameObject) -> dict[str, Any]:
    """The parts of a schema that have names; of several with the same name, the outermost."""
    named: dict[str, Any] = {}
    waiting: deque[Any] = deque([root.schema])
    while waiting:
        part = waiting.popleft()
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := as_object(part).get(key), str):
                named.setdefault(name, part)
        waiting.extend((*as_object(part).values(), *as_list(part)))
    return named


@lru_cache(maxsize=256)
def _validator(pattern: str) -> Validator | None:
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions()
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return None
