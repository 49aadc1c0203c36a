"""Deviations of endpoints that call themselves compatible with OpenAI's, and fields that they want back."""

import json
import tracemalloc

import pytest
from langchain_core.messages import AIMessage

from knime_mcp.agents.agent_events import Ending
from knime_mcp.agents.answer_schema import AnswerSchema
from knime_mcp.agents.model.model_errors import ModelAnswerInvalid
from knime_mcp.agents.model_messages import answer_of, called_in_text
from tests.agents.playing import Functions
from tests.agents.playing import play as play_script
from tests.support.chat_server import Turn, call, calls, fails, says

HARMONY = "<|start|>assistant<|channel|>"


def answers(message, **more):
    """An answer as the endpoint writes it; `message` is sent as it is."""
    choice = {"message": message, "finish_reason": "stop", **more}
    return Turn(body=json.dumps({"choices": [choice]}).encode())


def streams(*deltas):
    """A streamed answer as the endpoint writes it."""
    choices = [{"delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"delta": {}, "finish_reason": "stop"})
    lines = [f"data: {json.dumps({'choices': [{'index': 0, **choice}]})}\n\n" for choice in choices]
    head = (("Content-Type", "text/event-stream"),)
    return Turn(body="".join([*lines, "data: [DONE]\n\n"]).encode(), headers=head)


def wants(name, arguments, id="c1", **more):  # noqa: A002
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def play(*turns, stream=False, **tools):
    functions = Functions(**{"add": lambda arguments, _: "3", **tools})
    outcome, server, *_ = play_script(turns, functions, stream=stream)
    assert outcome.error is None
    return outcome, server, functions


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        ({"role": "assistant", "content": None, "tool_calls": [wants("add", {"a": 1}, None)]}, ["call_1"]),
        (
            {"role": "assistant", "tool_calls": [wants("add", "{}", "x"), wants("add", "{}", "x")]},
            ["x", "x_2"],
        ),
        ({"content": "", "tool_calls": [wants("add", "{}", ""), wants("add", "")]}, ["call_1", "c1"]),
        ({"role": "assistant", "tool_calls": [wants("add", "{}", 7)]}, ["7"]),
        ({"tool_calls": [{"function": {"name": "add", "arguments": "{}"}}]}, ["call_1"]),
    ],
)
def test_tool_calls_in_odd_forms_are_made(message, ids):
    outcome, server, tools = play(answers(message), says("ok"))
    assert outcome.text == "ok"
    assert sorted(request.id for request in tools.requests) == sorted(ids)
    assert [m["tool_call_id"] for m in server.requests[1].messages if m["role"] == "tool"] == ids


def test_a_streamed_call_with_arguments_as_an_object():
    delta = {"tool_calls": [{**wants("add", {"x": 1}), "index": 0}]}
    outcome, _, tools = play(streams(delta), streams({"content": "ok"}), stream=True)
    assert outcome.text == "ok"
    assert [request.arguments for request in tools.requests] == [{"x": 1}]


def test_a_function_call_of_the_form_before_tools():
    wanted = {"name": "add", "arguments": '{"a": 1}'}
    outcome, server, tools = play(answers({"content": None, "function_call": wanted}), says("ok"))
    assert outcome.text == "ok"
    assert [request.arguments for request in tools.requests] == [{"a": 1}]
    assert server.requests[1].messages[-1]["role"] == "tool"
    pieces = [
        {"function_call": {"name": "add", "arguments": '{"a"'}},
        {"function_call": {"arguments": ": 1}"}},
    ]
    _, _, tools = play(streams(*pieces), streams({"content": "ok"}), stream=True)
    assert [(request.name, request.arguments) for request in tools.requests] == [("add", {"a": 1})]


def test_a_stream_that_repeats_the_name_with_every_piece():
    pieces = [
        {"tool_calls": [{**wants("add", text, own_id), "index": index}]}
        for text, own_id, index in [
            ('{"a"', "x", 0),
            (": 1}", "x", 0),
            ('{"a": 2}', "y", 1),
            ('{"a": 3}', "z", 1),
        ]
    ]
    _, _, tools = play(streams(*pieces), streams({"content": "ok"}), stream=True)
    assert {request.name for request in tools.requests} == {"add"}
    assert sorted(request.arguments["a"] for request in tools.requests) == [1, 2, 3]


def test_arguments_that_are_the_text_of_a_text():
    _, _, tools = play(answers({"tool_calls": [wants("add", json.dumps('{"a": 1}'))]}), says("ok"))
    assert [request.arguments for request in tools.requests] == [{"a": 1}]


