"""Reading a JSON Schema without a validator: which parts of it describe a value, and what they say.

Only what can be said without evaluating: all branches of ``allOf``, ``anyOf`` and ``oneOf`` and all local
references count. Nothing is fetched, and recursion ends.
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
    """Finds everything that describes the same value as a schema does.

    Args:
        schema: Schema of a value; anything but an object says nothing.
        root: The schema that references point into.

    Returns:
        The schema itself, then its branches and what they refer to; each once.
    """
    found: dict[int, dict[str, Any]] = {}
    waiting: deque[Any] = deque([schema])
    while waiting:
        part = _object(waiting.popleft())
        if part is None or id(part) in found:
            continue
        found[id(part)] = part
        waiting.extend(_referred(part.get(key), root) for key in ("$ref", "$dynamicRef"))
        for key in ("allOf", "anyOf", "oneOf"):
            waiting.extend(_list(part.get(key)))
        waiting.extend((part.get("then"), part.get("else")))
    return list(found.values())


def properties_in(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Names the members that a schema of an object declares.

    Args:
        schema: Schema of an object.
        root: The schema that references point into.

    Returns:
        Schema by name, in the order in which they are declared.
    """
    found: dict[str, Any] = {}
    for part in parts_of(schema, root):
        for name, inner in (_object(part.get("properties")) or {}).items():
            found.setdefault(name, inner)
    return found


def member(schema: Any, root: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Finds what describes one member of an object.

    Args:
        schema: Schema of the object.
        root: The schema that references point into.
        name: The member.

    Returns:
        A schema of which every branch may apply.
    """
    found: list[Any] = []
    for part in parts_of(schema, root):
        properties = _object(part.get("properties")) or {}
        if name in properties:
            found.append(properties[name])
            continue
        found.append(part.get("additionalProperties"))
        patterns = _object(part.get("patternProperties")) or {}
        found += [inner for pattern, inner in patterns.items() if _matches(pattern, name)]
    return {"anyOf": found}


def items(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Finds what describes the items of an array.

    Args:
        schema: Schema of the array.
        root: The schema that references point into.

    Returns:
        A schema of which every branch may apply.
    """
    found: list[Any] = []
    for part in parts_of(schema, root):
        declared = part.get("items")
        found += [*(_list(declared) or [declared]), *_list(part.get("prefixItems"))]
    return {"anyOf": found}


def kinds(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """Says which JSON types a schema asks for.

    Args:
        schema: Schema of a value.
        root: The schema that references point into.

    Returns:
        Names such as ``integer``; empty where the schema does not say.
    """
    found: set[str] = set()
    for part in parts_of(schema, root):
        declared = part.get("type")
        names = _list(declared) or [declared]
        found.update(name for name in names if isinstance(name, str))
    return frozenset(found)


def _referred(ref: Any, root: Mapping[str, Any]) -> Any:
    """Follows a reference within the schema, by JSON pointer or by name; any other one says nothing."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    steps = unquote(ref[1:]).split("/")
    if steps[0]:
        return _named(root, steps[0])
    found: Any = root
    for step in steps[1:]:
        members = _object(found) or {str(place): item for place, item in enumerate(_list(found))}
        found = members.get(step.replace("~1", "/").replace("~0", "~"))
    return found


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
        return True  # a pattern that looks around or back, or no pattern at all: it may apply


@lru_cache(maxsize=256)
def _validator(pattern: str) -> Validator:
    """Compiles a server's pattern with an engine of linear time; Python's own may take exponential time."""
    import jsonschema_rs

    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
