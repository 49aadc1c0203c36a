"""Reads JSON Schemas without a validator: finds the parts of a schema that describe a value.

Nothing is evaluated: all branches of ``allOf``, ``anyOf`` and ``oneOf`` and all local references count. No
references are fetched, and recursive ones are followed only once.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema_rs import Validator


def parts_of(schema: Any, root: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Finds all subschemas that describe the same value as a schema.

    Args:
        schema: Schema of a value; anything except an object is ignored.
        root: The schema that references point into.

    Returns:
        The schema itself, its branches and the schemas that they refer to; each once.
    """
    parts: dict[int, dict[str, Any]] = {}
    waiting: deque[Any] = deque([schema])
    while waiting:
        part = _object(waiting.popleft())
        if part is None or id(part) in parts:
            continue
        parts[id(part)] = part
        waiting.extend(_referred(part.get(key), root) for key in ("$ref", "$dynamicRef"))
        for key in ("allOf", "anyOf", "oneOf"):
            waiting.extend(_list(part.get(key)))
        waiting.extend((part.get("then"), part.get("else")))
    return list(parts.values())


def properties_in(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Collects the members that a schema of an object declares.

    Args:
        schema: Schema of an object.
        root: The schema that references point into.

    Returns:
        The members' schemas by name, in the order in which they are declared.
    """
    properties: dict[str, Any] = {}
    for part in parts_of(schema, root):
        for name, inner in (_object(part.get("properties")) or {}).items():
            properties.setdefault(name, inner)
    return properties


def member(schema: Any, root: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Finds the schema of one member of an object.

    Args:
        schema: Schema of the object.
        root: The schema that references point into.
        name: The member.

    Returns:
        A schema of which every branch may apply.
    """
    schemas: list[Any] = []
    for part in parts_of(schema, root):
        properties = _object(part.get("properties")) or {}
        if name in properties:
            schemas.append(properties[name])
            continue
        schemas.append(part.get("additionalProperties"))
        patterns = _object(part.get("patternProperties")) or {}
        schemas += [inner for pattern, inner in patterns.items() if _matches(pattern, name)]
    return {"anyOf": schemas}


def items(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Finds the schema of the items of an array.

    Args:
        schema: Schema of the array.
        root: The schema that references point into.

    Returns:
        A schema of which every branch may apply.
    """
    schemas: list[Any] = []
    for part in parts_of(schema, root):
        declared = part.get("items")
        schemas += [*(_list(declared) or [declared]), *_list(part.get("prefixItems"))]
    return {"anyOf": schemas}


def kinds(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """Collects the JSON types that a schema declares.

    Args:
        schema: Schema of a value.
        root: The schema that references point into.

    Returns:
        Names such as ``integer``; empty if the schema declares none.
    """
    types: set[str] = set()
    for part in parts_of(schema, root):
        declared = part.get("type")
        names = _list(declared) or [declared]
        types.update(name for name in names if isinstance(name, str))
    return frozenset(types)


def _referred(ref: Any, root: Mapping[str, Any]) -> Any:
    """Follows a reference within the schema, by JSON pointer or by name; other references are ignored."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    steps = unquote(ref[1:]).split("/")
    if steps[0]:
        return _named(root, steps[0])
    target: Any = root
    for step in steps[1:]:
        members = _object(target) or {str(place): item for place, item in enumerate(_list(target))}
        target = members.get(step.replace("~1", "/").replace("~0", "~"))
    return target


def _named(root: Mapping[str, Any], name: str) -> Any:
    waiting: deque[Any] = deque([root])
    while waiting:
        part = waiting.popleft()
        if name in ((_object(part) or {}).get(key) for key in ("$anchor", "$dynamicAnchor")):
            return part
        waiting.extend((_object(part) or {}).values())
        waiting.extend(_list(part))
    return None


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _matches(pattern: str, name: str) -> bool:
    try:
        return _validator(pattern).is_valid(name)
    except ValueError:
        return True  # an invalid pattern, or one that this engine does not support: it may apply


@lru_cache(maxsize=256)
def _validator(pattern: str) -> Validator:
    """Compiles a server's pattern with a linear-time engine; Python's ``re`` may take exponential time."""
    import jsonschema_rs

    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
