"""The page of an agent's run: its content, and that texts of a run are never read as HTML."""

import re
from html.parser import HTMLParser

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

pytestmark = pytest.mark.quick


class Page(HTMLParser):
    """The elements of a page, its text, and the content of each folded part."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.open = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "img", "br", "rect", "path", "circle"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page_of(*timelines, **options):
    return timeline_page(list(timelines), **options)


@pytest.fixture(scope="module")
def page():
    facts = (("Model", "m at https://api.example/v1"), ("Nothing", None))
    return page_of(PromptTimeline(events=run_events()), warning="Careful & slow", facts=facts)


def test_the_page_tells_everything_that_happened(page):
    text = "".join(Page(page).text)
    for said in (
        "answered",
        "3 turns of the model",
        "5 tool calls: 3 MCP, 1 workflow, 1 agent",
        "2 calls failed",
        "1,536 tokens in, 120 out",
        "Careful & slow",
        "m at https://api.example/v1",
        "I look at the orders first.",
        "Turn 2: sent again after 1.00 s. The endpoint answers 429: too many requests.",
        "search_text",
        "Monthly report",
        "invalid arguments",
        "denied",
        "Did you mean 'text'?",
        "The policy of this node does not allow the tool.",
        "read_result",
        "Source: orders.csv, line 3.",
        "https://host.example/mcp",
    ):
        assert said in text, said
    assert "Nothing" not in text


@pytest.mark.requirement("T66")
def test_each_call_is_marked_by_icon_and_word(page):
    summaries = re.findall(r'<details class="call"><summary>(.*?)</summary>', page)
    assert [kind.word for kind in (MCP, WORKFLOW, MCP, MCP, BUILT_IN)] == [
        re.search(r"</svg>([^<]+)</span>", summary)[1] for summary in summaries
    ]
    assert all('aria-hidden="true"' in summary for summary in summaries)
    assert MCP.icon in summaries[0]
    assert WORKFLOW.icon in summaries[1]
    assert len({kind.icon for kind in (MCP, WORKFLOW, BUILT_IN, UNKNOWN)}) == 4


def test_the_kind_of_a_call_is_that_of_its_tool():
    assert (kind_of(SEARCH), kind_of(REPORT)) == (MCP, WORKFLOW)
    assert (kind_of(None), kind_of(None, recorded=False)) == (UNKNOWN, BUILT_IN)


def test_nothing_that_was_said_becomes_part_of_the_page(page):
    parsed = Page(page)
    assert EVIL in "".join(parsed.text)
    assert "script" not in parsed.tags
    assert parsed.tags.count("img") == 1  # the chart that a tool gave
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    links = [value for name, value in parsed.attributes if name in {"src", "href"}]
    assert all(link.startswith("data:image/png;base64,") for link in links)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in parsed.attributes


def test_calls_are_folded_and_long_results_cut(page):
    assert page.count('<details class="call">') == 5
    assert '<details class="call" open' not in page
    assert "characters in all" in page
    assert len(page) < 60_000


def test_a_run_that_failed():
    events = [event for event in run_events() if not isinstance(event, RunEnded)]
    text = "".join(Page(page_of(PromptTimeline(events=events, error="No <answer>.", seconds=8.3))).text)
    assert "failed" in text
    assert "No <answer>." in text
    assert "8.30 s" in text


def test_a_run_that_was_interrupted():
    events = run_events()
    begun = [event for event in events if isinstance(event, ToolStarted)]
    text = "".join(Page(page_of(PromptTimeline(events=[events[0], begun[0]]))).text)
    assert "not finished" in text
    assert "search_text" in text


def test_a_run_in_which_nothing_happened_has_a_page():
    assert "0 tool calls" in page_of(PromptTimeline())
    assert "0 turns" in page_of()


def test_of_many_prompts_the_first_hundred_are_shown():
    timelines = [PromptTimeline(row=f"Row{number}", events=run_events()) for number in range(120)]
    timelines[3].error = "broken"
    for timeline in timelines[100:]:
        timeline.forget_contents()
    text = page_of(*timelines)
    assert text.count('<details><summary><span class="row"><b>Row') == 100
    said = "".join(Page(text).text)
    assert "120 prompts" in said
    assert "600 tool calls" in said
    assert "360 turns" in said
    assert "1 prompt failed" in said
    assert "and 20 more prompts" in said


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
    assert "(The model said nothing.)" in text


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
        page = timeline_page([timeline])
        assert "hunter2" not in page
        assert "not finished" in page
    assert status_of_call(ended) == ("not finished", "warning")
    assert kind_of(None, recorded=False, unfinished=True).word == "tool"
