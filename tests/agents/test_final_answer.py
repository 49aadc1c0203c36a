"""The answer at the iteration limit, and other requests in which the model must not call tools."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from knime_mcp.agents.agent_events import LIMIT_PROMPT, Ending
from knime_mcp.agents.model.model_errors import IterationLimit, ModelRequestRefused
from tests.agents.playing import Functions, play
from tests.support.chat_server import call, calls, fails, says

pytestmark = pytest.mark.quick


AT_LIMIT = {"iteration_limit": 1, "answer_at_limit": True}


def anthropic_like(turn):
    """An endpoint that refuses tool calls in a history unless the request defines tools."""

    def answer(request):
        called = any(message.get("tool_calls") for message in request.messages)
        if called and "tools" not in request.body:
            return fails(400, "Requests which include `tool_use` or `tool_result` blocks must define tools.")
        return turn

    return answer


def test_the_tools_are_defined_but_not_to_be_called():
    tools = Functions(again=lambda *_: "more")
    script = [calls(call("again")), calls(call("again")), anthropic_like(says("As far as I know: 42"))]
    outcome, server, *_ = play(script, tools, **AT_LIMIT)
    assert outcome.ending is Ending.LIMIT
    assert outcome.text == "As far as I know: 42"
    last = server.requests[-1]
    assert last.body["tool_choice"] == "none"
    assert last.body["tools"] == server.requests[0].body["tools"]
    assert server.requests[0].body["tool_choice"] == "auto"
    assert last.messages[-1] == {"role": "user", "content": LIMIT_PROMPT}
    assert [message.type for message in outcome.messages][2:] == ["ai", "tool", "ai", "tool", "ai"]
    assert LIMIT_PROMPT not in [message.content for message in outcome.messages]


def test_an_endpoint_that_does_not_know_tool_choice():
    def strict(request):
        if "tool_choice" in request.body:
            return fails(400, "Unrecognized request argument supplied: tool_choice")
        return calls(call("again")) if "tools" in request.body else says("42")

    tools = Functions(again=lambda *_: "more")
    outcome, server, *_ = play([strict] * 5, tools, **AT_LIMIT)
    assert (outcome.ending, outcome.text) == (Ending.LIMIT, "42")
    assert server.complaints == []


def test_an_endpoint_that_takes_no_notice_of_tool_choice():
    def heedless(request):
        return calls(call("again")) if "tools" in request.body else says("42")

    tools = Functions(again=lambda *_: "more")
    outcome, server, *_ = play([heedless] * 2 + [heedless, heedless], tools, **AT_LIMIT)
    assert (outcome.ending, outcome.text) == (Ending.LIMIT, "42")
    assert len(server.requests) == 4
    assert len(tools.requests) == 1


def test_a_model_that_calls_tools_even_without_any():
    tools = Functions(again=lambda *_: "more")
    turns = [calls(call("again"))] * 4
    outcome, *_ = play(turns, tools, **AT_LIMIT)
    assert isinstance(outcome.error, IterationLimit)
    turns = [*turns[:2], calls(call("again"), text="So far: 1")]
    outcome, *_ = play(turns, tools, **AT_LIMIT)
    assert (outcome.ending, outcome.text) == (Ending.LIMIT, "So far: 1")
    assert outcome.messages[-1].tool_calls == []


HISTORY = [
    HumanMessage("How many?"),
    AIMessage("", tool_calls=[{"id": "1", "name": "count", "args": {}}]),
    ToolMessage("42", tool_call_id="1", name="count"),
    AIMessage("42"),
    HumanMessage("Thanks"),
]


def test_a_history_with_calls_and_no_tools_any_more():
    answer = anthropic_like(says("You are welcome"))
    outcome, server, retries, _ = play([answer, answer], messages=HISTORY)
    assert outcome.text == "You are welcome"
    assert "tools" not in server.requests[0].body
    last = server.requests[1].body
    assert [tool["function"]["name"] for tool in last["tools"]] == ["count"]
    assert last["tool_choice"] == "none"
    assert "sent again with the names of the tools" in retries[0].reason


def test_a_refusal_that_is_not_about_tools_is_said():
    outcome, server, *_ = play([fails(400, "temperature is not supported")] * 2, messages=HISTORY)
    assert isinstance(outcome.error, ModelRequestRefused)
    assert "temperature" in str(outcome.error)
    assert len(server.requests) == 2
