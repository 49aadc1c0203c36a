"""The loop when the endpoint fails, when the user cancels, when time runs out."""

import email.utils
import logging
import re
import socket
import threading
import time

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from knime_mcp.agents.agent_events import AgentOptions, Ending, ModelRetried, ToolFinished, ToolStarted
from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.endpoint import Endpoint, list_models
from knime_mcp.agents.model.model_errors import (
    ContextTooLong,
    ModelAnswerInvalid,
    ModelBusy,
    ModelLoginFailed,
    ModelNotFound,
    ModelRequestRefused,
    ModelUnreachable,
    QuotaExceeded,
    retry_after,
)
from knime_mcp.audit.journal import JournalWriteError
from knime_mcp.tools.node_settings.connection import Credential
from knime_mcp.types.errors import Canceled, TimedOut
from tests.agents.playing import DEADLINE, QUESTION, Functions, model_at, patient, play
from tests.support.chat_server import (
    ChatServer,
    Turn,
    call,
    calls,
    context_too_long,
    cut_off,
    fails,
    rate_limited,
    says,
)
from tests.support.waiting import until

KEY = "sk-very-secret-0123456789"


def says_status(status, body):
    return Turn(status=status, body=body)


def test_a_rate_limit_is_waited_out():
    outcome, server, retries, _ = play([rate_limited(0.3), rate_limited("0.01"), says("ok")])
    assert outcome.text == "ok"
    assert retries[0].wait == pytest.approx(0.3, abs=0.1)
    assert retries[1].wait >= 0.5  # a time that did not help is not all that counts
    assert "takes no more requests" in retries[0].reason
    assert server.requests[1].at - server.requests[0].at >= 0.3


def test_a_wait_that_is_too_long_is_said_instead():
    outcome, _, retries, _ = play([rate_limited(3600)])
    assert isinstance(outcome.error, ModelBusy)
    assert outcome.error.retry_after == 3600
    assert retries == []
    outcome, _, retries, _ = play([rate_limited(30)], total_timeout=10.0)
    assert isinstance(outcome.error, ModelBusy)
    assert retries == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "Limit 200000 / min. Please try again in 0m0.2s. Visit https://x"}}',
        b'{"error": {"message": "Please try again in 200ms."}}',
        b'[{"error": {"code": 429, "message": "' + b"quota " * 99 + b'\\nPlease retry in 0.2s."}}]',
        b'[{"error": {"code": 429, "message": "quota", "details": [{"retryDelay": "0.2s"}]}}]',
    ],
)
def test_a_wait_that_is_said_in_words(body):
    outcome, _, retries, _ = play([says_status(429, body), says("ok")])
    assert outcome.text == "ok"
    assert [retry.wait for retry in retries] == [pytest.approx(0.2, abs=0.1)]


@pytest.mark.parametrize("status", [400, 500])
def test_ids_that_an_endpoint_does_not_take(status):
    def strict(request):
        ids = [c["id"] for m in request.messages for c in m.get("tool_calls", ())]
        bad = [own for own in ids if not re.fullmatch("[a-zA-Z0-9]{9}", own)]
        if bad:
            return fails(status, f"Tool call id was {bad[0]} but must be a-z, A-Z, 0-9, with a length of 9.")
        return says("ok") if len(ids) == 3 else calls(call("search", id=""))

    tools = Functions(search=lambda *_: "found")
    twice = calls(call("search", id="call_1"), call("search", id="call_2"))
    outcome, server, retries, _ = play([twice, strict, strict, strict], tools)
    assert outcome.text == "ok"
    assert [retry.wait for retry in retries] == [0.0]
    assert server.complaints == []
    ids = [call["id"] for m in outcome.messages if m.type == "ai" for call in m.tool_calls]
    assert len(set(ids)) == 3


def test_what_cannot_be_recorded_ends_the_run():
    def broken(*_):
        raise JournalWriteError(28, "No space left on device", "a.jsonl")

    with ChatServer([calls(call("broken"))]) as server, pytest.raises(JournalWriteError):
        run_agent(model_at(server), Functions(broken=broken), [HumanMessage("Hi")])
    assert server.unplayed == 0
    assert server.complaints == []


def test_trouble_that_passes_is_tried_again():
    turns = [fails(500), fails(529), Turn(drop=True), says("ok")]
    outcome, _, retries, events = play(turns)
    assert outcome.text == "ok"
    assert len(retries) == 3
    answered = [event for event in events if getattr(event, "attempts", 0)]
    assert answered[0].attempts == 4


