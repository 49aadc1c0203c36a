"""Endpoints that refuse tools: definitions are simplified, with a note for the user."""

import pytest

from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.model_errors import ModelRequestRefused
from knime_mcp.agents.model.tool_fitting import ToolFitting
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
        "tools.1.custom.input_schema: Input tag 'custom' found",
    ],
)
def test_a_refused_tool_has_the_strict_schema_the_next_time(said):
    tools = Functions({"odd": ODD}, add=None, odd=None)
    outcome, [first, second] = offer([fails(400, said), says("ok")], tools)
    assert first[1]["function"]["parameters"] == ODD
    assert second[0] == first[0]
    described = "Does odd."
    assert second[1]["function"] == {
        "name": "odd",
        "description": described,
        "parameters": {
            "type": "object",
            "properties": {
                "a": {
                    "type": "array",
                    "items": {"type": "string", "description": "(any value, written as JSON)"},
                }
            },
        },
    }
    (note,) = outcome.notes
    assert "'odd'" in note


def test_a_refusal_that_names_several_tools_teaches_all_of_them():
    names = [f"tool_{number}" for number in range(5)]
    said = "".join(
        f"* GenerateContentRequest.tools[0].function_declarations[{number}].parameters.properties[a].items:"
        " missing field, and many words more about it so that the text is longer than what people are shown\n"
        for number in (1, 3, 4)
    )
    tools = Functions(dict.fromkeys(names, ODD), **dict.fromkeys(names))
    _, [_, sent] = offer([fails(400, said), says("ok")], tools)
    changed = [tool["function"]["parameters"] != ODD for tool in sent]
    assert changed == [False, True, False, True, True]


def test_a_second_refusal_is_one_of_all_tools():
    names = [f"tool_{number}" for number in range(30)]
    tools = Functions(dict.fromkeys(names, ODD), **dict.fromkeys(names))
    turns = [fails(400, NO_PROPERTIES.format(name)) for name in names[:2]]
    _, [*_, sent] = offer([*turns, says("ok")], tools)
    assert [tool["function"]["name"] for tool in sent] == names
    assert all("anyOf" not in tool["function"]["parameters"] for tool in sent)


def test_a_refusal_that_names_none_is_one_of_all_tools_and_ends_the_run_if_nothing_is_left_to_change():
    said = "tools contain a schema that is not supported"
    outcome, [_, sent] = offer([fails(400, said), says("ok")], Functions({"odd": ODD}, add=None, odd=None))
    assert outcome.text == "ok"
    assert "anyOf" not in sent[1]["function"]["parameters"]
    outcome, _ = offer([fails(400, said)] * 3, Functions({"odd": ODD}, odd=None))
    assert isinstance(outcome.error, ModelRequestRefused)
    assert said in str(outcome.error)


def test_prompts_with_one_model_learn_from_each_other():
    tools = Functions({"odd": {"type": "object"}}, odd=None)
    with ChatServer([fails(400, NO_PROPERTIES.format("odd")), says("1"), says("2")]) as server:
        model = model_at(server)
        texts = [run_agent(model, tools, QUESTION).text for _ in range(2)]
    assert texts == ["1", "2"]
    assert "parameters" not in server.requests[2].body["tools"][0]["function"]


def test_what_another_prompt_learned_meanwhile_is_tried_before_anything_else():
    fitting, tools = ToolFitting(), [definition("odd", {"type": "object"})]
    sent = fitting.fit(tools)
    for _ in range(2):  # both requests were on their way
        assert "'odd'" in fitting.learn(NO_PROPERTIES.format("odd"), tools, sent)
    assert len(fitting.fit(tools)) == 1
    assert not fitting.in_form
    assert "as JSON" in fitting.learn(NO_PROPERTIES.format("odd"), tools, fitting.fit(tools))


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
        (
            "Invalid 'tools': array too long. Expected an array with maximum length 128",
            "Hand out fewer tools",
        ),
        ("temperature must be 1", "temperature"),
    ],
)
def test_a_refusal_says_what_to_do(said, fix):
    outcome, _ = offer(
        [fails(400, said)] * (1 + ("tool" in said and "array" not in said)), Functions(add=None)
    )
    assert isinstance(outcome.error, ModelRequestRefused)
    assert fix in outcome.error.fix
