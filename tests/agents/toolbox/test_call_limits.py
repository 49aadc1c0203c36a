"""Limits of an agent's calls, and the loop guard: what is beyond them is denied, said, and on record."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from knime_mcp.agents.agent_events import Ending, TokenUsage
from knime_mcp.agents.toolbox.call_rules import CallLimits
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.types.errors import SettingInvalid
from knime_mcp.types.tool import WorkflowTool
from tests.agents.playing import Functions, play
from tests.support.chat_server import call, calls, says

pytestmark = pytest.mark.quick


@pytest.fixture
def limited(box, tools_of, server):
    tools = tools_of(server.url("/one"))
    return lambda limits="": box(tools, options=ToolOptions(limits=CallLimits.parse(limits)))


def statuses(made):
    return [record.status.value for record in made.records]


def test_a_thousand_calls_of_one_turn_are_not_made(limited):
    made = limited()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: made.call("who", {}), range(1000)))
    assert (statuses(made).count("ok"), statuses(made).count("denied")) == (128, 872)
    assert "denied by the limit of calls per turn" in {record.decision for record in made.records}


def test_calls_of_all_tools_and_of_one(limited):
    made = limited("3, W*: 1")
    wanted = [("who", {}), ("who", {}), *[("add", {"a": 1})] * 3]
    said = [made.call(name, arguments) for name, arguments in wanted]
    assert statuses(made) == ["ok", "denied", "ok", "ok", "denied"]
    assert "All 1 calls of this tool are used up" in said[1].content
    assert "All 3 calls of this run are used up" in said[-1].content


@pytest.mark.parametrize("text", ["search", "search: many", ": 3", "a: -1"])
def test_limits_that_cannot_be_read(text):
    with pytest.raises(SettingInvalid, match="Write a number, or a name"):
        CallLimits.parse(text)


def test_the_same_call_in_vain_is_not_made_again(limited):
    made = limited()
    script = [*[calls(call("fail", {"why": "rain"}))] * 8, says("I give up.")]
    outcome, server, *_ = play(script, made.executor)
    assert outcome.text == "I give up."
    assert statuses(made) == ["tool error"] * 3 + ["denied"] * 5
    assert "failed 3 times in the same way" in server.requests[-1].messages[-1]["content"]


def test_another_call_and_one_that_works_are_no_loop(limited):
    made = limited()
    for why in "abcdefgh":
        made.call("fail", {"why": why})
        made.call("who", {})
    assert "denied" not in statuses(made)


def test_a_workflow_that_fails_again_and_again(box):
    def run_workflow(tool, arguments, tables):
        raise RuntimeError("no")

    tool = WorkflowTool("report", "", {"n": {"type": "integer", "default": 1}})
    made = box([tool], run_workflow=run_workflow)
    for _ in range(4):
        made.call("report", {"configuration": {"n": 2}})
    assert statuses(made) == ["tool error"] * 3 + ["denied"]


def test_the_turn_that_spends_the_budget_is_the_last_with_tools():
    tools = Functions(again=lambda *_: "more")
    turn = calls(call("again"), usage=(60, 10))
    outcome, *_ = play([turn, turn], tools, token_limit=100)
    assert "140 of 100 tokens" in str(outcome.error)
    assert len(tools.requests) == 1
    script = [turn, turn, says("so far")]
    outcome, *_ = play(script, tools, token_limit=100, answer_at_limit=True)
    assert (outcome.ending, outcome.text) == (Ending.LIMIT, "so far")


@pytest.mark.parametrize("counted", [None, (0, 0)])
def test_an_endpoint_that_counts_no_tokens_does_not_escape_the_budget(counted):
    tools = Functions(again=lambda *_: "more" * 200)
    turn = calls(call("again"), usage=counted)
    outcome, *_ = play([turn, turn], tools, token_limit=200)
    assert "of 200 tokens" in str(outcome.error)
    assert len(tools.requests) == 1
    assert any("does not say how many tokens" in note for note in outcome.notes)
    assert outcome.usage == TokenUsage(unreported=2)


def test_without_a_budget_nobody_is_told_of_an_estimate():
    outcome, *_ = play([says("Hello.", usage=None)], Functions())
    assert outcome.notes == ()