def test_trouble_that_does_not_pass_ends_the_run_with_its_reason():
    outcome, server, retries, _ = play([fails(500, "a fault", headers=(("Retry-After", "0"),))] * 5)
    assert isinstance(outcome.error, ModelBusy)
    assert "The endpoint has trouble (500): a fault" in str(outcome.error)
    assert len(server.requests) == 5
    assert len(retries) == 4


TOO_LONG = [
    "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "prompt token count of 66052 exceeds the limit of 64000",
    "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
    "Input length (5000 tokens) exceeds the maximum allowed length (4092 tokens).",
    "Prompt length (5000) exceeds maximum input length (4096)",
    "Unable to submit request because the input token count is 40000 but model only supports up to 32768.",
    "Prompt exceeds max length",
]


def test_errors_are_told_apart_and_not_tried_again(subtests):
    for turn, kind, words in [
        (rate_limited(code="insufficient_quota"), QuotaExceeded, "billing"),
        (fails(402, "pay"), QuotaExceeded, "billing"),
        (fails(400, "Your credit balance is too low to access the API."), QuotaExceeded, "billing"),
        (fails(429, "Insufficient balance. Please recharge."), QuotaExceeded, "billing"),
        (fails(401, f"Incorrect API key provided: {KEY[:8]}"), ModelLoginFailed, "API key"),
        (fails(403, "not in your country"), ModelLoginFailed, "not in your country"),
        (fails(404, "no such model"), ModelNotFound, "'test-model'"),
        (fails(400, "Unsupported value: 'temperature'"), ModelRequestRefused, "Unsupported value"),
        (fails(422, "schema"), ModelRequestRefused, "schema"),
        (context_too_long(), ContextTooLong, "fewer tools"),
        (fails(413, "Request too large for this model"), ContextTooLong, "fewer tools"),
        (fails(429, "Request too large on tokens per min (TPM): Limit 1"), ContextTooLong, "larger context"),
        (fails(400, "the request exceeds the available context size"), ContextTooLong, "fewer tools"),
        (fails(413, "Payload too large"), ContextTooLong, "fewer tools"),
        (fails(400, "This model's maximum prompt length is 131072"), ContextTooLong, "fewer tools"),
        (fails(400, "Your request exceeded model token limit: 8192"), ContextTooLong, "fewer tools"),
        (fails(400, "Range of input length should be [1, 30720]"), ContextTooLong, "fewer tools"),
        (fails(422, "`inputs` must have less than 4095 tokens. Given: 5000"), ContextTooLong, "fewer tools"),
        (fails(400, "ContextWindowExceededError"), ContextTooLong, "fewer tools"),
        *((fails(400, words), ContextTooLong, "fewer tools") for words in TOO_LONG),
        (fails(400, "max_tokens 9000 exceeds the limit of 4096"), ModelRequestRefused, "max_tokens"),
        (
            says_status(400, b'[{"error": {"code": 400, "message": "no such tool"}}]'),
            ModelRequestRefused,
            ": no such tool",
        ),
        (says_status(400, b'{"error": "no such tool"}'), ModelRequestRefused, "(400): no such tool"),
        (says_status(400, b'{"detail": "no such tool"}'), ModelRequestRefused, "(400): no such tool"),
        (says_status(400, b'{"detail": [{"msg": "x"}]}'), ModelRequestRefused, "msg"),
        (
            says_status(429, b'[{"error": {"code": "insufficient_quota", "message": "x"}}]'),
            QuotaExceeded,
            "billing",
        ),
        (fails(308, headers=(("Location", "http://127.0.0.1:1/"),)), ModelNotFound, "elsewhere"),
    ]:
        with subtests.test(turn=turn, kind=kind, words=words):
            outcome, server, *_ = play([turn])
            assert type(outcome.error) is kind
            assert words in str(outcome.error)
            assert server.url.rpartition("/")[0] in str(outcome.error)
            assert len(server.requests) == 1
            assert outcome.ending is None
            assert len(outcome.messages) == len(QUESTION)


def test_an_endpoint_that_repeats_the_key(caplog):
    caplog.set_level(logging.DEBUG)
    said = f"bad request with key {KEY}\x1b[31m"
    outcome, *_ = play([fails(400, said)], credential=Credential("c", "", KEY))
    assert "bad request with key [secret]" in str(outcome.error)
    assert KEY not in str(outcome.error) + repr(outcome.error)
    assert "\x1b" not in str(outcome.error)
    assert KEY not in caplog.text
    assert outcome.error.__cause__ is None


