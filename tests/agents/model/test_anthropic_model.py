"""Anthropic's models by their own protocol, against a server that speaks it."""

import base64
import json
import logging
import threading
from dataclasses import replace

import pytest
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

from knime_mcp.agents.agent_events import AgentOptions, Ending, ModelAnswered, TextDelta
from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.answer_schema import AnswerSchema
from knime_mcp.agents.model.chat_model import ChatModelSettings, create_model, model_route
from knime_mcp.agents.model.model_errors import (
    ContextTooLong,
    ModelAnswerInvalid,
    ModelBusy,
    ModelLoginFailed,
    ModelNotFound,
    ModelRequestRefused,
    ModelUnreachable,
    QuotaExceeded,
)
from knime_mcp.tools.node_settings.connection import Credential
from knime_mcp.types.errors import Canceled, SettingInvalid
from tests.agents.playing import QUESTION, Functions
from tests.support.chat_server import (
    Turn,
    call,
    calls,
    cut_off,
    fails,
    filtered,
    rate_limited,
    says,
)
from tests.support.messages_server import MessagesServer

KEY = "sk-ant-secret-0123456789"
CREDENTIAL = Credential("claude", "", KEY)
NAME = "anthropic:test-model"
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def claude_at(server, **settings):
    """The model at a server, made as the nodes make it."""
    fields = {"model": NAME, "timeout": 30.0, **settings}
    route = model_route(server.url, model=fields["model"], credential="claude")
    return create_model(ChatModelSettings(route=route, **fields), CREDENTIAL)


def play(turns, tools=None, messages=QUESTION, *, model=None, on_event=None, is_canceled=None, **options):
    events = []

    def listen(event):
        events.append(event)
        if on_event is not None:
            on_event(event)

    with MessagesServer(turns, key=KEY) as server:
        outcome = run_agent(
            claude_at(server, **(model or {})),
            tools or Functions(),
            messages,
            AgentOptions(**options),
            on_event=listen,
            is_canceled=is_canceled,
        )
    assert server.complaints == []
    assert KEY not in str(outcome.error) + str(events)
    return outcome, server, events