def test_a_usage_that_is_no_object():
    said = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "usage": "12 tokens"}
    outcome, _, _ = play(Turn(body=json.dumps(said).encode()))
    assert (outcome.text, outcome.usage.unreported) == ("ok", 1)


def test_content_as_a_list_of_parts():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]},
        {"type": "reasoning", "text": "hmm"},
        {"type": "text", "text": "Hello "},
        {"type": "text", "text": "you"},
    ]
    assert play(answers({"role": "assistant", "content": parts}))[0].text == "Hello you"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("<think>first\nthis</think>\n\nHello", "Hello"),
        ("the opening mark is in the prompt</think>Hello", "Hello"),
        ("<reasoning>so</reasoning><reasoning> and so</reasoning>\n<think>still</think>Hello", "Hello"),
        ("[THINK]so[/THINK]Hello", "Hello"),
        ("<think>so</think>Hello <think>again</think>you", "Hello you"),
        ("<THINKING>so</THINKING>Hello", "Hello"),
        ("<think>so</think>\n<answer>\nHello\n</answer>", "Hello"),
        ("<think>so</think><response>Hello", "Hello"),
        ("<answer>Hello</answer>", "<answer>Hello</answer>"),
        ("<think>so</think><|begin_of_box|>Hello<|end_of_box|>", "Hello"),
        ("<|START_THINKING|>so<|END_THINKING|><|START_RESPONSE|>Hello<|END_RESPONSE|>", "Hello"),
        ("<|inner_prefix|>so<|inner_suffix|>Hello", "Hello"),
        ('<details type="reasoning" done="true">\nso\n</details>\nHello', "Hello"),
        (f"{HARMONY}analysis<|message|>so<|end|>{HARMONY}final<|message|>Hello<|return|>", "Hello"),
        (f"{HARMONY}analysis<|message|>so{HARMONY}final <|constrain|>json<|message|>Hello", "Hello"),
        ("<|channel|>analysis<|message|>so<|end|><|channel|>final<|message|>Hello", "Hello"),
        ("analysisWe greet.assistantfinalHello", "Hello"),
        ("analysis and synthesis", "analysis and synthesis"),
        ("It ends with `</think>`.", "It ends with `</think>`."),
        ("Hi <think>late</think> there", "Hi <think>late</think> there"),
        ("<thought>by another name</thought>Hello", "Hello"),
        ("Write <think>…</think> around thoughts", "Write <think>…</think> around thoughts"),
    ],
)
def test_thoughts_are_no_part_of_the_answer(said, answer):
    outcome, _, _ = play(says(said))
    assert outcome.text == answer
    assert outcome.messages[-1].content == said
    assert answer_of(outcome.messages[-1]) == answer


ONLY_THOUGHTS = [
    {"content": "<think>only thoughts</think>"},
    {"content": "<think>never closed"},
    {"content": None, "reasoning_content": "only thoughts"},
    {"content": " ", "reasoning": "<tool_call>{}</tool_call>"},
    {"content": f"{HARMONY}analysis<|message|>only thoughts"},
]


@pytest.mark.parametrize("message", ONLY_THOUGHTS)
def test_an_answer_of_thoughts_alone_is_none_and_the_error_quotes_it(message):
    outcome, *_ = play_script([answers(message)] * 2)
    assert isinstance(outcome.error, ModelAnswerInvalid)
    assert (message.get("reasoning_content") or message.get("reasoning") or message["content"]) in str(
        outcome.error
    )
    assert "thoughts" in str(outcome.error)


def test_braces_in_thoughts_do_not_spoil_an_answer_in_a_form():
    schema = AnswerSchema.parse("price: number")
    said = '<reasoning>It is {3}, or {"price": 4}.</reasoning>{"price": 3}'
    assert play_script([says(said)], answer_schema=schema).outcome.text == '{"price":3}'


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "function_call_filter: UNEXPECTED_TOOL_CALL"])
@pytest.mark.parametrize("text", [None, "I will add."])
def test_a_call_that_the_service_could_not_read_is_asked_for_again_in_its_words(reason, text):
    broken = answers({"content": text}, finish_reason=reason)
    assert play(broken, says("ok"))[0].text == "ok"
    outcome, *_ = play_script([broken] * 3)
    assert reason in str(outcome.error)


