"""Answers in unexpected forms, cut into pieces in every way, and answers that end early."""

import json

import pytest

from knime_mcp.agents.agent_events import ModelRetried, TextDelta, TokenUsage
from knime_mcp.agents.model.model_errors import (
    ContextTooLong,
    ModelAnswerInvalid,
    ModelLoginFailed,
    ModelRequestRefused,
    ModelUnreachable,
    QuotaExceeded,
)
from tests.agents.playing import DEADLINE, Functions
from tests.agents.playing import play as play_script
from tests.support.chat_server import Turn, call, calls, fails, says

DONE = b"data: [DONE]\n\n"


def whole(message, finish="stop", **more):
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"choices": [choice], **more}).encode()


def piece(delta, finish=None, index=0, **more):
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}], **more}


def event(document):
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


def stream(*documents, end=DONE):
    return b"".join(map(event, documents)) + end


def asks(name, arguments, id="c1", **more):  # noqa: A002
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def adds(arguments, **more):
    """A piece of a call."""
    return {"function": {"arguments": arguments}, **more}


def play(*bodies, streamed=True, **model):
    turns = [body if isinstance(body, Turn) else Turn(body=body) for body in bodies]
    tools = Functions(add=lambda arguments, _: "3")
    outcome, _, _, events = play_script(turns, tools, model=model, stream=streamed, total_timeout=DEADLINE)
    return outcome, tools.requests, events


