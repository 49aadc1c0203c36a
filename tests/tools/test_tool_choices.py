import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.tools.calling_hints import (
    ParameterHint,
    ToolChoice,
    decode_choices,
    encode_choices,
    offered,
    parameter_hints,
    signature,
    type_in_words,
    variable_name,
)

SEARCH = ToolChoice(
    name="search",
    route="https://h/mcp",
    parameters=(ParameterHint("query", "string", True),),
    description="Finds things.",
)


@pytest.mark.parametrize(
    ("servers", "taken", "name"),
    [
        (["https://host:8/mcp"], [], "mcp_tools: host:8"),
        (["https://a/x", "https://b/y", "https://a/z"], [], "mcp_tools: a + 1 more"),
        ([], [], "mcp_tools: no server"),
        (["https://host/mcp"], ["mcp_tools: host", "mcp_tools: host (2)"], "mcp_tools: host (3)"),
    ],
)
def test_the_variable_is_named_by_host(servers, taken, name):
    assert variable_name(servers, taken=taken) == name


tools = st.builds(
    ToolChoice,
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    description=st.text(st.characters(exclude_categories=["Cs"]), max_size=600),
)


@given(st.lists(tools, unique_by=lambda tool: tool.name))
def test_what_is_encoded_is_decoded(choices):
    assert decode_choices({"mcp_tools: x": encode_choices(choices), "other": ["a"]}) == choices


@pytest.mark.parametrize("count", [20, 100, 500])
def test_a_great_many_tools_keep_their_names_and_lose_details(count):
    many = [
        ToolChoice(
            name=f"tool {i}",
            route="https://h/mcp",
            digest="sha256:" + "0" * 64,
            description="d" * 500,
            parameters=(ParameterHint("x", "string", True),),
        )
        for i in range(count)
    ]
    entries = encode_choices(many)
    assert sum(map(len, entries)) <= 32_768
    decoded = decode_choices({"mcp_tools: x": entries})
    assert [tool.name for tool in decoded] == [tool.name for tool in many]
    assert {tool.route for tool in decoded} == {"https://h/mcp"}
    assert decoded[0].label("tool 0") == ("tool 0(x: string)" if count < 500 else "tool 0(…)")
    assert decoded[0].digest == (many[0].digest if count < 500 else "")


def test_tools_of_one_name_are_offered_apart():
    one, two = (ToolChoice(name="echo", route=f"https://{host}/mcp") for host in "ab")
    known = ToolChoice(name="echo", route="https://b/mcp#credential=crm")
    only = ToolChoice(name="only", route="https://b/mcp")
    found = decode_choices(
        {"mcp_tools: a": encode_choices([one]), "mcp_tools: b": encode_choices([two, only])}
    )
    assert offered(found) == {"echo @ https://a/mcp": one, "echo @ https://b/mcp": two, "only": only}
    assert list(offered([two, known])) == ["echo @ https://b/mcp", "echo @ https://b/mcp as crm"]


def test_whatever_stands_in_the_variables_the_dialog_opens():
    found = decode_choices(
        {
            "mcp_tools: a": encode_choices([SEARCH]),
            "mcp_tools: b": [
                "",
                "{",
                "[]",
                "null",
                '{"name": 3}',
                '{"name": ""}',
                '{"name":"n","new":1,"parameters":[1]}',
                "[" * 9999,
            ],
            "mcp_tools: c": "text",
            "mcp_tools: d": [1, 2],
            "mcp_tools: e": encode_choices([SEARCH]),
            "mcp_tools: f": None,
        }
    )
    assert found == [SEARCH, ToolChoice(name="n")]


def test_entries_are_json_that_others_can_read():
    assert [json.loads(entry).get("name") for entry in encode_choices([SEARCH])] == [None, "search"]


def test_a_signature_lists_required_parameters_first_with_their_types(subtests):
    for schema, text in [
        ({}, ""),
        ({"properties": {"a": {"type": "string"}}}, "a?: string"),
        ({"properties": {"a": {}, "b": {"type": "integer"}}, "required": ["b"]}, "b: integer, a?: any"),
        ({"properties": {"a": {"enum": [1, None]}}}, "a?: 1"),
        ({"properties": {"a": {"type": "string", "enum": ["C", "F"]}}}, 'a?: "C" or "F"'),
        ({"properties": {"a": {"anyOf": [{"enum": ["C"]}, {"type": "integer"}]}}}, 'a?: "C" or integer'),
        ({"properties": {"a": {"oneOf": [{"const": "C", "title": "Celsius"}]}}}, 'a?: "C"'),
        ({"properties": {"a": {"type": "string", "enum": ["two words"]}}}, 'a?: "two words"'),
        ({"properties": {"a": {"enum": list(range(9))}}}, "a?: choice"),
        ({"properties": {"a": {"type": "integer", "default": 5}}}, "a?: integer = 5"),
        ({"properties": {"a": {"type": ["null", "string", "integer"]}}}, "a?: string or integer"),
        (
            {
                "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/d"}]}},
                "$defs": {"d": {"type": "array"}},
            },
            "a?: array",
        ),
        ({"properties": {"a": {"properties": {}}}}, "a?: object"),
        ({"properties": 3, "required": 4}, ""),
        (
            {"properties": {str(i): {} for i in range(20)}},
            ", ".join(f"{i}?: any" for i in range(12)) + ", … 8 more",
        ),
    ]:
        with subtests.test(schema=schema, text=text):
            assert signature(schema) == text


def test_alternatives_of_alternatives_end():
    schema = {"anyOf": [{"$ref": "#"}] * 1000}
    assert type_in_words(schema, schema) == "any"


PARAMETERS = {
    "city": {"type": "string"},
    "days?": {"type": ["integer", "null"], "default": 3},
    "a, b: c": {"default": "x, y: z"},
    "unit": {"enum": ["C", "F"], "default": "C"},
    "long": {"type": "array", "default": ["a"] * 50},
    "ä\nö": {"anyOf": [{"type": "string"}, {"type": "number"}]},
}


def test_all_parameters_are_choices_or_none_is():
    """Where some are choices, KNIME lets nobody enter the name of another."""
    schema = {"type": "object", "properties": PARAMETERS, "required": ["city"]}
    choices = [ToolChoice(name=f"t{number}", parameters=parameter_hints(schema)) for number in range(100)]
    (known,) = decode_choices({"mcp_tools: x": encode_choices(choices[:1])})
    assert {hint.name: hint.label for hint in known.parameters} == {
        "city": "city: string, required",
        "days?": "days?: integer = 3",
        "a, b: c": 'a, b: c: any = "x, y: z"',
        "unit": 'unit: "C" or "F" = "C"',
        "long": 'long: array = ["a", "a", "a", "a"…',
        "ä\nö": "ä\nö: string or number",
    }
    found = decode_choices({"mcp_tools: x": encode_choices(choices * 20)})
    assert {tool.parameters for tool in found} == {None}


@pytest.mark.parametrize("count", [0, 1, 12, 300])
def test_a_label_has_as_many_parameters_as_there_is_room_for(count):
    properties = {f"parameter_{number}": {"default": ["x, y: …"] * 9} for number in range(count)}
    label = ToolChoice(name="t", parameters=parameter_hints({"properties": properties})).label("t")
    assert len(label) <= 210
    assert label.endswith(" more)") == (count >= 12)
