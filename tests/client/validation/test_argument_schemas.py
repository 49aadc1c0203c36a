"""Reading schemas without a validator: references by name, and schemas made to take long."""

import pytest

from knime_mcp.client.validation.argument_schemas import (
    kinds,
    parameters_in,
    parameters_of,
    properties_in,
    resolve,
)
from knime_mcp.tools.calling_hints import example_arguments, signature
from knime_mcp.types.tool import MCPTool

MANY = 20_000
ALTERNATIVES = {"anyOf": [{"title": str(number)} for number in range(MANY)]}


def test_references_by_name_are_followed():
    place = {"$anchor": "place", "type": "object", "properties": {"city": {"$ref": "#name"}}}
    schema = {
        "properties": {"from": {"$ref": "#place"}, "to": {"$ref": "#place"}},
        "$defs": {"place": place, "name": {"$dynamicAnchor": "name", "type": "string"}},
    }
    for end in properties_in(schema, schema).values():
        assert kinds(end, schema) == {"object"}
        assert kinds(properties_in(end, schema)["city"], schema) == {"string"}
        assert resolve(schema, end) == place
    assert signature(schema) == "from?: object, to?: object"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {f"p{n}": {"$ref": f"#x{n}"} for n in range(MANY)}},
        {"type": "object", "anyOf": [{"$ref": f"#x{n}"} for n in range(MANY)]},
        {
            "type": "object",
            "properties": {f"p{n}": {"$ref": "#/$defs/many"} for n in range(100)},
            "$defs": {"many": ALTERNATIVES},
        },
    ],
    ids=["names of properties", "names of alternatives", "the same alternatives often"],
)
def test_schemas_made_to_take_long_are_read_in_time(schema):
    tool = MCPTool("t", "", schema, "http://127.0.0.1:9/mcp", "t")
    assert list(parameters_of(tool)) == list(schema.get("properties", ()))
    assert len(signature(schema)) < 10_000
    assert len(example_arguments(schema)) < 1_000_000


def test_names_that_are_only_required_are_what_the_schema_says_of_others():
    others = {"properties": {"a": {"type": "boolean"}}, "additionalProperties": {"type": "integer"}}
    found = parameters_in({**others, "required": ["x", "y", "a"]})
    assert {name: set(parameter.kinds) for name, parameter in found.items()} == {
        "a": {"boolean"},
        "x": {"integer"},
        "y": {"integer"},
    }
    patterns = {"patternProperties": {"^t_": {"type": "string"}, "^n_": {"type": "number"}}}
    found = parameters_in({**patterns, "required": ["n_1", "t_1"]}, ["t_2", "t_3", "other"])
    assert {name: set(parameter.kinds) for name, parameter in found.items()} == {
        "n_1": {"number"},
        "t_1": {"string"},
        "t_2": {"string"},
        "t_3": {"string"},
    }
    assert found["t_2"] is found["t_3"]  # alike parameters are one object: a server may name many
