"""Endpoints that refuse tools, or drop them: tools in words, and calls in the form of an answer."""

import json

import pytest

from knime_mcp.agents.agent_events import Ending
from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.model_errors import ModelRequestRefused
from tests.agents.playing import QUESTION, Functions, model_at, play
from tests.support.chat_server import ChatServer, Turn, call, calls, cut_off, fails, says

NO_TOOLS = "registry.ollama.ai/library/gemma3:latest does not support tools"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Its name"}, "$top": {"type": "integer"}},
    "required": ["city"],
}
WANTS = says(json.dumps({"tool": "weather", "arguments": {"city": "Ulm", "top": 3}}))
ANSWERS = says(json.dumps({"answer": "It rains."}))


def tools(count=1):
    """Tools with texts as servers write them."""

    class Described(Functions):
        def definitions(self):
            for tool in (made := super().definitions()):
                tool["function"]["description"] = (
                    "Says what the weather is like in a city of any country. " * 3
                )
            return made

    names = ["weather", *(f"tool_{number}" for number in range(1, count))]
    return Described({"weather": SCHEMA}, **dict.fromkeys(names, lambda *_: "rain"))


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_without_tools_calls_them_in_the_form_of_an_answer(stream):
    functions = tools(3)
    outcome, server, *_ = play([fails(400, NO_TOOLS), WANTS, ANSWERS], functions, stream=stream)
    assert (outcome.error, outcome.text) == (None, "It rains.")
    assert [(request.name, request.arguments) for request in functions.requests] == [
        ("weather", {"city": "Ulm", "$top": 3})
    ]
    _, asked, answered = (request.body for request in server.requests)
    assert "tools" not in asked
    form = asked["response_format"]["json_schema"]["schema"]
    assert [list(way["properties"]) for way in form["anyOf"]] == 3 * [["tool", "arguments"]] + [["answer"]]
    assert "Its name" in asked["messages"][0]["content"]
    assert [message["role"] for message in answered["messages"]] == ["system", "user", "assistant", "user"]
    assert answered["messages"][-1]["content"] == "Result:\nrain"
    (note,) = outcome.notes
    assert "takes no tools" in note


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ('{"answer": "It rains', "It rains"),
        ('{"answer":"A \\"city\\"\\n is \\u00', 'A "city"\n is '),
        ('{"answer": "It rains."}', "It rains."),
        ('{"tool": "weather", "arg', None),
    ],
)
def test_of_an_answer_that_was_cut_off_its_words_are_told(written, answer):
    outcome, *_ = play([fails(400, NO_TOOLS), cut_off(written)], tools())
    if answer is None:
        assert "token limit before it said anything" in str(outcome.error)
    else:
        assert (outcome.ending, outcome.text) == (Ending.CUT_OFF, answer.strip())


def test_the_next_prompt_asks_in_the_form_at_once():
    functions = tools()
    outcome, server, *_ = play([fails(400, NO_TOOLS), WANTS, WANTS, ANSWERS], functions)
    assert outcome.text == "It rains."
    assert len(functions.requests) == 2
    assert len({message["content"] for message in server.requests[-1].messages}) == 4


@pytest.mark.parametrize("then", [fails(400, "response_format is not supported"), says("I have no tools.")])
def test_an_endpoint_that_holds_to_no_form_ends_the_run_with_its_refusal(then):
    outcome, *_ = play([fails(400, NO_TOOLS), then], tools())
    assert type(outcome.error) is ModelRequestRefused
    assert "does not support tools" in str(outcome.error)
    assert "can call tools" in outcome.error.fix


def test_tools_that_are_refused_also_in_the_strict_form_are_called_in_the_form_of_an_answer():
    said = "tools contain a schema that is not supported"
    outcome, server, *_ = play([fails(400, said), fails(400, said), WANTS, ANSWERS], tools())
    assert (outcome.error, outcome.text) == (None, "It rains.")
    assert ["tools" in request.body for request in server.requests] == [True, True, False, False]


def test_tools_that_the_endpoint_drops_are_seen_by_what_it_read():
    functions = tools(5)
    made_up = says("It is sunny.", usage=(35, 9))
    outcome, *_ = play([made_up, WANTS, ANSWERS], functions)
    assert outcome.text == "It rains."
    assert len(functions.requests) == 1
    assert any("read fewer tokens" in note for note in outcome.notes)
    # One that reads them, one that counts nothing, one that counts only what no cache had.
    for honest in ((400, 9), None, (0, 0), (3, 9)):
        outcome, *_ = play([says("Hello.", usage=honest)], tools(5))
        assert (outcome.text, outcome.notes) == ("Hello.", ())
    calls_first = [calls(call("weather", {"city": "Ulm"}), usage=(35, 9)), says("It rains.", usage=(40, 9))]
    assert play(calls_first, tools(5)).outcome.notes == ()


@pytest.mark.parametrize(("knows", "text"), [(False, "It rains."), (True, "Sunny."), (None, "Sunny.")])
def test_where_the_tokens_say_too_little_the_server_is_asked(knows, text):
    document = {} if knows is None else {"chat_template_caps": {"supports_tools": knows}}
    props = Turn(body=json.dumps(document).encode())
    turns = [says("Sunny.", usage=(70, 9)), *([WANTS, ANSWERS] if knows is False else [])]
    with ChatServer(turns, models_turn=props) as server:
        outcome = run_agent(model_at(server), tools(), QUESTION)
    assert outcome.text == text
    assert [request.path for request in server.other_requests] == ["/props"]


TOO_HIGH = (
    "'max_tokens' is too large: 6000. This model's maximum context length is 4096 tokens"
    " and your request has 96 input tokens"
)


def test_a_lowered_token_limit_holds_in_the_form_of_an_answer():
    script = [fails(400, NO_TOOLS), fails(400, TOO_HIGH), ANSWERS]
    outcome, server, *_ = play(script, tools(), model={"token_limit": 6000})
    assert (outcome.error, outcome.text) == (None, "It rains.")
    limits = [request.body["max_completion_tokens"] for request in server.requests]
    assert limits == [6000, 6000, 4000]


def test_a_token_limit_that_is_too_high_costs_no_tools():
    class Searched(Functions):
        all_at_once = True

        def definitions(self):
            return super().definitions()[: None if self.all_at_once else 1]

        def make_room(self, context):
            spared, self.all_at_once = self.all_at_once, False
            return spared

    many = Searched({"a": {}}, **dict.fromkeys(map("t{}".format, range(9)), lambda *_: "x"))
    outcome, server, *_ = play([fails(400, TOO_HIGH), says("Done.")], many, model={"token_limit": 6000})
    assert (outcome.error, many.all_at_once) == (None, True)
    assert [request.body["max_completion_tokens"] for request in server.requests] == [6000, 4000]