def test_a_conversation_with_thoughts_tools_and_an_image():
    def look(arguments, _):
        assert arguments == {"where": "hère", "deep": [1, {"self": None}]}
        return [
            {"type": "text", "text": "seen"},
            {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        ]

    wanted = call("look", {"where": "hère", "deep": [1, {"self": None}]})
    turns = [calls(wanted, text="I look.", thoughts="Where is it?"), says("It is here.", thoughts="Ah.")]
    outcome, server, events = play(turns, Functions(look=look), stream=True)
    assert (outcome.ending, outcome.text) == (Ending.ANSWER, "It is here.")
    first, second = (request.body for request in server.requests)
    assert first["system"] == "Be brief."
    assert [tool["name"] for tool in first["tools"]] == ["look"]
    assert first["stream"] is True
    assert first["cache_control"] == {"type": "ephemeral"}
    _, asked, answered = second["messages"]
    assert [block["type"] for block in asked["content"]] == ["thinking", "text", "tool_use"]
    assert asked["content"][0]["thinking"] == "Where is it?"
    assert asked["content"][2]["input"] == {"where": "hère", "deep": [1, {"self": None}]}
    assert [block["type"] for block in answered["content"]] == ["tool_result", "text", "image"]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I look.It is here."
    assert [message.content for message in outcome.messages][2] == "I look."
    assert [e.message.content for e in events if isinstance(e, ModelAnswered)][-1] == "It is here."


def test_what_came_from_the_cache_counts_for_the_budget():
    cached = {"cache_read_input_tokens": 500, "cache_creation_input_tokens": 100}
    outcome, *_ = play([says("Hi", usage=(7, 3, cached))])
    assert (outcome.usage.input, outcome.usage.output) == (607, 3)
    outcome, *_ = play([says("Hi", usage=(0, 3))])  # a gateway that does not say what was read
    assert (outcome.usage.input, outcome.usage.unreported) == (0, 1)


@pytest.mark.parametrize("field", ["temperature", "token_limit", "more"])
def test_only_what_was_set_is_sent(field, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/somebody")
    value = {"temperature": 0.5, "token_limit": 7, "more": {"top_p": 0.9, "stop": ["END"]}}[field]
    _, server, _ = play([says("ok")], model={field: value})
    [request] = server.requests
    assert "somebody" not in str(request.headers)
    sent = dict(request.body)
    said = {"type": "text", "text": "What is KNIME?"}
    assert sent.pop("messages") == [{"role": "user", "content": [said]}]
    limit = sent.pop("max_tokens")
    assert field != "token_limit" or limit == 7
    expected = {"temperature": {"temperature": 0.5}, "more": {"top_p": 0.9, "stop_sequences": ["END"]}}
    assert sent == {
        "model": "test-model",
        "system": "Be brief.",
        "stream": True,
        **expected.get(field, {}),
    }


def test_the_key_is_sent_and_never_seen(caplog):
    caplog.set_level(logging.DEBUG)
    with MessagesServer([fails(400, f"your key {KEY} is fine")], key=KEY) as server:
        model = claude_at(server)
        outcome = run_agent(model, Functions(), QUESTION)
        assert [request.path for request in server.requests] == ["/v1/messages"]
    assert type(outcome.error) is ModelRequestRefused
    assert "your key [secret] is fine" in str(outcome.error)
    seen = [caplog.text, repr(model), str(model.__dict__)]
    assert KEY not in "".join(seen)


@pytest.mark.parametrize(
    ("turn", "kind", "words"),
    [
        (fails(401, f"invalid x-api-key {KEY}"), ModelLoginFailed, "does not accept the credential"),
        (fails(400, "prompt is too long: 208000 tokens > 200000 maximum"), ContextTooLong, "208000"),
        (fails(400, "Your credit balance is too low to access the API."), QuotaExceeded, "credit balance"),
        (fails(413, "Request exceeds the maximum size"), ContextTooLong, "maximum size"),
        (fails(302, headers=(("Location", "http://127.0.0.1:1/"),)), ModelNotFound, "elsewhere"),
        (says("x", breaks_with={"type": "invalid_request_error", "message": "no such"}),
         ModelRequestRefused, "no such"),
        (says("one two", stop_stream_after=5), ModelAnswerInvalid, "broke off"),
        (says(None, drop=True), ModelUnreachable, "No connection"),
    ],
)  # fmt: skip
def test_what_services_answer_is_told_by_its_cause(turn, kind, words):
    outcome, *_ = play([turn] * 5)
    assert isinstance(outcome.error, kind)
    assert words in str(outcome.error)


@pytest.mark.parametrize(
    "turn",
    [
        fails(529, "Overloaded", headers=(("Retry-After", "0"),)),
        rate_limited(0),
        fails(500, "Internal server error"),
        says("Half", breaks_with={"type": "overloaded_error", "message": "Later"}),
        says("Half", breaks_with={"type": "rate_limit_error", "message": "Slow down"}),
        says("Half", breaks_with={"type": "api_error", "message": "Internal"}),
        says("one two three", stop_stream_after=4),
        says(None),
    ],
)  # fmt: skip
def test_what_passes_is_asked_again(turn):
    outcome, server, _ = play([turn, says("Whole.")])
    assert outcome.text == "Whole."
    assert len(server.requests) == 2


def test_a_wait_that_is_too_long_fails_all_prompts_with_one_request():
    with MessagesServer([rate_limited(61)], key=KEY) as server:
        model = claude_at(server)
        options = AgentOptions(longest_wait=60.0)
        outcomes = [run_agent(model, Functions(), QUESTION, options) for _ in range(5)]
    assert {type(outcome.error) for outcome in outcomes} == {ModelBusy}
    assert outcomes[0].error.retry_after == 61
    assert len(server.requests) == 1


def test_why_an_answer_ended():
    outcome, *_ = play([cut_off("Half an")])
    assert "cut off at the model's token limit" in outcome.notes[0]
    outcome, *_ = play([filtered("I will not.")])
    assert (outcome.ending, outcome.text) == (Ending.REFUSED, "I will not.")
    tools = Functions(wipe=lambda *_: "wiped")
    for written in ("", '{"all": tr'):  # cut off before and in the arguments
        outcome, *_ = play([cut_off("I", call("wipe", written)), says("No.")], tools)
        assert [message.status for message in outcome.messages if isinstance(message, ToolMessage)] == [
            "error"
        ]
    assert all(request.error for request in tools.requests)


def test_many_calls_in_one_answer_and_a_last_word_without_them():
    wanted = [call("add", {"n": n}) for n in range(5)]
    turns = [calls(*wanted), calls(call("add", {"n": 9})), says("enough")]
    outcome, server, _ = play(
        turns,
        Functions(add=lambda arguments, _: str(arguments["n"])),
        iteration_limit=1,
        answer_at_limit=True,
    )
    assert outcome.text == "enough"
    assert server.requests[-1].body["tool_choice"] == {"type": "none"}
    results = [block["content"] for block in server.requests[1].messages[2]["content"]]
    assert results == ["0", "1", "2", "3", "4"]


def test_long_arguments_are_read_once():
    """Not again with each of their 5,000 pieces."""
    text = "x" * 40_000
    outcome, *_ = play(
        [calls(call("keep", {"text": text})), says("kept")],
        Functions(keep=lambda arguments, _: str(len(arguments["text"]))),
    )
    assert outcome.text == "kept"
    assert outcome.messages[3].content == "40000"


def test_an_answer_in_a_form_by_the_models_own_mode_or_a_tool():
    schema = AnswerSchema.parse("price: number")
    outcome, server, _ = play([says('{"price": 12}')], answer_schema=schema)
    assert outcome.text == '{"price":12}'
    form = server.requests[0].body["output_config"]["format"]
    assert (form["type"], list(form["schema"]["properties"])) == ("json_schema", ["price"])

    refused = fails(400, "output_config: this model does not support structured outputs")

    def by_tool(request):
        [tool] = request.body["tools"]
        assert request.body["tool_choice"] == {"type": "tool", "name": tool["name"]}
        return calls(call(tool["name"], {"price": 12}))

    outcome, *_ = play([refused, by_tool], answer_schema=schema)
    assert outcome.text == '{"price":12}'


def test_a_schema_that_is_refused_is_made_simpler():
    schema = {"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}}
    said = (
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
    )
    outcome, server, _ = play([fails(400, said), says("ok")], Functions({"f": schema}, f=lambda *_: ""))
    assert outcome.text == "ok"
    assert "anyOf" not in server.requests[1].body["tools"][0]["input_schema"]


def test_thoughts_that_the_service_refuses_are_left_out():
    refused = fails(400, "messages.1.content.0: Invalid `signature` in `thinking` block")
    turns = [calls(call("add"), thoughts="Hm."), refused, says("3")]
    outcome, server, _ = play(turns, Functions(add=lambda *_: "3"))
    assert outcome.text == "3"
    assert [block["type"] for block in server.requests[2].messages[1]["content"]] == ["tool_use"]


def test_stop_ends_an_answer_in_its_middle():
    read = threading.Event()
    outcome, *_ = play(
        [says("one " * 1000, chunk_delay=0.05)],
        on_event=lambda event: isinstance(event, TextDelta) and read.set(),
        is_canceled=read.is_set,
        stream=True,
    )
    assert isinstance(outcome.error, Canceled)


def test_an_answer_without_an_end_is_given_up():
    with MessagesServer([says("x", hold=threading.Event())] * 3, key=KEY) as server:
        outcome = run_agent(claude_at(server, timeout=0.2), Functions(), QUESTION)
    assert isinstance(outcome.error, ModelUnreachable)
    assert "did not answer in time" in str(outcome.error)


def streams(*events):
    """A stream as the service writes it."""
    written = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Turn(body=written.encode(), headers=(("Content-Type", "text/event-stream"),))


BEGINS = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x"},
}


@pytest.mark.parametrize(
    "body", [b"", b"<html>Welcome</html>", b'{"type": "message", "content": [{"type": "text", "text": "a"}]}']
)
def test_answers_without_a_message_are_no_service_of_this_form(body):
    outcome, *_ = play([Turn(body=body)] * 2)
    assert type(outcome.error) is ModelAnswerInvalid
    assert "holds no message" in str(outcome.error)
    assert "Anthropic" in str(outcome.error)


@pytest.mark.parametrize(
    "end", [b"", b"event: message_delta\ndata: {\xc3", b"event: message_stop\ndata: {\n\n"]
)
def test_streams_that_end_in_the_middle(end):
    begun = streams(BEGINS)
    broken = replace(begun, body=begun.body + end)
    outcome, *_ = play([broken, broken, says("ok")])
    assert outcome.text == "ok"


def test_a_text_that_is_none_is_no_text():
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}}
    ends = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    tools = Functions(add=lambda *_: "3")
    outcome, *_ = play([streams(BEGINS, block, delta, ends), says("ok")], tools)
    assert outcome.text == "ok"