def told(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


COUNTED = {"usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}


def test_a_whole_answer_where_a_stream_was_asked_for():
    wanted = {"content": "I add. ", "tool_calls": [asks("add", '{"a": 1}'), asks("add", '{"a": 2}', "c2")]}
    outcome, requests, events = play(
        whole(wanted, "tool_calls", **COUNTED), whole({"content": "3"}, **COUNTED)
    )
    assert outcome.text == "3"
    assert {request.id: request.arguments for request in requests} == {"c1": {"a": 1}, "c2": {"a": 2}}
    assert told(events) == "I add. 3"
    assert outcome.usage == TokenUsage(input=6, output=4, turns=2)
    assert not any(isinstance(event, ModelRetried) for event in events)


def test_a_stream_where_a_whole_answer_was_asked_for():
    call_pieces = [
        piece({"tool_calls": [{**asks("add", '{"a"'), "index": 0}]}),
        piece({"tool_calls": [adds(": 1}", index=0)]}),
        piece({}, "tool_calls"),
        {"choices": [], **COUNTED},
    ]
    outcome, requests, events = play(
        stream(*call_pieces),
        stream(piece({"content": "It is "}), piece({"content": "3"}, "stop")),
        streamed=False,
    )
    assert outcome.text == "It is 3"
    assert [request.arguments for request in requests] == [{"a": 1}]
    assert outcome.usage == TokenUsage(input=3, output=2, turns=1, unreported=1)
    assert told(events) == ""


def test_streams_are_read_however_they_are_written(subtests):
    for body in [
        stream(piece({"content": "a\u2028b"}), piece({}, "stop")).replace(b"\n", b"\r\n"),
        b": hello\n\n: waiting\n\n" + stream(piece({"content": "a\u2028b"}, "stop")),
        b"\xef\xbb\xbf" + stream(piece({"content": "a\u2028b"}), piece({}, "stop"), end=b""),
        stream(piece({"content": "a\u2028b"}, "stop"), end=b"").rstrip(),
        b"\n\n" + stream(piece({"content": "a\u2028b"}, None)),
        b"event: ping\ndata: {}\n\ndata: ping\n\n" + stream(piece({"content": "a\u2028b"}, "stop")),
        stream(
            piece({"content": "a"}), piece({"content": "x"}, "stop", 1), piece({"content": "\u2028b"}, "stop")
        ),
        stream(
            piece({"content": "a\u2028b"}, "stop"),
            {"choices": [{"message": {"content": "a\u2028b"}, "finish_reason": "stop"}]},
        ),
        b"\n " + whole({"content": "a\u2028b"}),
    ]:
        for streamed in [True, False]:
            with subtests.test(body=body, streamed=streamed):
                outcome, _, _ = play(body, streamed=streamed)
                assert (outcome.text, outcome.error) == ("a\u2028b", None)


@pytest.mark.parametrize(
    ("calls", "made"),
    [
        ([adds('{"a":', id="x", index=0), adds("1}", index=0)], [("", {"a": 1})]),
        ([asks("add", '{"a":'), adds("1}")], [("add", {"a": 1})]),
        ([asks("add", '{"a":1}'), asks("add", '{"a":2}', "c2")], [("add", {"a": 1}), ("add", {"a": 2})]),
        (
            [asks("add", '{"a":1}', "", index=0), asks("add", '{"a":2}', "", index=0)],
            [("add", {"a": 1}), ("add", {"a": 2})],
        ),
        (
            [asks("add", '{"a":', "p1", index=0), adds("1", id="p2", index=0), adds("}", id="p3", index=0)],
            [("add", {"a": 1})],
        ),
        (
            [asks("add", "", "x", index=0), asks("sub", "", "y", index=1), adds('{"a":1}', index=0)],
            [("add", {"a": 1}), ("sub", {})],
        ),
        ([asks("add", [1], index=0)], [("add", None)]),
        ([{"id": "x", "index": 0}], [("", {})]),
        ([None, 3, asks("add", "{}", index=None)], [("add", {})]),
    ],
    ids=[
        "no-name",
        "no-index",
        "ids-and-no-index",
        "one-index-and-no-ids",
        "an-id-per-piece",
        "in-turn",
        "a-list",
        "no-function",
        "no-pieces",
    ],
)
def test_calls_that_come_in_pieces_are_put_together(calls, made):
    pieces = [piece({"role": "assistant", "tool_calls": [each]}) for each in calls]
    outcome, requests, _ = play(stream(*pieces, piece({}, "tool_calls")), says("ok"))
    assert outcome.text == "ok"
    assert sorted((request.name, str(request.arguments)) for request in requests) == sorted(
        (name, str(arguments)) for name, arguments in made
    )


def test_arguments_in_thousands_of_pieces():
    text = json.dumps({"text": "é" * 60_000})
    cut = [text[start : start + 20] for start in range(0, len(text), 20)]
    pieces = [piece({"tool_calls": [{**asks("add", ""), "index": 0}]})]
    pieces += [piece({"tool_calls": [adds(part, index=0)]}) for part in cut]
    outcome, requests, _ = play(stream(*pieces, piece({}, "tool_calls")), says("ok"))
    assert outcome.text == "ok"
    assert [request.arguments for request in requests] == [{"text": "é" * 60_000}]


def test_content_of_odd_types_becomes_text(subtests):
    for streamed in [True, False]:
        for message, text in [
            ({"content": 42}, "42"),
            ({"content": {"answer": [1]}}, '{"answer":[1]}'),
            (
                {
                    "content": [
                        {"type": "text", "text": None},
                        None,
                        "a",
                        {"type": "output_text", "text": "b"},
                    ]
                },
                "ab",
            ),
            ({"role": "user", "content": "a"}, "a"),
            ({"content": "a", "tool_calls": [None]}, "a"),
            ({"content": "a", "tool_calls": {}}, "a"),
            ({"content": "a", "function_call": None}, "a"),
        ]:
            with subtests.test(streamed=streamed, message=message, text=text):
                for body in (whole(message, None), stream(piece(message, "stop"))):
                    outcome, _, _ = play(body, streamed=streamed)
                    assert (outcome.text, outcome.error) == (text, None)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ([1], TokenUsage(unreported=1)),
        ({"prompt_tokens": "12", "completion_tokens": 1.0}, TokenUsage(unreported=1)),
        (
            {"prompt_tokens": 12.0, "completion_tokens": 1, "prompt_tokens_details": "none"},
            TokenUsage(input=12, output=1, turns=1),
        ),
        (
            {"prompt_tokens": 12, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 900}},
            TokenUsage(input=912, output=1, turns=1),
        ),
        (
            {"prompt_tokens": 912, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 900}},
            TokenUsage(input=912, output=1, turns=1),
        ),
    ],
)
def test_usage_counts_only_where_both_are_numbers(usage, counted):
    for body in (whole({"content": "a"}, usage=usage), stream(piece({"content": "a"}, "stop", usage=usage))):
        assert play(body)[0].usage == counted


