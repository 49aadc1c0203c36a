"""The page of an agent's run: its content, and that texts of a run are never read as HTML."""

import json

import pytest

from knime_mcp.agents.agent_events import (
    Ending,
    PromptGiven,
    RunEnded,
    TextDelta,
    TokenUsage,
    ToolFinished,
    ToolStarted,
)
from knime_mcp.agents.timeline import (
    BUILT_IN,
    MCP,
    UNKNOWN,
    WORKFLOW,
    PromptTimeline,
    duration_text,
    kind_of,
    one_line,
    status_of_call,
    tokens_text,
)
from knime_mcp.agents.timeline_page import timeline_page
from knime_mcp.agents.toolbox.replies import ToolReply, ToolRequest
from tests.agents.run_events import EVIL, REPORT, SEARCH, START, at, run_events
from tests.support.pages import RunPage

pytestmark = pytest.mark.quick


def page_of(*timelines, **options):
    return RunPage(timeline_page(list(timelines), **options))


@pytest.fixture(scope="module")
def page():
    facts = (("Model", "m at https://api.example/v1"), ("Nothing", None))
    return page_of(PromptTimeline(events=run_events()), warning="Careful & slow", facts=facts)


def test_the_page_tells_everything_that_happened(page):
    for said in (
        "1 answered",
        "2 failed calls",
        "3 turns of the model",
        "5 tool calls: 3 MCP, 1 workflow, 1 agent",
        "1,536 tokens in, 120 out",
        "Careful &amp; slow",
        "m at https://api.example/v1",
        "Which products sold best last month",
        "Source: orders.csv, line 3.",
    ):
        assert said in page.html, said
    assert "Nothing" not in page.html
    steps = json.dumps(page.steps)
    for said in (
        "I look at the orders first.",
        "Sent again after 1.00 s. The endpoint answers 429: too many requests.",
        "invalid arguments",
        "denied",
        "Did you mean 'text'?",
        "The policy of this node does not allow the tool.",
        "https://host.example/mcp",
        "characters in all",
    ):
        assert said in steps, said
    assert [step["name"] for step in page.calls[:2]] == ["search_text", "Monthly report"]


@pytest.mark.requirement("T66")
def test_each_call_is_marked_by_the_kind_of_its_tool(page):
    assert [step["icon"] for step in page.calls] == [
        kind.glyph for kind in (MCP, WORKFLOW, MCP, MCP, BUILT_IN)
    ]
    assert len({kind.glyph for kind in (WORKFLOW, MCP, BUILT_IN, UNKNOWN)}) == 4


def test_the_kind_of_a_call_is_that_of_its_tool():
    assert (kind_of(SEARCH), kind_of(REPORT)) == (MCP, WORKFLOW)
    assert (kind_of(None), kind_of(None, recorded=False)) == (UNKNOWN, BUILT_IN)


def test_nothing_that_was_said_becomes_part_of_the_page(page):
    assert EVIL in page.steps[0]["sent"]
    assert page.text.count("<script") == 2  # the data, and the page's own
    assert "<img" not in page.html
    sources = [source for step in page.steps for source, _ in step.get("pictures", ())]
    assert len(sources) == 1  # the chart that a tool gave
    assert sources[0].startswith("data:image/png;base64,")
    assert "default-src &#x27;none&#x27;" in page.text


def test_a_run_that_failed():
    events = [event for event in run_events() if not isinstance(event, RunEnded)]
    page = page_of(PromptTimeline(events=events, error="No <answer>.", seconds=8.3))
    assert "1 failed" in page.html
    assert "No &lt;answer&gt;." in page.html
    assert "8.30 s" in page.html
    assert page.steps[-1]["error"] == "No <answer>."


def test_a_run_that_was_interrupted():
    events = run_events()
    begun = [event for event in events if isinstance(event, ToolStarted)]
    page = page_of(PromptTimeline(events=[events[0], begun[0]]))
    (call,) = page.calls
    assert (call["name"], call["status"]) == ("search_text", "not finished")
    assert "1 not finished" in page.html


def test_a_run_in_which_nothing_happened_has_a_page():
    assert "0 tool calls" in page_of(PromptTimeline()).html
    assert "0 turns" in page_of().html


def test_of_many_prompts_each_step_says_its_row():
    timelines = [PromptTimeline(row=f"Row{number}", events=run_events()) for number in range(120)]
    timelines[3].error = "broken"
    page = page_of(*timelines)
    assert {step["row"] for step in page.steps} == {f"Row{number}" for number in range(120)}
    for said in ("120 answered", "600 tool calls", "360 turns", "240 failed calls"):
        assert said in page.html, said
    assert "broken" in [step.get("error") for step in page.steps]


def test_pieces_of_text_are_not_kept():
    timeline = PromptTimeline()
    timeline.take(TextDelta(iteration=1, text="He"))
    timeline.take(PromptGiven(text="hi", at=START))
    assert len(timeline.events) == 1
    assert timeline.question == "hi"


@pytest.mark.parametrize("ending", list(Ending))
def test_every_ending_has_words(ending):
    end = RunEnded(ending=ending, text="", usage=TokenUsage(), iterations=1, duration=1)
    text = page_of(PromptTimeline(events=[PromptGiven(text="?", at=START), end]))
    assert "(The model said nothing.)" in text.html


def test_durations_tokens_and_texts_are_written_for_people():
    assert [duration_text(s) for s in (0.1234, 12.34, 125)] == ["0.12 s", "12.3 s", "2 min 5 s"]
    assert tokens_text(TokenUsage(unreported=2)) is None
    assert tokens_text(TokenUsage(input=1200, output=3, turns=1, unreported=1)) == (
        "at least 1,200 tokens in, 3 out"
    )
    assert one_line("a\n b" + "x" * 300, 10) == "a bxxxxxx…"


def test_a_call_that_did_not_finish_hides_what_nobody_marked():
    request = ToolRequest(id="a", name="login", arguments={"password": "hunter2"}, iteration=1)
    reply = ToolReply(request=request, content="Error: canceled", failed=True, unfinished=True)
    began = ToolStarted(request=request, shown_name="login", at=at(0))
    ended = ToolFinished(reply=reply, shown_name="login", duration=1.0)
    for events in ([began], [began, ended]):
        timeline = PromptTimeline(events=[PromptGiven(text="Log in", at=at(0)), *events])
        page = page_of(timeline)
        assert "hunter2" not in page.text
        assert [step["status"] for step in page.calls] == ["not finished"]
    assert status_of_call(ended) == ("not finished", "warning")
    assert kind_of(None, recorded=False, unfinished=True).word == "tool"
