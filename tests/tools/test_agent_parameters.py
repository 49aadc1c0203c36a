"""Arguments through KNIME's Configuration nodes: of any name and type, they arrive as they were meant."""

import json
import re

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.tools.agent_parameters import agent_parameters, arguments_given, cell_names, notes_of, variable
from knime_mcp.types.errors import ArgumentsInvalid
from knime_mcp.types.tool import MCPTool
from tests.support.hard_schemas import HARD
from tests.support.java_segments import as_a_model_gives
from tests.support.wild_schemas import WILD

KNIME_NAME = re.compile(r"^[a-zA-Z](?:[-_]?[a-zA-Z0-9]+)*(?<![0-9])$")


def tool(schema, **options):
    given = {"name": "t", "description": "Does it", "server_uri": "https://h/mcp", "tool_name": "t"} | options
    return MCPTool(parameter_schema=schema, **given)


def through(schema, arguments):
    """The arguments after a model and KNIME's nodes had them."""
    parameters = agent_parameters(tool(schema))
    said = as_a_model_gives(parameters, arguments)
    variables = {
        variable(i): value if isinstance(value, bool) else str(value)
        for i, value in enumerate(said[own.knime_name] for own in parameters)
    }
    return arguments_given(parameters, variables)


def test_every_parameter_has_a_name_that_knime_takes_and_a_schema_that_is_one(subtests):
    for name in HARD:
        with subtests.test(name=name):
            parameters = agent_parameters(tool(HARD[name]))
            names = [own.knime_name for own in parameters]
            assert len(set(names)) == len(names)
            assert [own for own in names if not KNIME_NAME.fullmatch(own)] == []
            assert agent_parameters(tool(HARD[name])) == parameters
            for own in parameters:
                jsonschema_rs.meta.validate(
                    {"$schema": "https://json-schema.org/draft/2020-12/schema", **own.shown}
                )
                assert json.loads(json.dumps(own.shown)) == own.shown


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        pytest.param(wild.schema, good, id=f"{name}-{i}")
        for name, wild in WILD.items()
        for i, good in enumerate(wild.good)
    ],
)
def test_arguments_for_schemas_of_real_servers_arrive(schema, arguments):
    """What may be missing cannot be null or an empty text: that says that it is missing."""
    known = {own.name: own for own in agent_parameters(tool(schema))}
    meant = {name: value for name, value in arguments.items() if name in known}
    optional = {name for name, own in known.items() if own.optional}

    def said(values):
        return {n: v for n, v in values.items() if n not in optional or v not in (None, "")}

    assert said(through(schema, meant)) == said(meant)


NAMES = st.sampled_from(
    ["größe", "page2", "page2_v", "$filter", "user.name", "user_name", "a", ""]
) | st.text(max_size=6)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
#: The schema of a parameter, and the values that it takes.
PARTS = st.sampled_from(
    [
        ({"type": "string"}, st.text(max_size=9)),
        ({"type": "integer"}, st.integers(-(10**30), 10**30)),
        ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)),
        ({"type": "boolean"}, st.booleans()),
        ({"type": "array", "items": {}}, st.lists(JSON, max_size=3)),
        ({"type": "object"}, st.dictionaries(st.text(max_size=4), JSON, max_size=3)),
        ({"type": ["string", "integer"]}, st.integers() | st.text(max_size=5)),
        ({"type": ["string", "null"]}, st.none() | st.text(max_size=5)),
        ({"type": ["integer", "null"]}, st.none() | st.integers()),
        ({"type": ["boolean", "null"]}, st.none() | st.booleans()),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, st.none() | st.text(max_size=5)),
        ({}, JSON),
        ({"enum": ["x", "ü"]}, st.sampled_from(["x", "ü"])),
    ]
)


