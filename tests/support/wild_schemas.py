"""Schemas of arguments such as servers really send: old dialects, other dialects' words, mistakes.

Each has arguments that its server would take and arguments that it would refuse. Of a faulty one everything
is sent: it is the server that decides.
"""

import functools
from dataclasses import dataclass, field
from typing import Any

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@dataclass(frozen=True)
class Wild:
    """A schema, and what its server thinks of arguments."""

    schema: dict[str, Any]
    good: tuple[dict[str, Any], ...]
    bad: tuple[dict[str, Any], ...] = ()
    fault: str | None = field(default=None, kw_only=True)


def _of(part: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": part}, **more}


_FOLDER = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "inside": {"type": "array", "items": {"$ref": "#/definitions/folder"}},
    },
    "required": ["name"],
}

WILD = {
    "default-but-required": Wild(
        _of({"type": "integer", "default": 10}, required=["a"]), ({}, {"a": 3}), ({"a": "x"},)
    ),
    "default-but-required-inside": Wild(
        _of(_of({"type": "string", "default": "x"}, required=["a"]), required=["a"]),
        ({"a": {}}, {"a": {"a": "y"}}),
        ({}, {"a": {"a": 1}}),
    ),
    "one-of-by-defaults": Wild(
        _of(
            {
                "oneOf": [
                    _of({"const": "x", "default": "x"}, required=["a"]),
                    {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
                ]
            }
        ),
        ({"a": {"a": "x"}}, {"a": {"b": "y"}}),
    ),
    "nullable": Wild(_of({"type": "string", "nullable": True}), ({"a": None}, {"a": "x"}), ({"a": 1},)),
    "nullable-choice": Wild(
        _of({"type": "string", "enum": ["x", "y"], "nullable": True}),
        ({"a": None}, {"a": "x"}),
        ({"a": "z"},),
    ),
    "nullable-reference": Wild(
        _of(
            {"anyOf": [{"$ref": "#/$defs/A"}], "nullable": True}, **{"$defs": {"A": _of({"type": "integer"})}}
        ),
        ({"a": None}, {"a": {"a": 1}}),
        ({"a": 1}, {"a": {"a": "x"}}),
    ),
    "null-among-choices": Wild(_of({"enum": ["x", None]}), ({"a": None}, {"a": "x"}), ({"a": "y"},)),
    "null-or": Wild(
        _of({"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}),
        ({"a": None}, {"a": 1.5}, {}),
        ({"a": "x"},),
    ),
    "types": Wild(_of({"type": ["string", "integer"]}), ({"a": "x"}, {"a": 1}), ({"a": []},)),
    "no-type": Wild({"properties": {"a": {}}, "required": ["a"]}, ({"a": [1]}, {"a": None}), ({},)),
    "booleans": Wild(
        {"type": "object", "properties": {"a": True, "b": False}}, ({"a": [None]},), ({"b": 1},)
    ),
    "any-of-at-the-root": Wild(
        {
            "anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
            ]
        },
        ({"a": "x"}, {"b": 1}),
        ({"a": 1}, {}),
    ),
    "reference-at-the-root": Wild(
        {"$ref": "#/definitions/A", "definitions": {"A": _of({"type": "integer"}, required=["a"])}},
        ({"a": 1},),
        ({},),
    ),
    "recursive-draft-7": Wild(
        {**_of({"$ref": "#/definitions/folder"}), "definitions": {"folder": _FOLDER}, "$schema": DRAFT_7},
        ({"a": {"name": "x", "inside": [{"name": "y"}]}},),
        ({"a": {"name": "x", "inside": [{}]}},),
    ),
    "map": Wild(
        _of({"type": "object", "additionalProperties": {"type": "integer"}}),
        ({"a": {"x": 1}}, {"a": {}}),
        ({"a": {"x": "x"}},),
    ),
    "draft-4": Wild(
        _of(
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            **{"$schema": "http://json-schema.org/draft-04/schema#"},
        ),
        ({"a": 1},),
        ({"a": 0},),
    ),
    "draft-4-unsaid": Wild(
        _of({"type": "integer", "minimum": 0, "exclusiveMinimum": True}), ({"a": 1},), ({"a": 0},)
    ),
    "pair-draft-7-unsaid": Wild(
        _of({"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "minItems": 2}),
        ({"a": ["x", 1]},),
        ({"a": [1, "x"]}, {"a": []}),
    ),
    "draft-7-by-https": Wild(
        _of({"type": "integer"}, **{"$schema": "https://json-schema.org/draft-07/schema#"}),
        ({"a": 1},),
        ({"a": "x"},),
    ),
    "newest-by-http": Wild(
        _of({"type": "integer"}, **{"$schema": "http://json-schema.org/draft/2020-12/schema#"}),
        ({"a": 1},),
        ({"a": "x"},),
    ),
    "any-dialect": Wild(
        _of({"type": "integer"}, **{"$schema": "http://json-schema.org/schema#"}), ({"a": 1},), ({"a": "x"},)
    ),
    "2019": Wild(
        _of(
            {"$ref": "#/$defs/A", "description": "beside"},
            **{
                "$schema": "https://json-schema.org/draft/2019-09/schema",
                "$defs": {"A": {"type": "integer"}},
            },
        ),
        ({"a": 1},),
        ({"a": "x"},),
    ),
    "formats": Wild(
        _of({"type": "string", "format": "uri"}, **{"$schema": DRAFT_7}),
        ({"a": "https://example.com/größe"}, {"a": "example"}),
        ({"a": 1},),
    ),
    "words-of-others": Wild(
        _of(
            {"type": "string", "example": "x", "x-order": 1, "discriminator": {"propertyName": "k"}},
            **{"x-looks-like-a-schema": {"required": [{}], "properties": {"a": {"default": 1}}}},
        ),
        ({"a": "x"},),
        ({"a": 1},),
    ),
    "patterns": Wild(
        _of({"type": "string", "pattern": r"^\/(?<name>\p{L}+)\-\u0041$"}),
        ({"a": "/größe-A"},),
        ({"a": "/1-A"},),
    ),
    "pattern-of-a-browser": Wild(
        _of({"type": "string", "pattern": r"^[\w-.]+@[\w-]+$"}), ({"a": "x@y"}, {"a": ""}), fault="regex"
    ),
    "pattern-of-python": Wild(
        _of({"type": "string", "pattern": r"^\d+\Z"}), ({"a": "12"}, {"a": ""}), fault="regex"
    ),
    "type-of-python": Wild(_of({"type": "str"}), ({"a": "x"}, {"a": 1}), fault='"str"'),
    "required-inside": Wild(
        _of({"type": "string", "required": True}), ({"a": "x"}, {}), fault="properties/a"
    ),
    "list-for-nothing": Wild({"type": "object", "properties": []}, ({}, {"a": 1}), fault="properties"),
    "reference-to-nowhere": Wild(
        _of({"$ref": "#/components/schemas/A"}), ({"a": 1}, {"a": {"b": None}}), fault="not there"
    ),
    "nested-for-ever": Wild(
        _of(functools.reduce(lambda part, _: {"items": part}, range(80), {})),
        ({"a": [[[]]]},),
        fault="levels deep",
    ),
    "half-a-megabyte": Wild(
        {
            "type": "object",
            "properties": {
                f"field_{number}": {"type": ["string", "null"], "description": "about " * 40}
                for number in range(2000)
            },
            "additionalProperties": False,
        },
        ({"field_1999": "x", "field_0": None},),
        ({"field_2000": "x"}, {"field_3": 1}),
    ),
}
