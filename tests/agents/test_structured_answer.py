"""A final answer that must have a form: how it is asked for, repaired and given up."""

import json

import pytest

from knime_mcp.agents import agent_loop
from knime_mcp.agents.agent_events import Ending
from knime_mcp.agents.answer_schema import AnswerSchema
from knime_mcp.agents.model.model_errors import AnswerUnfit
from tests.agents.playing import Functions, patient, play
from tests.support.chat_server import call, calls, cut_off, fails, refuses, says

pytestmark = pytest.mark.quick


SCHEMA = AnswerSchema.parse("price: number")
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA.schema, "strict": True}}


def ways(server):
    """How each request asked for the form: the endpoint's mode, a tool, or words."""
    return [
        "mode"
        if "response_format" in body
        else "tool"
        if isinstance(body.get("tool_choice"), dict)
        else "words"
        for body in (request.body for request in server.requests)
    ]


def answered(price):
    return json.dumps({"price": price})


def test_without_tools_the_endpoints_mode_is_used_at_once():
    outcome, server, *_ = play([says(answered(3))], answer_schema=SCHEMA)
    assert (outcome.ending, outcome.text) == (Ending.ANSWER, '{"price":3}')
    assert server.requests[0].body["response_format"] == FORM
    assert "tools" not in server.requests[0].body


def test_beside_tools_the_form_is_not_forced_and_an_answer_that_fits_costs_no_turn():
    tools = Functions(look=lambda *_: "3 euros")
    outcome, server, *_ = play([calls(call("look")), says(answered(3))], tools, answer_schema=SCHEMA)
    assert outcome.text == '{"price":3}'
    assert ways(server) == ["words", "words"]


def test_an_answer_in_prose_is_asked_for_again_in_the_endpoints_mode():
    tools = Functions(look=lambda *_: "3 euros")
    script = [calls(call("look")), says("It costs 3 euros."), says(answered(3))]
    outcome, server, *_ = play(script, tools, answer_schema=SCHEMA)
    assert outcome.text == '{"price":3}'
    assert ways(server) == ["words", "words", "mode"]
    asked = server.requests[-1].messages
    assert asked[-2] == {"role": "assistant", "content": "It costs 3 euros."}
    assert "It is no JSON object" in asked[-1]["content"]
    # What was repaired is not part of the conversation.
    assert [message.type for message in outcome.messages] == ["system", "human", "ai", "tool", "ai"]


def test_an_endpoint_without_the_mode_gets_a_tool_that_must_be_called():
    def no_mode(request):
        return fails(400, "This response_format type is unavailable now")

    def by_tool(request):
        assert request.body["tool_choice"] == {"type": "function", "function": {"name": "give_answer"}}
        (tool,) = request.body["tools"]
        assert tool["function"]["parameters"] == SCHEMA.schema
        return calls(call("give_answer", {"price": 3}))

    outcome, server, *_ = play([no_mode, by_tool], answer_schema=SCHEMA)
    assert (outcome.ending, outcome.text) == (Ending.ANSWER, '{"price":3}')
    assert ways(server) == ["mode", "tool"]
    assert outcome.messages[-1].tool_calls == []
    assert outcome.messages[-1].content == '{"price":3}'


def test_an_endpoint_with_neither_is_asked_in_words():
    script = [
        fails(400, "Unknown parameter: response_format"),
        fails(400, "Unknown parameter: tool_choice"),
        says("```json\n" + answered(3) + "\n```"),
    ]
    outcome, server, *_ = play(script, answer_schema=SCHEMA)
    assert outcome.text == '{"price":3}'
    assert ways(server) == ["mode", "tool", "words"]


def test_a_mode_that_an_endpoint_takes_and_ignores_is_not_tried_again():
    script = [
        says("Three."),
        calls(call("give_answer", '{"price": ')),
        says("Still three."),
        says(answered(3)),
    ]
    outcome, server, *_ = play(script, answer_schema=SCHEMA)
    assert outcome.text == '{"price":3}'
    assert ways(server) == ["mode", "tool", "words", "words"]


