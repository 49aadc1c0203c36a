import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.tools.calling_hints import example_arguments


def example(schema):
    return json.loads(example_arguments(schema))


def of_property(schema):
    return example({"type": "object", "properties": {"x": schema}, "required": ["x"]})["x"]


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"properties": None}, {"type": "string"}, {"$ref": 3}]
)
def test_a_schema_that_asks_for_nothing_has_an_empty_example(schema):
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
    {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
    {"type": "string", "pattern": r"^[a-z][a-z0-9-]{1,61}[a-z0-9]$", "minLength": 3, "maxLength": 63},
    {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$", "format": "date"},
    {"type": "string", "pattern": "^[A-Z]{3}$"},
    {"type": "string", "pattern": r"^https?://\S+$"},
    {"type": "string", "default": None},
    {"type": "string", "enum": ["a", "b"], "default": "c"},
    {"type": "integer", "default": "many", "examples": ["some", 5]},
    {"type": ["integer", "null"], "default": None},
    {"type": "integer", "minimum": 1.5},
    {"type": "array", "contains": {"type": "integer"}},
    {"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer"}},
    {"type": "object", "minProperties": 2, "properties": {"a": {"type": "boolean"}, "b": {}, "c": {}}},
    {"type": "object", "allOf": [{"allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}]}]},
    {
        "type": "object",
        "patternProperties": {"^x_": {"type": "boolean"}},
        "additionalProperties": False,
        "required": ["x_1"],
    },
]


def test_for_a_pattern_of_its_own_kind_no_text_is_made_up():
    for pattern in ["(?=x)", r"^arn:aws:[\w-]+:\d{12}$", "(", "(" * 5000]:
        assert of_property({"type": "string", "pattern": pattern}) == "text", pattern


def test_the_example_fits_the_schema(subtests):
    for schema in FITTING:
        with subtests.test(schema=schema):
            jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(of_property(schema))


def test_the_example_of_a_tuple_of_older_drafts_fits_each_place():
    schema = {"type": "array", "items": [{"type": "boolean"}, {"type": "null"}], "minItems": 3}
    found = of_property({**schema, "additionalItems": {"type": "object"}})
    assert found == [False, None, {}]


WIDE = {
    "$ref": "#/$defs/wide",
    "$defs": {
        "wide": {
            "allOf": [{"$ref": "#/$defs/many"}] * 50,
            "properties": {f"q{i}": {"$ref": "#/$defs/wide"} for i in range(2000)},
            "required": [f"q{i}" for i in range(2000)],
        },
        "many": {"properties": {f"p{i}": {"default": i} for i in range(5000)}},
    },
}


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


def test_where_recursion_ends_values_are_still_of_their_types():
    tree = {
        "properties": {"size": {"type": "integer"}, "in": {"$ref": "#/$defs/tree"}},
        "required": ["size", "in"],
    }
    found = example({"$ref": "#/$defs/tree", "$defs": {"tree": tree}})
    while found:
        assert isinstance(found["size"], int)
        found = found["in"]


def test_a_reference_is_part_of_a_url():
    part = {"type": "integer", "minimum": 7}
    schema = {"properties": {"a": {"$ref": "#/$defs/Partial%3CA%20b%3E"}}, "$defs": {"Partial<A b>": part}}
    assert example({**schema, "required": ["a"]}) == {"a": 7}


def test_a_reference_by_a_name_is_no_reference_to_everything():
    schema = {"type": "object", "properties": {"a": {"$ref": "#name"}, "b": {}}, "required": ["a"]}
    assert example(schema) == {"a": "text"}


def test_hostile_schemas_end(subtests):
    for schema in [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"properties": {"x": {"$ref": "#"}}, "required": ["x"]},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"allOf": [{"$ref": "#"}] * 100},
        {"properties": {"x": {"$ref": "http://127.0.0.1:1/never"}}, "required": ["x"]},
        {"properties": {str(i): {"$ref": "#"} for i in range(50)}, "required": [str(i) for i in range(50)]},
        {"properties": {"x": {"type": "string", "minLength": 10**13}}, "required": ["x"]},
        {"properties": {"x": {"$ref": "#/anyOf/²"}}, "required": ["x"], "anyOf": [{}]},
        {"properties": {"x": {"$ref": "#/anyOf/" + "1" * 5000}}, "required": ["x"], "anyOf": [{}]},
        WIDE,
    ]:
        with subtests.test(schema=schema):
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
