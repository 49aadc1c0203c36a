"""Requests that come too fast: all prompts of a run wait together, and no longer than the setting says."""

import threading

import pytest

from knime_mcp.agents.agent_events import AgentOptions, ModelRetried
from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.model_errors import ModelBusy
from tests.agents.playing import QUESTION, Functions, model_at
from tests.support.chat_server import ChatServer, rate_limited, says

pytestmark = pytest.mark.quick


def ask(model, **options):
    events = []
    outcome = run_agent(model, Functions(), QUESTION, AgentOptions(**options), on_event=events.append)
    return outcome, [event for event in events if isinstance(event, ModelRetried)]


def test_a_wait_that_is_too_long_fails_all_prompts_with_one_request():
    with ChatServer([rate_limited(61)]) as server:
        model = model_at(server)
        outcomes = [ask(model, longest_wait=60.0)[0] for _ in range(20)]
    assert all(isinstance(outcome.error, ModelBusy) for outcome in outcomes)
    assert len(server.requests) == 1
    assert server.complaints == []


def test_what_one_prompt_is_told_holds_for_the_others():
    told = threading.Event()
    with ChatServer([rate_limited(1), says("first"), says("second")]) as server:
        model = model_at(server)
        answers, waits = [], []

        def first():
            outcome = run_agent(
                model, Functions(), QUESTION, on_event=lambda e: isinstance(e, ModelRetried) and told.set()
            )
            answers.append(outcome.text)

        thread = threading.Thread(target=first)
        thread.start()
        assert told.wait(30)
        outcome, waits = ask(model)
        thread.join(30)
    assert sorted([*answers, outcome.text]) == ["first", "second"]
    assert len(waits) == 1
    assert [request.at - server.requests[0].at >= 0.9 for request in server.requests[1:]] == [True, True]


def test_all_waits_for_one_answer_together_are_bounded():
    with ChatServer([rate_limited(1)] * 2 + [says("late")]) as server:
        outcome, waits = ask(model_at(server), longest_wait=1.5)
    assert isinstance(outcome.error, ModelBusy)
    assert [round(event.wait) for event in waits] == [1]
