"""Rewrites schemas that are stricter than their servers.

Some libraries (zod, by default) declare properties with a default as required, although the server fills them
in. OpenAPI's ``nullable`` has no meaning in JSON Schema, and its ``oneOf`` is used for alternatives that
overlap. Servers accept such arguments, and clients that do not check send them.
"""

from typing import Any, Final, cast

_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DATA: Final = frozenset({"default", "enum", "const", "examples", "example"})


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
