import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.tools.provider.example_arguments import example_arguments


def example(schema):
    return json.loads(example_arguments(schema))


def of_property(schema):
    return example({"type": "object", "properties": {"x": schema}, "required": ["x"]})["x"]


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"properties": None}, {"type": "string"}, {"$ref": 3}]
)
def test_nothing_to_give(schema):
    assert example_arguments(schema) == "{}"


def test_required_properties_and_those_with_a_proposal_come_in_the_schemas_order():
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "cursor": {"type": "string"},
            "sort": {"type": "string", "examples": ["newest"]},
            "nothing": {"default": None},
        },
        "required": ["query"],
    }
    assert example_arguments(schema) == '{"query":"text","limit":10,"sort":"newest"}'


FITTING = [
    {"type": "string"},
    {"type": "string", "minLength": 20, "maxLength": 30},
    {"type": "string", "maxLength": 2},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "email"},
    {"type": "string", "format": "uri"},
    {"enum": ["red", "green"]},
    {"const": {"a": 1}},
    {"type": "integer"},
    {"type": "integer", "minimum": 18, "maximum": 20},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    {"type": "integer", "multipleOf": 7, "minimum": 1},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "maximum": -2.5},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["null", "string"]},
    {"type": "array", "items": {"type": "integer"}, "minItems": 3},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2},
    {"type": "array", "maxItems": 0},
    {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 5}]},
    {"oneOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "string"}]},
    {"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}], "type": "object"},
    {"type": "object", "properties": {"a": {"type": "object", "required": ["b"], "properties": {"b": {}}}}},
    {"type": "object", "required": ["anything"]},
]


@pytest.mark.parametrize("schema", FITTING)
def test_the_example_fits_the_schema(schema):
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(of_property(schema))


def test_references_are_followed_and_recursion_ends():
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "required": ["tree"],
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"label": {"type": "string"}, "child": {"$ref": "#/$defs/tree"}},
                "required": ["label"],
            }
        },
    }
    assert example(schema) == {"tree": {"label": "text"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"properties": {"x": {"$ref": "#"}}, "required": ["x"]},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"allOf": [{"$ref": "#"}] * 100},
        {"properties": {"x": {"$ref": "http://127.0.0.1:1/never"}}, "required": ["x"]},
        {"properties": {str(i): {"$ref": "#"} for i in range(50)}, "required": [str(i) for i in range(50)]},
    ],
)
def test_hostile_schemas_end(schema):
    assert len(example_arguments(schema)) < 1_000_000


# fmt: off
KEYWORDS = [
    "type", "$ref", "properties", "required", "items", "prefixItems", "enum",
    "const", "default", "examples", "anyOf", "allOf", "oneOf", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "format", "object", "array", "string",
]
# fmt: on
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYWORDS) | st.text(), inner),
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), json_values | st.sampled_from(KEYWORDS)))
def test_whatever_a_schema_holds_there_is_an_object(schema):
    assert isinstance(example(schema), dict)
