"""The agent's loop against a scripted endpoint: turns, tools, endings, events."""

import threading
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from knime_mcp.agents.agent_events import (
    AgentOptions,
    Ending,
    ModelAnswered,
    PromptGiven,
    RunEnded,
    TextDelta,
    TokenUsage,
    ToolFinished,
    ToolStarted,
)
from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.model_errors import IterationLimit
from knime_mcp.types.errors import SettingInvalid
from tests.agents.playing import DEADLINE, QUESTION, Functions, model_at, play
from tests.support.chat_server import ChatServer, call, calls, cut_off, filtered, refuses, says

WITHHELD = "The provider's content filter withheld the answer (content_filter)."


def roles(messages):
    return [message.type for message in messages]


def test_an_answer_without_tools():
    outcome, server, *_ = play([says("A platform.", usage=(10, 3))])
    assert outcome.ending is Ending.ANSWER
    assert outcome.text == "A platform."
    assert outcome.usage == TokenUsage(input=10, output=3, turns=1)
    assert outcome.iterations == 1
    assert roles(outcome.messages) == ["system", "human", "ai"]
    assert "tools" not in server.requests[0].body
    assert outcome.error is None


def test_tools_are_called_until_the_model_answers():
    tools = Functions(
        search=lambda arguments, _: f"{arguments['query']} found",
        fetch=lambda arguments, _: "page",
    )
    script = [
        calls(call("search", {"query": "knime"}), text="Let me look.", usage=(10, 5)),
        calls(call("fetch"), usage=None),
        lambda request: says(f"It says: {request.last}", usage=(30, 2)),
    ]
    outcome, server, *_ = play(script, tools)
    assert outcome.text == "It says: page"
    assert outcome.usage == TokenUsage(input=40, output=7, turns=2, unreported=1)
    assert roles(outcome.messages)[2:] == ["ai", "tool", "ai", "tool", "ai"]
    assert [request.name for request in tools.requests] == ["search", "fetch"]
    assert [request.iteration for request in tools.requests] == [1, 2]
    assert server.requests[1].messages[-1] == {
        "role": "tool",
        "content": "knime found",
        "tool_call_id": "call_1",
    }
    assert server.requests[0].body["tools"] == tools.definitions()


def test_definitions_may_grow_from_turn_to_turn():
    tools = Functions()

    def find(arguments, _):
        tools.functions["found"] = lambda arguments, _: "yes"
        return "you may call found"

    tools.functions["find"] = find
    outcome, server, *_ = play([calls(call("find")), calls(call("found")), says("ok")], tools)
    offered = [[tool["function"]["name"] for tool in r.body["tools"]] for r in server.requests]
    assert offered == [["find"], ["find", "found"], ["find", "found"]]
    assert outcome.messages[-2].content == "yes"


def test_parallel_calls_are_bounded_and_answered_in_order():
    together = threading.Barrier(4, timeout=DEADLINE)

    def work(arguments, _):
        together.wait()
        time.sleep(0.02 * (8 - arguments["n"]))
        return f"result {arguments['n']}"

    tools = Functions(work=work)
    wanted = [call("work", {"n": n}) for n in range(8)]
    outcome, *_ = play([calls(*wanted), says("ok")], tools)
    assert tools.most == 4
    answers = [message for message in outcome.messages if isinstance(message, ToolMessage)]
    assert [message.content for message in answers] == [f"result {n}" for n in range(8)]
    assert [message.tool_call_id for message in answers] == [f"call_{n}" for n in range(1, 9)]