def test_within_what_a_server_may_ask_for():
    with MessagesServer([says("Hi")], key=KEY) as server:
        model = claude_at(server, token_limit=100).within(50, ["END"])
        outcome = run_agent(model, Functions(), [SystemMessage("s"), HumanMessage("h")])
        assert outcome.text == "Hi"
        body = server.requests[0].body
    assert (body["max_tokens"], body["stop_sequences"]) == (50, ["END"])


def test_system_messages_are_one_and_messages_of_one_role_a_turn():
    history = [SystemMessage("one"), HumanMessage("a"), SystemMessage("two"), HumanMessage("b")]
    outcome, server, _ = play([says("ok")], messages=history)
    body = server.requests[0].body
    assert (outcome.text, body["system"]) == ("ok", "one\n\ntwo")
    assert [block["text"] for block in body["messages"][0]["content"]] == ["a", "b"]


def test_a_model_is_asked_to_think_as_long_as_it_can():
    refused = fails(400, "adaptive thinking is not supported on this model")
    outcome, server, _ = play([refused, says("ok")], model={"more": {"reasoning_effort": "low"}})
    assert outcome.text == "ok"
    first, second = (request.body for request in server.requests)
    assert (first["thinking"], first["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})
    assert ("thinking" in second, second["output_config"]) == (False, {"effort": "low"})


@pytest.mark.parametrize(
    "words",
    [
        "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
        "Thinking may not be enabled when tool_choice forces tool use.",
    ],
)
def test_a_model_that_may_not_think_is_not_asked_to(words):
    more = {"more": {"reasoning_effort": "low"}}
    outcome, server, _ = play([fails(400, words), says("ok")], model=more)
    assert (outcome.text, "thinking" in server.requests[1].body) == ("ok", False)
    _, server, _ = play([says("ok")], model={"temperature": 0.2, **more})
    assert "thinking" not in server.requests[0].body

    def by_tool(request):
        assert (request.body["tool_choice"]["type"], "thinking" in request.body) == ("tool", False)
        return calls(call(request.body["tools"][0]["name"], {"price": 12}))

    refused = fails(400, "output_config: this model does not support structured outputs")
    schema = AnswerSchema.parse("price: number")
    outcome, server, _ = play([refused, by_tool], model=more, answer_schema=schema)
    assert (outcome.text, "thinking" in server.requests[0].body) == ('{"price":12}', True)


def test_a_model_that_writes_less_has_its_own_limit():
    said = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for test-model"
    outcome, server, _ = play([fails(400, said), says("ok")])
    assert outcome.text == "ok"
    assert server.requests[1].body["max_tokens"] == 8192


def test_names_and_addresses():
    named = ChatModelSettings(route=model_route("", model=NAME, credential="k"), model=NAME)
    assert (named.base_url, named.listed_name) == ("https://api.anthropic.com/v1", "test-model")
    for url in ("https://gate/a", "https://gate/a/v1/", "https://gate/a/v1/messages"):
        assert model_route(url, model=NAME).url == "https://gate/a/v1"
    assert ChatModelSettings.from_json(json.loads(json.dumps(named.to_json()))) == named
    with pytest.raises(SettingInvalid, match="No model is chosen"):
        replace(named, model="anthropic:")


@pytest.mark.parametrize(
    "words",
    [
        "tool_choice: Extra inputs are not permitted",
        "max_tokens: Extra inputs are not permitted",
        "messages.1.content: text content blocks must be non-empty",
        "Streaming is required for this model",
    ],
)
def test_what_cannot_be_sent_otherwise_is_not_sent_again(words):
    outcome, server, _ = play([fails(400, words)], Functions(look=lambda *_: "x"))
    assert isinstance(outcome.error, ModelRequestRefused)
    assert words in str(outcome.error)
    assert len(server.requests) == 1