@pytest.mark.parametrize(
    "document",
    [
        {"choices": [{"index": 0, "finish_reason": "PROHIBITED_CONTENT"}]},
        {"choices": [{"index": 0, "finish_reason": "PROHIBITED_CONTENT", "message": None}]},
        {"choices": [], "prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}},
        {
            "choices": [
                {
                    "message": {"content": ""},
                    "finish_reason": "stop",
                    "native_finish_reason": "PROHIBITED_CONTENT",
                }
            ]
        },
    ],
)
def test_why_there_is_no_answer_is_said_wherever_it_stands(document):
    outcome, *_ = play_script([Turn(body=json.dumps(document).encode())])
    assert outcome.ending is Ending.REFUSED
    assert "PROHIBITED_CONTENT" in outcome.text


@pytest.mark.parametrize("id_", ["a", "", "same"])
@pytest.mark.parametrize("stream", [False, True])
def test_calls_that_cannot_be_read_keep_their_place_and_signature(stream, id_):
    signed = {"extra_content": {"google": {"thought_signature": "sig"}}}
    asked = [
        wants("add", '{"a": ', id_, **signed),
        wants("add", "{}", "b" if id_ == "a" else id_),
        wants("add", "[", "c"),
    ]
    asked_as_pieces = streams(*({"tool_calls": [{**one, "index": n}]} for n, one in enumerate(asked)))
    turn = asked_as_pieces if stream else answers({"content": None, "tool_calls": asked})
    _, server, tools = play(turn, says("3"), stream=stream)
    (sent,) = [m for m in server.requests[1].messages if m["role"] == "assistant"]
    assert ["extra_content" in one for one in sent["tool_calls"]] == [True, False, False]
    told = [m["content"] for m in server.requests[1].messages if m["role"] == "tool"]
    assert ["not valid JSON" in text or "a JSON object" in text for text in told] == [True, False, True]
    assert len(tools.requests) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_and_signatures_go_back_with_their_calls(stream):
    signed = {"extra_content": {"google": {"thought_signature": "sig"}}}
    thinks = {"role": "assistant", "content": "", "reasoning_content": "I add."}
    asked = [wants("add", "{}", "a", **signed), wants("add", "{}", "b")]
    if stream:
        deltas = [{"tool_calls": [{**one, "index": n}]} for n, one in enumerate(asked)]
        turn = streams({**thinks, "reasoning_content": "I "}, {"reasoning_content": "add."}, *deltas)
        last = streams({"content": "3", "reasoning_content": "Done."})
    else:
        turn = answers({**thinks, "tool_calls": asked})
        last = answers({"role": "assistant", "content": "3", "reasoning_content": "Done."})
    outcome, server, _ = play(turn, last, stream=stream)
    assert outcome.text == "3"
    (sent,) = [m for m in server.requests[1].messages if m["role"] == "assistant"]
    assert sent["reasoning_content"] == "I add."
    assert sent["tool_calls"][0]["extra_content"] == signed["extra_content"]
    assert "extra_content" not in sent["tool_calls"][1]


def block(text, signature=None):
    return {"type": "thinking", "thinking": text, "signature": signature}


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_by_other_names_go_back_too(stream):
    """vLLM, LocalAI, Groq and Ollama call them reasoning; LiteLLM passes on Anthropic's, which are signed."""
    hidden = {"type": "redacted_thinking", "data": "x"}
    call_delta = {"tool_calls": [{**wants("add", "{}"), "index": 0}]}
    if stream:
        blocks = [[block("I ")], [block("add.")], [block("", "sig")], [hidden], [block("Twice", "sig2")]]
        turn = streams(
            {"reasoning": "I "}, {"reasoning": "add."}, *({"thinking_blocks": b} for b in blocks), call_delta
        )
        last = streams({"content": "3"})
    else:
        blocks = [block("I add.", "sig"), hidden, block("Twice", "sig2")]
        turn = answers({"reasoning": "I add.", "thinking_blocks": blocks, **call_delta})
        last = says("3")
    _, server, _ = play(turn, last, stream=stream)
    (sent,) = [m for m in server.requests[1].messages if m["role"] == "assistant"]
    assert sent["reasoning"] == "I add."
    assert sent["thinking_blocks"] == [block("I add.", "sig"), hidden, block("Twice", "sig2")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_that_an_endpoint_gives_and_does_not_take(stream, field):
    """Gateways return the thoughts of every service, and pass them to services that refuse them."""

    def strict(request):
        if any(field in message for message in request.messages):
            return fails(400, f"'messages.1' : property '{field}' is unsupported")
        return thinks if len(request.messages) < 5 else says("ok")

    signed = wants("add", "{}", extra_content={"google": {"thought_signature": "sig"}})
    if stream:
        thinks = streams({field: "I add."}, {"tool_calls": [{**signed, "index": 0}]})
    else:
        thinks = answers({field: "I add.", "tool_calls": [signed]})
    outcome, server, _ = play(thinks, strict, strict, strict, stream=stream)
    assert outcome.text == "ok"
    assert len(server.requests) == 4
    asked = [m for m in server.requests[-1].messages if m["role"] == "assistant"]
    assert [m["tool_calls"][0]["extra_content"] for m in asked] == 2 * [signed["extra_content"]]


def test_thoughts_are_looked_for_in_little_memory():
    message = AIMessage("word < " * 100_000)
    tracemalloc.start()
    try:
        assert answer_of(message) == message.content.strip()
        assert not called_in_text(message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(message.content)


def test_openais_own_answers_are_sent_back_without_anything_else():
    _, server, _ = play(calls(call("add")), says("ok"))
    (sent,) = [m for m in server.requests[1].messages if m["role"] == "assistant"]
    assert sent.keys() == {"role", "content", "tool_calls"}


def test_broken_characters_end_nothing():
    body = b"""{"choices": [{"message": {"role": "assistant", "content": "a\\ud800b", "tool_calls": [
        {"id": "c\\udfff", "type": "function",
         "function": {"name": "add", "arguments": "{\\"x\\": \\"\\\\ud800\\"}"}}
        ]}, "finish_reason": "tool_calls"}]}"""
    outcome, server, _ = play(Turn(body=body), says("你好 😀"), add=lambda arguments, _: "x\ud800y")
    assert outcome.text == "你好 😀"
    *_, said, given = server.requests[1].messages
    assert said["content"] == "a\ufffdb"
    assert said["tool_calls"][0]["id"] == given["tool_call_id"] == "c\ufffd"
    assert given["content"] == "x\ufffdy"


@pytest.mark.parametrize("arguments", ['{"x": NaN}', '{"x": 1e999}', "[" * 100_000])
def test_arguments_that_json_cannot_hold_are_told_to_the_model(arguments):
    outcome, _, tools = play(calls(call("add", arguments)), says("ok"))
    assert outcome.text == "ok"
    (request,) = tools.requests
    assert request.arguments is None
    assert "not valid JSON" in request.error


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "add"}</tool_call>',
        "<think>so</think>[TOOL_CALLS]add{}",
        "<|python_tag|>add()",
        '{"name": "add", "parameters": {"a": 1}}',
        '```json\n{"name": "add", "arguments": {}}\n```',
        '<minimax:tool_call><invoke name="add"></invoke></minimax:tool_call>',
        "<|channel|>commentary to=functions.add <|message|>{}",
    ],
)
def test_a_call_that_is_only_text_is_said(text):
    outcome, _, _ = play(says(text))
    assert outcome.ending is Ending.ANSWER
    (note,) = outcome.notes
    assert "wrote a tool call as text" in note