@pytest.mark.parametrize("answer", [f"HTTP/1.1 {KEY}\r\n\r\n", f"HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n"])
def test_an_endpoint_whose_broken_answer_repeats_the_key(answer):
    def reply():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(answer.encode())
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(DEADLINE)
        threading.Thread(target=reply, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        model = model_at(None, Credential("c", "", KEY), url=url)
        outcome = run_agent(model, Functions(), QUESTION, AgentOptions(longest_wait=0.0))
        with pytest.raises(ModelUnreachable) as listed:
            list_models(Endpoint(model.settings.route, Credential("c", "", KEY)), seconds=DEADLINE)
        listening.shutdown(socket.SHUT_RDWR)  # ends the thread
    for error in (outcome.error, listed.value):
        assert "[secret]" in str(error)
        assert KEY not in str(error)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Welcome</html>",
        b"{",
        b"[]",
        b"{}",
        b'{"choices": null}',
        b'{"choices": []}',
        b'{"choices": [{"message": null}]}',
        b"\xff\xfe",
        b"",
    ],
)
def test_answers_that_are_none(body):
    outcome, server, *_ = play([Turn(body=body)] * (3 if body == b"{" else 2))
    assert isinstance(outcome.error, ModelAnswerInvalid | ModelUnreachable), repr(outcome.error)
    assert outcome.error.fix
    assert len(server.requests) == outcome.error.tries


def test_an_empty_answer_is_asked_for_once_more():
    outcome, _, retries, _ = play([says(""), says("ok")])
    assert outcome.text == "ok"
    assert "empty" in retries[0].reason
    outcome, *_ = play([says(None), says(" \n")])
    assert isinstance(outcome.error, ModelAnswerInvalid)
    assert len(outcome.messages) == len(QUESTION)


def test_a_token_limit_that_leaves_no_room_for_an_answer():
    outcome, server, *_ = play([cut_off("")])
    assert "used up its token limit" in str(outcome.error)
    assert "Raise the token limit" in str(outcome.error)
    assert len(server.requests) == 1


def test_an_endpoint_where_nobody_listens_is_tried_three_times():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
    events = []
    model = model_at(None, url=url)
    outcome = run_agent(model, Functions(), [HumanMessage("Hi")], on_event=events.append)
    assert isinstance(outcome.error, ModelUnreachable)
    assert "No connection to the model's endpoint" in str(outcome.error)
    assert url.removesuffix("/v1") in str(outcome.error)
    assert len([event for event in events if isinstance(event, ModelRetried)]) == 2


def test_a_silent_endpoint_is_given_up_after_three_tries():
    turns = [says("late").after(15.0)] * 3
    outcome, server, *_ = play(turns, model={"timeout": 0.3})
    assert isinstance(outcome.error, ModelUnreachable)
    assert "did not answer in time" in str(outcome.error)
    assert len(server.requests) == 3


def test_a_filter_before_the_model():
    outcome, *_ = play([fails(400, "triggering our content management policy", "content_filter")])
    assert outcome.error is None
    assert outcome.ending is Ending.REFUSED
    assert "A filter at the endpoint refused the prompt" in outcome.text


@pytest.mark.parametrize(
    "full",
    [
        context_too_long(),
        says("", finish_reason="model_context_window_exceeded"),
        says("", finish_reason="model_length"),
    ],
    ids=["error", "answer", "mistral"],
)
def test_old_results_are_left_out_when_the_conversation_does_not_fit(full):
    tools = Functions(read=lambda arguments, _: f"page {arguments['n']} " + "x" * 5000)
    turns = [calls(call("read", {"n": n})) for n in range(4)]
    outcome, server, retries, _ = play([*turns, full, full, says("summary")], tools)
    assert outcome.text == "summary"
    sent = [m["content"] for m in server.requests[-1].messages if m["role"] == "tool"]
    assert [text.startswith("page") for text in sent] == [False, False, False, True]
    assert "Call the tool again" in sent[0]
    assert "left out of what was sent" in outcome.notes[0]
    assert "without 2 tool results" in retries[0].reason
    kept = [m.content for m in outcome.messages if isinstance(m, ToolMessage)]
    assert all(text.startswith("page") for text in kept)
    outcome, *_ = play([turns[0], full], tools)  # the newest result stays
    assert isinstance(outcome.error, ContextTooLong)


def test_a_model_that_refuses_images_gets_words():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    tools = Functions(draw=lambda *_: [picture])
    refused = fails(400, "Invalid content type. image_url is only supported by certain models.")
    outcome, server, *_ = play([calls(call("draw")), refused, says("pity")], tools)
    assert outcome.text == "pity"
    assert "does not take images" in server.requests[-1].last
    assert "takes no images" in outcome.notes[0]


def test_a_failure_in_the_middle_keeps_what_was_said():
    tools = Functions(search=lambda *_: "found")
    outcome, *_ = play([calls(call("search")), fails(400, "no such temperature")], tools)
    assert isinstance(outcome.error, ModelRequestRefused)
    assert [m.type for m in outcome.messages] == ["system", "human", "ai", "tool"]
    assert outcome.iterations == 1
    assert outcome.usage.turns == 1