@st.composite
def calls(draw):
    properties, arguments, required = {}, {}, []
    for name in draw(st.lists(NAMES, max_size=6, unique=True)):
        part, values = draw(PARTS)
        properties[name] = part
        optional = draw(st.booleans())
        if not optional:
            required.append(name)
        if optional and draw(st.booleans()):
            continue
        value = draw(values)
        nullable = "null" in json.dumps(part)
        only_text = "string" in json.dumps(part) and "integer" not in json.dumps(part)
        if value == "" and only_text and (optional or nullable):
            value = "x"  # the one value that cannot be given, as Notes says
        if value is None and optional:
            value = draw(values.filter(lambda value: value not in (None, "")))  # left out means the same
        arguments[name] = value
    return {"type": "object", "properties": properties, "required": required}, arguments


@given(calls())
def test_any_arguments_arrive_as_they_were_meant(call):
    schema, arguments = call
    arrived = through(schema, arguments)
    assert arrived == arguments
    for name, value in arguments.items():
        assert type(arrived[name]) is type(value) or "number" in json.dumps(schema["properties"][name])


def test_what_java_writes_of_numbers_is_read():
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "number"}}, "required": ["a", "b"]}
    parameters = agent_parameters(tool(schema))
    for text, value in (
        ("3000000000", 3000000000),
        ("3.0", 3),
        ("1E+3", 1000),
        ("12345678901234567890", 12345678901234567890),
    ):
        assert arguments_given(parameters, {"mcp_0": text, "mcp_1": "2.5"}) == {"a": value, "b": 2.5}
    assert arguments_given(parameters, {"mcp_0": "many", "mcp_1": ""}) == {"a": "many", "b": ""}


def test_what_the_schema_allows_without_a_name():
    schema = {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    assert through(schema, {"a": "x", "b": 1, "c": 2}) == {"a": "x", "b": 1, "c": 2}
    parameters = agent_parameters(tool(schema))
    assert [own.knime_name for own in parameters] == ["a", "more_arguments"]
    with pytest.raises(ArgumentsInvalid, match="more_arguments is no JSON object"):
        arguments_given(parameters, {"mcp_0": "x", "mcp_1": "[1]"})


def test_json_in_a_text_is_told_with_an_example():
    schema = {
        "properties": {
            "tags": {"type": "array", "items": {"type": "string", "examples": ["new"]}},
            "at": {"$ref": "#/$defs/Place", "description": "Where"},
            "any": {},
            "id": {"type": ["string", "integer"]},
        },
        "$defs": {"Place": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
        "default": {},
    }
    told = {own.name: own.shown["description"] for own in agent_parameters(tool(schema))}
    assert told["tags"].startswith(r'JSON in a text, such as "[\"new\"]", and never ["new"] itself, of the')
    assert told["at"].startswith(
        r'Where JSON in a text, such as "{\"x\":1}", and never {"x":1} itself, of the'
    )
    assert told["any"].startswith("JSON in a text, and never a list, an object or null itself.")
    assert told["id"].startswith("JSON in a text, of the schema")


def test_a_schema_that_cannot_be_read_has_no_parameters():
    assert agent_parameters(tool("{broken")) == ()


def test_names_of_tools_differ_and_fit():
    long = "x" * 80
    names = cell_names(["search", "search", "such e", "such_e", long, long + "y", "", "表"])
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert names[0] == "search"


def test_notes_say_what_is_different():
    assert notes_of(tool({}), "t") is None
    schema = {"properties": {"page2": {"type": "string"}, "f": {"type": "object"}}, "required": ["f"]}
    drawn = tool(schema, name="draw a chart", server_uri="https://h/mcp#credential=prod")
    said = notes_of(drawn, "draw_a_chart", refused="it may change something")
    for part in (
        "cannot run it: it may change something",
        "call it draw_a_chart",
        "page2_v for page2",
        "JSON in a text: f",
        "cannot be an empty text: page2",
        "pictures and sounds become files",
        "the credential 'prod'",
    ):
        assert part in said