@pytest.mark.parametrize("text", ['{"name": "Ada", "age": 36}', "To add, call add() <tool_call>"])
def test_an_answer_that_only_looks_like_a_call_is_an_answer(text):
    outcome, _, _ = play(says(text))
    assert outcome.notes == ()


def test_a_call_as_text_without_tools_is_an_answer():
    assert play_script([says("<tool_call>{}</tool_call>")]).outcome.notes == ()


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "content_filter: RECITATION"])
def test_filters_by_other_names(reason):
    outcome, _, _ = play(answers({"content": None}, finish_reason=reason))
    assert outcome.ending is Ending.REFUSED


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        {"finish_reason": "error"},  # Mistral's
        {"finish_reason": "insufficient_system_resource"},  # DeepSeek's
        {"finish_reason": None, "error": {"code": 502, "message": "Provider disconnected"}},  # OpenRouter's
    ],
)
def test_an_answer_that_the_endpoint_gave_up_is_asked_for_again(more, stream):
    if stream:
        broken = {"choices": [{"delta": {"content": "KNIME is"}, **more}]}
        given_up = Turn(body=f"data: {json.dumps(broken)}\n\ndata: [DONE]\n\n".encode())
    else:
        given_up = answers({"content": "KNIME is"}, **more)
    outcome, server, _ = play(given_up, says("KNIME is a platform."), stream=stream)
    assert outcome.text == "KNIME is a platform."
    assert len(server.requests) == 2


@pytest.mark.parametrize("reason", ["max_tokens", "MAX_TOKENS", "model_length"])
def test_token_limits_by_other_names(reason):
    outcome, _, _ = play(answers({"content": "KNIME is"}, finish_reason=reason))
    assert "cut off at the model's token limit" in outcome.notes[0]


@pytest.mark.parametrize(
    "usage", [{}, {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}]
)
def test_zeros_that_nobody_counted_are_no_tokens(usage):
    document = {"choices": [{"message": {"role": "assistant", "content": "Hi"}}], "usage": usage}
    outcome, _, _ = play(Turn(body=json.dumps(document).encode()))
    assert (outcome.usage.turns, outcome.usage.unreported) == (0, 1)


def test_a_megabyte_of_answer():
    text = "é😀 " * 300_000
    assert play(says(text))[0].text == text.strip()
