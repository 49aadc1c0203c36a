"""Schemas for agents of others: plain objects, whatever a server wrote."""

import pytest

from knime_mcp.agents._tool import simpler_schema

pytestmark = pytest.mark.quick


def test_simpler_schemas_keep_what_only_alternatives_say():
    schema = {
        "$ref": "#/$defs/wanted",
        "$defs": {
            "wanted": {
                "oneOf": [{"$ref": "#/$defs/circle"}, {"properties": {"side": {"type": "number"}}}, True]
            },
            "circle": {"type": "object", "properties": {"radius": {}, "side": {"type": "string"}}},
        },
    }
    simple = simpler_schema(schema)
    assert "oneOf" not in simple
    assert "$ref" not in simple
    assert simple["type"] == "object"
    assert simple["properties"] == {"side": {"type": "number"}, "radius": {}}  # what is nearest to the top


def test_schemas_that_are_none_become_objects():
    for schema in ({"properties": [1]}, {"anyOf": 3, "allOf": {"a": 1}}, {"oneOf": [{"properties": 1}]}):
        assert simpler_schema(schema) == {"type": "object", "properties": {}}


def test_simpler_schemas_take_names_for_names():
    schema = {"properties": {"default": {"type": "array"}, "enum": {"type": "object"}, "type": {}}}
    assert simpler_schema(schema)["properties"] == {
        "default": {"type": "array", "items": {}},
        "enum": {"type": "object", "properties": {}},
        "type": {},
    }


def test_simpler_schemas_keep_what_is_inside():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"node": {"type": "object", "description": "a tree"}},
        "properties": {
            "root": {"$ref": "#/$defs/node"},
            "type": {"type": ["object", "null"]},
            "list": {"type": "array", "default": [{"type": "object"}]},
        },
        "oneOf": [],
    }
    assert simpler_schema(schema) == {
        "type": "object",
        "$defs": {"node": {"type": "object", "description": "a tree", "properties": {}}},
        "properties": {
            "root": {"$ref": "#/$defs/node"},
            "type": {"type": ["object", "null"], "properties": {}},
            "list": {"type": "array", "default": [{"type": "object"}], "items": {}},
        },
    }
    assert "oneOf" in schema