def test_events_tell_the_run():
    seen, threads = [], set()

    def on_event(event):
        seen.append(event)
        threads.add(threading.current_thread())

    outcome, *_ = play(
        [calls(call("search"), usage=(1, 2)), says("Done", usage=(3, 4))],
        Functions(search=lambda *_: "x"),
        on_event=on_event,
    )
    kinds = [PromptGiven, ModelAnswered, ToolStarted, ToolFinished, ModelAnswered, RunEnded]
    assert [type(event) for event in seen] == kinds
    prompt, asked, started, finished, answered, ended = seen
    assert prompt.text == "What is KNIME?"
    assert asked.message.tool_calls[0]["name"] == "search"
    assert asked.usage == TokenUsage(input=1, output=2, turns=1)
    assert (asked.iteration, asked.attempts, answered.iteration) == (1, 1, 2)
    assert started.shown_name == finished.shown_name == "The search"
    assert started.request is finished.reply.request
    assert ended.ending is Ending.ANSWER
    assert (ended.text, ended.usage, ended.iterations) == (outcome.text, outcome.usage, 2)
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("kind", [PromptGiven, TextDelta, ModelAnswered, ToolStarted, ToolFinished, RunEnded])
def test_what_a_listener_raises_ends_the_run(kind):
    class ClosedError(Exception):
        pass

    def on_event(event):
        if isinstance(event, kind):
            raise ClosedError

    tools, options = Functions(search=lambda *_: "x"), AgentOptions(stream=True)
    script = [calls(call("search"), text="Let me see"), says("ok")]
    with ChatServer(script) as server, pytest.raises(ClosedError):
        run_agent(model_at(server), tools, QUESTION, options, on_event=on_event)


@pytest.mark.parametrize("limit", [1, 3])
def test_the_iteration_limit_fails_with_all_that_was_said(limit):
    tools = Functions(again=lambda *_: "more")
    outcome, server, *_ = play([calls(call("again"))] * (limit + 1), tools, iteration_limit=limit)
    assert outcome.ending is None
    assert isinstance(outcome.error, IterationLimit)
    assert f"after {limit} iterations" in str(outcome.error)
    assert "Raise the iteration limit" in str(outcome.error)
    assert roles(outcome.messages)[2:] == ["ai", "tool"] * (limit + 1)
    assert len(server.requests) == limit + 1
    assert len(tools.requests) == limit
    assert "was not made" in outcome.messages[-1].content


def test_an_iteration_limit_of_nothing_is_refused():
    with pytest.raises(SettingInvalid, match="at least 1"):
        AgentOptions(iteration_limit=0)


def test_a_toolbox_with_a_fault_does_not_lose_the_conversation():
    def broken(*_):
        raise ZeroDivisionError("in our own code")

    outcome, server, *_ = play([calls(call("broken")), says("sorry")], Functions(broken=broken))
    assert outcome.text == "sorry"
    assert "could not be run (ZeroDivisionError)" in server.requests[1].last
    assert "in our own code" in outcome.notes[0]


def test_calls_that_cannot_be_read_are_answered_so_that_the_model_can_correct_them():
    tools = Functions(search=lambda arguments, _: "found")
    script = [
        calls(call("search", '{"query": "kni'), call("sea rch!", {"q": 1}), call(None, "[]")),
        calls(call("search", {"query": "knime"})),
        says("ok"),
    ]
    outcome, server, *_ = play(script, tools)
    assert outcome.text == "ok"
    answers = {m["tool_call_id"]: m["content"] for m in server.requests[1].messages if m["role"] == "tool"}
    assert "not valid JSON" in answers["call_1"]
    assert '{"query": "kni' in answers["call_1"]
    assert "no tool 'sea rch!'" in answers["call_2"]
    assert "must be a JSON object" in answers["call_3"]
    names = [c["name"] for c in outcome.messages[2].tool_calls]
    assert sorted(names) == ["sea_rch_", "search", "unnamed"]


def test_arguments_that_the_token_limit_cut_off():
    tools = Functions(search=lambda arguments, _: "found")
    for written in ("", '{"query": "a very lo'):  # cut off before and in the arguments
        script = [cut_off(None, call("search", '{"n": 1}'), call("search", written)), says("ok")]
        _, server, *_ = play(script, tools)
        assert "cut off at the token limit" in server.requests[1].last
        assert server.requests[1].messages[-2]["content"] == "found"
    assert sorted(request.error is None for request in tools.requests) == [False, False, True, True]


