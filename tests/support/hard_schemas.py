"""Sixty schemas of arguments that are hard to give through KNIME's Configuration nodes.

Half are those of `wild_schemas`; the others are about names, and about what may be missing, null or nested.
"""

from typing import Any

from tests.support.wild_schemas import WILD

TEXT = {"type": "string"}
NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["v"],
}


def _of(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


_MORE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no-properties": {"type": "object"},
    "names": _of(
        dict.fromkeys(
            ("größe", "page2", "page_2", "page2_v", "$filter", "user.name", "user_name", "a-b", "a--b"), TEXT
        ),
        "größe",
    ),
    "more-names": _of(
        dict.fromkeys(("", " ", "0", "_", "___a", "é", "表", "x y", "x_y", "class", "a" * 90), TEXT)
    ),
    "letters-behind": _of({f"é{i}": {"type": "integer"} for i in "一二三四五六七八九十"}),
    "many": _of({f"p{chr(97 + i // 26)}{chr(97 + i % 26)}": TEXT for i in range(60)}),
    "required-text": _of(
        {"a": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]*$"}}, "a"
    ),
    "optional-text": _of({"a": {"type": "string", "format": "date", "description": "When"}}),
    "nullable-text": _of({"a": {"type": ["string", "null"]}}, "a"),
    "pydantic-optional": _of({"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}),
    "pydantic-number": _of({"a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "A"}}, "a"),
    "required-number": _of({"a": {"type": "number", "minimum": -1.5, "exclusiveMaximum": 9e15}}, "a"),
    "required-integer": _of({"a": {"type": "integer", "multipleOf": 5}}, "a"),
    "large-integer": _of({"a": {"type": "integer", "enum": [3000000000, 12345678901234567890, -1]}}, "a"),
    "optional-number": _of({"a": {"type": "number"}, "b": {"type": "integer", "default": 10}}),
    "required-boolean": _of({"a": {"type": "boolean", "default": True}}, "a"),
    "optional-boolean": _of({"a": {"type": "boolean"}, "b": {"type": ["boolean", "null"]}}, "b"),
    "enum-without-type": _of(
        {"a": {"enum": ["x", "y"]}, "b": {"enum": [1, 2]}, "c": {"const": "k"}}, "a", "b", "c"
    ),
    "optional-enum": _of({"a": {"type": "string", "enum": ["x", "y"]}}),
    "mixed-enum": _of({"a": {"enum": ["1", 1, True, None, [1]]}}, "a"),
    "list": _of({"a": {"type": "array", "items": TEXT}, "b": {"type": "array"}}, "a"),
    "object": _of(
        {"a": _of({"b": {"type": "array", "items": _of({"c": {"type": "integer"}}, "c")}}, "b")}, "a"
    ),
    "free-object": _of({"a": {"type": "object", "additionalProperties": {"type": "integer"}}}),
    "text-or-number": _of(
        {"a": {"type": ["string", "integer"]}, "b": {"oneOf": [TEXT, {"type": "array"}]}}, "a"
    ),
    "anything": _of({"a": {}, "b": True, "c": {"description": "whatever"}}, "a"),
    "recursive": _of({"a": {"$ref": "#/$defs/node"}}, "a", **{"$defs": {"node": NODE, "unused": TEXT}}),
    "ref-to-text": _of(
        {"a": {"$ref": "#/$defs/t"}}, "a", **{"$defs": {"t": {"type": "string", "enum": ["x"]}}}
    ),
    "open": _of({"a": TEXT}, additionalProperties={"type": "integer"}),
    "patterns": {"type": "object", "patternProperties": {"^x-": TEXT}, "additionalProperties": False},
}
HARD: dict[str, dict[str, Any]] = _MORE | {f"wild-{name}": wild.schema for name, wild in WILD.items()}