def test_a_stream_that_breaks_off():
    broken = says("one two three four", stop_stream_after=3)
    outcome, _, retries, _ = play([broken, says("whole")], stream=True)
    assert outcome.text == "whole"
    assert len(retries) == 1
    wanted = call("t", {"a": "a long argument that is cut"})
    script = [calls(wanted, stop_stream_after=4), says("ok")]
    tools = Functions(t=lambda *_: "must not run")
    outcome, *_ = play(script, tools, stream=True)
    assert (outcome.text, tools.requests) == ("ok", [])


def test_cancel_while_the_model_thinks():
    canceled = threading.Event()
    with ChatServer([says("late").after(15.0)]) as server:
        threading.Thread(target=lambda: (server.arrived.wait(DEADLINE), canceled.set()), daemon=True).start()
        outcome = run_agent(model_at(server), Functions(), [HumanMessage("Hi")], is_canceled=canceled.is_set)
        assert isinstance(outcome.error, Canceled)
        until(lambda: server.disconnects == 1, "the request is given up, not left to run and cost")


def test_cancel_while_waiting_to_try_again():
    canceled = threading.Event()

    def on_event(event):
        if isinstance(event, ModelRetried):
            canceled.set()

    outcome, *_ = play([rate_limited(30)], on_event=on_event, is_canceled=canceled.is_set)
    assert isinstance(outcome.error, Canceled)


@pytest.mark.parametrize("heeds", [True, False], ids=["tool-that-stops", "tool-that-hangs"])
def test_cancel_while_tools_run(heeds):
    canceled, let_go = threading.Event(), threading.Event()

    def hang(arguments, is_canceled):
        let_go.wait(DEADLINE)
        return "late"

    tools = Functions(slow=patient if heeds else hang, quick=lambda *_: "quick result")
    script = [calls(call("quick"), *[call("slow")] * 5)]

    def on_event(event):
        if isinstance(event, ToolFinished):
            canceled.set()

    outcome, _, _, seen = play(script, tools, on_event=on_event, is_canceled=canceled.is_set)
    let_go.set()
    assert isinstance(outcome.error, Canceled)
    answers = [m for m in outcome.messages if isinstance(m, ToolMessage)]
    assert len(answers) == 6
    assert answers[0].content == "quick result"
    assert all("canceled" in m.content and m.status == "error" for m in answers[1:])
    started = [event for event in seen if isinstance(event, ToolStarted)]
    finished = [event for event in seen if isinstance(event, ToolFinished)]
    assert len(started) == len(finished) < 6  # calls that waited for a free place never began


def test_a_tool_that_says_canceled_by_itself_ends_the_run():
    def stopped(*_):
        raise Canceled("somebody pressed the button")

    tools = Functions(stopped=stopped, fine=lambda *_: "ok")
    outcome, *_ = play([calls(call("stopped"), call("fine"))], tools)
    assert isinstance(outcome.error, Canceled)


@pytest.mark.parametrize("where", ["model", "tool", "wait"])
def test_the_total_clock_ends_whatever_goes_on(where):
    turn = {"model": says("late").after(15.0), "tool": calls(call("slow")), "wait": fails(500)}[where]
    outcome, *_ = play([turn] * 5, Functions(slow=patient), total_timeout=0.5, to_the_end=False)
    if where == "wait":  # the next try would come too late: fails at once, with the reason
        assert isinstance(outcome.error, ModelBusy | TimedOut)
    else:
        assert isinstance(outcome.error, TimedOut)
        assert outcome.error.kind == "total"
        assert "0.5 seconds" in str(outcome.error)


def test_canceled_before_it_began():
    outcome, *_ = play([says("late").after(15.0)], is_canceled=lambda: True, to_the_end=False)
    assert isinstance(outcome.error, Canceled)


def test_no_thread_stays_after_a_run():
    before = set(threading.enumerate())
    tools = Functions(search=lambda *_: "found")
    play([calls(call("search"), call("search")), says("ok")], tools)
    until(lambda: set(threading.enumerate()) <= before, "the threads end")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_how_long_to_wait(headers, seconds):
    assert retry_after(headers) == seconds


@pytest.mark.parametrize("zone", ["GMT", "-0000"])
def test_a_date_to_wait_for_is_in_utc(monkeypatch, zone):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        date = email.utils.formatdate(time.time() + 1000, usegmt=True).replace("GMT", zone)
        assert 0 < retry_after({"retry-after": date}) <= 1000
    finally:
        monkeypatch.undo()
        time.tzset()