def test_tokens_that_are_counted_with_every_piece():
    pieces = [
        piece({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
        piece({"content": "b"}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 2}),
    ]
    assert play(stream(*pieces))[0].usage == TokenUsage(input=9, output=2, turns=1)


def test_errors_as_if_all_were_well(subtests):
    for begun in [True, False]:
        for error, kind in [
            ({"error": {"message": "used up", "code": "insufficient_quota"}}, QuotaExceeded),
            ({"error": {"message": "pay", "code": 402}}, QuotaExceeded),
            ({"error": {"message": "who are you", "code": "401"}}, ModelLoginFailed),
            ({"error": {"message": "maximum context length is 5"}}, ContextTooLong),
            ({"object": "error", "message": "maximum context length is 5", "code": 400}, ContextTooLong),
        ]:
            with subtests.test(begun=begun, error=error, kind=kind):
                body = stream(*([piece({"content": "I "})] if begun else []), error)
                assert type(play(body)[0].error) is kind
                assert type(play(json.dumps(error).encode())[0].error) is kind


@pytest.mark.parametrize(
    "error", [{"error": "the model is loading"}, {"error": {"message": "x", "code": 503}}]
)
def test_errors_inside_of_a_stream_that_pass_are_tried_again(error):
    outcome, _, events = play(stream(piece({"content": "I "}), error), says("ok"))
    assert outcome.text == "ok"
    (retry,) = [event for event in events if isinstance(event, ModelRetried)]
    assert "loading" in retry.reason or "(503): x" in retry.reason


def test_a_connection_that_breaks_in_the_middle():
    broken = Turn(body=stream(piece({"content": "I "}), end=b""), missing=10)
    outcome, _, events = play(broken, says("ok"))
    assert outcome.text == "ok"
    (retry,) = [event for event in events if isinstance(event, ModelRetried)]
    assert "broke off in the middle" in retry.reason
    assert type(play(Turn(body=b'{"choices": [', missing=10), says("ok"), streamed=False)[0].error) is type(
        None
    )


def test_a_connection_that_breaks_after_the_end():
    for end in (b"", DONE):
        outcome, _, _ = play(Turn(body=stream(piece({"content": "ok"}, "stop"), end=end), missing=10))
        assert (outcome.text, outcome.error) == ("ok", None)


def test_a_stream_that_falls_silent():
    silent = [says("one two three", chunk_delay=1.0)] * 3
    outcome, _, _ = play(*silent, timeout=0.3)
    assert type(outcome.error) is ModelUnreachable
    assert "did not answer in time" in str(outcome.error)


@pytest.mark.parametrize(
    "body", [stream(piece({"content": "a"}), end=b""), stream(end=b'data: {"choices": [{')]
)
def test_streams_that_end_in_the_middle(body):
    outcome, _, _ = play(body, body, body)
    assert type(outcome.error) is ModelAnswerInvalid
    assert "broke off" in str(outcome.error)
    assert play(body, body, says("ok"))[0].text == "ok"


def test_an_answer_without_end_is_given_up():
    endless = b'{"choices": [' + b" " * (65 * 1024 * 1024)
    outcome, _, _ = play(endless)  # once: another one would be no shorter
    assert "longer than 64 MB" in str(outcome.error)


@pytest.mark.parametrize(
    ("streamed", "words"),
    [
        (False, "This model only support stream mode, please enable the stream parameter."),
        (True, "Unrecognized request argument supplied: stream_options"),
        (True, "Streaming is not supported with tools"),
    ],
)
def test_endpoints_that_want_it_the_other_way(streamed, words):
    turns = [fails(400, words), calls(call("add", {"a": 1})), says("ok")]
    outcome, server, *_ = play_script(turns, Functions(add=lambda arguments, _: "3"), stream=streamed)
    assert outcome.text == "ok"
    asked = [bool(request.body.get("stream")) for request in server.requests]
    assert asked == [streamed, not streamed, not streamed]
    outcome, *_ = play_script([fails(400, words)] * 2, stream=streamed)
    assert type(outcome.error) is ModelRequestRefused