def test_ids_that_an_endpoint_uses_again_in_every_turn():
    tools = Functions(search=lambda arguments, _: str(arguments["n"]))
    turns = [calls(call("search", {"n": n}, id="call_0")) for n in range(3)]
    outcome, *_ = play([*turns, says("ok")], tools)
    ids = [c["id"] for m in outcome.messages if isinstance(m, AIMessage) for c in m.tool_calls]
    assert len(set(ids)) == 3
    pairs = {m.tool_call_id: m.content for m in outcome.messages if isinstance(m, ToolMessage)}
    assert [pairs[each] for each in ids] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        (refuses("I will not."), "I will not."),
        (filtered(), WITHHELD),
        (filtered("Half an ans"), "Half an ans"),
        (calls(call("wipe"), finish_reason="content_filter"), WITHHELD),
        (calls(call("wipe"), text="I wipe.", finish_reason="content_filter"), "I wipe."),
    ],
)
def test_a_refusal_ends_the_run_and_stays_in_the_conversation(turn, text):
    tools = Functions(wipe=lambda *_: "wiped")
    outcome, *_ = play([turn], tools)
    assert outcome.ending is Ending.REFUSED
    assert outcome.text == text
    assert tools.requests == []
    assert outcome.messages[-1].content == text


def test_an_answer_that_was_cut_off_is_given_with_a_note():
    outcome, *_ = play([cut_off("KNIME is a")])
    assert (outcome.ending, outcome.text) == (Ending.CUT_OFF, "KNIME is a")
    assert "cut off at the model's token limit" in outcome.notes[0]


def test_images_of_tools_are_shown_as_the_users():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    tools = Functions(draw=lambda *_: [{"type": "text", "text": "a chart"}, picture], other=lambda *_: "text")
    outcome, server, *_ = play([calls(call("draw"), call("other")), says("nice")], tools)
    sent = server.requests[1].messages
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert sent[3]["content"] == "a chart\n[an image, shown in the next message]"
    assert sent[5]["content"][1] == picture
    assert roles(outcome.messages) == ["system", "human", "ai", "tool", "tool", "ai"]
    assert outcome.messages[3].content[1] == picture


def test_the_text_comes_while_it_is_written():
    seen = []
    tools = Functions(search=lambda arguments, _: arguments["query"])
    script = [calls(call("search", {"query": "a long query"}), text="Let me see"), says("It is a platform")]
    outcome, server, *_ = play(script, tools, stream=True, on_event=seen.append)
    deltas = [event for event in seen if isinstance(event, TextDelta)]
    assert "".join(event.text for event in deltas if event.iteration == 1) == "Let me see"
    assert [event.text for event in deltas if event.iteration == 2] == ["It ", "is ", "a ", "platform"]
    assert outcome.text == "It is a platform"
    assert outcome.usage.turns == 2
    assert server.requests[1].last == "a long query"


def test_a_refusal_that_is_streamed():
    outcome, *_ = play([refuses("I will not.")], stream=True)
    assert (outcome.ending, outcome.text) == (Ending.REFUSED, "I will not.")


def test_many_runs_with_one_model_also_at_the_same_time():
    results = []

    def one(number):
        outcome = run_agent(model, Functions(echo=lambda a, _: "x"), [HumanMessage(f"Question {number}")])
        results.append(outcome.text)

    def reply(request):
        return says(f"Re: {request.last}")

    with ChatServer([reply], repeat=True) as server:
        model = model_at(server)
        one(0)
        threads = [threading.Thread(target=one, args=(n,)) for n in range(1, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
    assert sorted(results) == [f"Re: Question {n}" for n in range(6)]


def test_a_history_with_gaps_is_repaired_and_said_so():
    lost = AIMessage(
        content="",
        tool_calls=[
            {"id": "a", "name": "search", "args": {}},
            {"id": "b", "name": "se arch", "args": {}},
        ],
    )
    history = [
        HumanMessage("Earlier"),
        lost,
        HumanMessage("in between"),
        ToolMessage("found", tool_call_id="a"),
        ToolMessage("nobody asked", tool_call_id="z"),
        AIMessage(content=""),
        HumanMessage("Now"),
    ]
    outcome, server, *_ = play([says("ok")], messages=history)
    sent = server.requests[0].messages
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert sent[2]["content"] == "found"
    assert "broke off" in sent[3]["content"]
    assert len(outcome.notes) == 3
    assert any("1 tool calls of the history had no answer" in note for note in outcome.notes)
    assert history[1].tool_calls[1]["name"] == "se arch"  # the given messages are not changed
