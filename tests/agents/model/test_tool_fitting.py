"""Endpoints that refuse tools: definitions are simplified, with a note for the user."""

import pytest

from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.model_errors import ModelRequestRefused
from knime_mcp.agents.model.tool_fitting import ToolFitting, simpler_schema
from tests.agents.playing import QUESTION, Functions, definition, model_at, play
from tests.support.chat_server import ChatServer, fails, says

pytestmark = pytest.mark.quick


ODD = {"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "array"}}}
TOO_LONG = (
    "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024,"
    " but got a string with length 2059 instead."
)
NO_PROPERTIES = "Invalid schema for function '{}': In context=(), object schema missing properties."


class Described(Functions):
    """Tools with descriptions that are long."""

    def __init__(self, length, /, **functions):
        super().__init__(**functions)
        self.length = length

    def definitions(self):
        return [
            {**tool, "function": {**tool["function"], "description": "word " * (self.length // 5)}}
            for tool in super().definitions()
        ]


def offer(turns, tools):
    """Runs an agent with tools; returns the outcome and the tools in each request."""
    outcome, server, *_ = play(turns, tools)
    return outcome, [request.body.get("tools", []) for request in server.requests]


def test_what_no_endpoint_refuses_goes_out_as_it_is():
    tools = Described(4000, add=None)
    _, [sent] = offer([says("ok")], tools)
    assert sent == tools.definitions()


def test_long_descriptions_are_cut_where_the_endpoint_wants_it():
    tools = Described(2060, add=None)
    outcome, [_, sent] = offer([fails(400, TOO_LONG, "string_above_max_length"), says("ok")], tools)
    assert outcome.text == "ok"
    function = sent[0]["function"]
    assert len(function["description"]) == 1024
    whole = tools.definitions()[0]["function"]["description"]
    assert function["description"][:-1] == whole[:1023]
    assert function["parameters"]["description"].endswith(whole[1023:].strip())
    (note,) = outcome.notes
    assert "1,024 characters" in note


@pytest.mark.parametrize(
    "said",
    [
        NO_PROPERTIES.format("odd"),
        "Invalid 'tools[1].function.parameters': schema is not supported",
        "* GenerateContentRequest.tools[0].function_declarations[1].parameters.any_of: unsupported schema",
        '[{"code":"invalid_type","path":[1,"function","parameters","properties"],"message":"Required"}]',
    ],
)
def test_a_refused_schema_is_simpler_the_next_time_and_then_left_out(said):
    tools = Functions({"odd": ODD}, add=None, odd=None)
    outcome, [first, second, third] = offer([fails(400, said), fails(400, said), says("ok")], tools)
    assert first[1]["function"]["parameters"] == ODD
    assert second[1]["function"]["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {}}},
    }
    assert second[0] == third[0] == first[0]
    assert [tool["function"]["name"] for tool in third] == ["add"]
    assert [("simpler" in note, "'odd'" in note) for note in outcome.notes] == [(True, True), (False, True)]


def test_a_refused_schema_of_no_name_makes_all_simpler_once():
    said = "tools contain a schema that is not supported"
    outcome, [_, sent] = offer([fails(400, said), says("ok")], Functions({"odd": ODD}, add=None, odd=None))
    assert outcome.text == "ok"
    assert "anyOf" not in sent[1]["function"]["parameters"]
    outcome, _ = offer([fails(400, said)] * 2, Functions({"odd": ODD}, odd=None))
    assert isinstance(outcome.error, ModelRequestRefused)
    assert said in str(outcome.error)


def test_prompts_with_one_model_learn_from_each_other():
    tools = Functions({"odd": {"type": "object"}}, odd=None)
    with ChatServer([fails(400, NO_PROPERTIES.format("odd")), says("1"), says("2")]) as server:
        model = model_at(server)
        texts = [run_agent(model, tools, QUESTION).text for _ in range(2)]
    assert texts == ["1", "2"]
    assert server.requests[2].body["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {},
    }


def test_what_another_prompt_learned_meanwhile_leaves_no_tool_out():
    fitting, tools = ToolFitting(), [definition("odd", {"type": "object"})]
    sent = fitting.fit(tools)
    for _ in range(2):  # both requests were on their way
        assert "simpler" in fitting.learn(NO_PROPERTIES.format("odd"), tools, sent)
    assert len(fitting.fit(tools)) == 1
    assert "do without" in fitting.learn(NO_PROPERTIES.format("odd"), tools, fitting.fit(tools))
    assert fitting.fit(tools) == []


def test_words_about_something_else_change_nothing():
    fitting, tools = ToolFitting(), [definition("add", ODD)]
    for said in ("temperature must be 1", "Unknown parameter: 'add'", ""):
        assert fitting.learn(said, tools, fitting.fit(tools)) is None
    assert fitting.fit(tools) == tools
    assert fitting.learn(TOO_LONG, tools, tools) is None


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("registry.ollama.ai/library/gemma:latest does not support tools", "can call tools"),
        ('"auto" tool choice requires --enable-auto-tool-choice to be set', "--enable-auto-tool-choice"),
        ("Invalid 'tools': array too long. Expected an array with maximum length 128", "Tokens for tools"),
        ("temperature must be 1", "temperature"),
    ],
)
def test_a_refusal_says_what_to_do(said, fix):
    outcome, _ = offer([fails(400, said)], Functions(add=None))
    assert isinstance(outcome.error, ModelRequestRefused)
    assert fix in outcome.error.fix


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