def test_an_answer_that_never_fits_is_an_error_and_not_lost():
    script = [says(f"Three, {number}.") for number in range(4)]
    outcome, *_ = play(script, answer_schema=SCHEMA)
    assert isinstance(outcome.error, AnswerUnfit)
    assert outcome.messages[-1].content == "Three, 3."


def test_repairs_stay_within_the_budget():
    outcome, *_ = play([says("Three.", usage=(90, 20))], answer_schema=SCHEMA, token_limit=100)
    assert isinstance(outcome.error, AnswerUnfit)


def test_a_refusal_is_not_repaired():
    outcome, *_ = play([refuses("I will not.")], answer_schema=SCHEMA)
    assert (outcome.ending, outcome.text) == (Ending.REFUSED, "I will not.")


def test_an_answer_that_was_cut_off_is_repaired():
    outcome, *_ = play([cut_off('{"price"'), says(answered(3))], answer_schema=SCHEMA)
    assert outcome.text == '{"price":3}'


def test_the_answer_at_the_iteration_limit_has_the_form():
    tools = Functions(look=lambda *_: "more")
    script = [calls(call("look")), calls(call("look")), says("Three."), says(answered(3))]
    options = {"iteration_limit": 1, "answer_at_limit": True, "answer_schema": SCHEMA}
    outcome, server, *_ = play(script, tools, **options)
    assert (outcome.ending, outcome.text) == (Ending.LIMIT, '{"price":3}')
    assert ways(server)[2:] == ["mode", "tool"]


def test_what_an_endpoint_refused_is_remembered_for_the_next_prompt():
    from langchain_core.messages import HumanMessage

    from knime_mcp.agents.agent_events import AgentOptions
    from knime_mcp.agents.agent_loop import run_agent
    from tests.agents.playing import model_at
    from tests.support.chat_server import ChatServer

    no_mode = fails(400, "response_format is not supported")
    by_tool = calls(call("give_answer", {"price": 3}))
    with ChatServer([no_mode, by_tool, by_tool]) as server:
        model = model_at(server)
        for _ in range(2):
            outcome = run_agent(
                model, Functions(), [HumanMessage("What?")], AgentOptions(answer_schema=SCHEMA)
            )
            assert outcome.text == '{"price":3}'
    assert ways(server) == ["mode", "tool", "tool"]


@pytest.fixture
def nearly_all_for_the_answer(monkeypatch):
    """Tools have a second, and the answer has all the time that a busy machine may need."""
    monkeypatch.setattr(agent_loop, "_ANSWER_SECONDS", 99.0)
    monkeypatch.setattr(agent_loop, "_ANSWER_SHARE", 0.99)
    return {"answer_at_limit": True, "total_timeout": 100.0}


def test_near_the_time_limit_tools_end_and_the_model_answers(nearly_all_for_the_answer):
    tools = Functions(wait=patient)
    script = [calls(call("wait")), says("As far as I know.")]
    outcome, server, *_ = play(script, tools, **nearly_all_for_the_answer)
    assert (outcome.ending, outcome.text) == (Ending.LIMIT, "As far as I know.")
    assert "time limit" in server.requests[-1].messages[-2]["content"]
    assert server.requests[-1].body["tool_choice"] == "none"
    assert "The time limit was nearly reached" in outcome.notes[0]


def test_near_the_time_limit_no_further_call_is_made(nearly_all_for_the_answer):
    tools = Functions(look=lambda *_: "more")
    script = [calls(call("look")).after(1.1), says("As far as I know.")]
    outcome, *_ = play(script, tools, **nearly_all_for_the_answer)
    assert (outcome.ending, outcome.text) == (Ending.LIMIT, "As far as I know.")
    assert tools.requests == []


def test_without_an_answer_at_the_limit_the_time_is_the_tools():
    tools = Functions(wait=patient)
    outcome, *_ = play([calls(call("wait"))], tools, total_timeout=1.0)
    assert outcome.ending is None
    assert "not done after 1 seconds" in str(outcome.error)
