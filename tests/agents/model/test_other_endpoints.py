"""Further endpoints of the kinds of `test_endpoints` and `test_strict_endpoints`, in other words."""

import json

import pytest
from langchain_core.messages import AIMessage

from knime_mcp.agents import model_calls
from knime_mcp.agents.answer_schema import AnswerSchema
from knime_mcp.agents.model.model_errors import (
    ContextTooLong,
    ModelBusy,
    ModelRequestRefused,
    context_in,
    status_error,
)
from knime_mcp.agents.model_messages import answer_of
from tests.agents.model.test_endpoints import (
    PATIENT,
    SHOWS,
    Endpoint,
    beside,
    images,
    is_blank,
    limit,
    once,
    problem_with,
    results,
)
from tests.agents.model.test_strict_endpoints import outcome_of
from tests.agents.playing import Functions, play
from tests.support.chat_server import Turn, call, calls, fails, says

LAST = {"iteration_limit": 1, "answer_at_limit": True}
FORM = {"type": "object", "properties": {"a": {"type": "string"}}}


def waits(status, words, **more):
    """An endpoint that is busy for two requests."""
    return {
        "refuses": once(),
        "words": words,
        "status": status,
        "options": PATIENT,
        "keeps": lambda body: results(body) == ["a desk"],
        **more,
    }


def refuses(check, words, **more):
    return {"refuses": check, "words": words, **more}


OTHERS = {
    "tokens of a minute": waits(
        429,
        "Rate limit reached for gpt-5 on input tokens per min (TPM): Limit 30000, Used 29000, Requested 4000",
    ),
    "a throttle with 400": waits(400, "Request rate limit exceeded for this context length tier"),
    "a full queue": waits(529, "Overloaded: the prompt queue is too long"),
    "a wait below 0": waits(429, "Please retry in 0s", headers=(("Retry-After", "-1"),)),
    "a model that is fetched": waits(503, "The model is being downloaded (12 %)", refuses=once(left=7)),
    "null by its place": refuses(
        lambda body: None in beside(body),
        "body -> messages -> 2 -> assistant -> content: str type expected",
        status=422,
    ),
    "null without a reason": refuses(lambda body: None in beside(body), "Bad Request"),
    "neither null nor blanks, without a reason": refuses(
        lambda body: any(text is None or is_blank(text) for text in beside(body)), "Invalid request."
    ),
    "text without a reason": refuses(
        lambda body: any(beside(body)), "Invalid request.", asks=calls(call("look"), text="I look.")
    ),
    "null and roles": refuses(
        lambda body: None in beside(body), "Expected `content` of message 2 to be a string, received null"
    ),
    "one image in a request": refuses(
        lambda body: len(images(body)) > 1,
        "At most 1 image(s) may be provided in one request.",
        asks=SHOWS,
    ),
    "images of so many bytes": refuses(
        lambda body: any(size > 100_000 for size in images(body)),
        "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 5313536 bytes > 5242880 bytes",
        asks=SHOWS,
    ),
    "a limit beside the prompt": refuses(
        lambda body: limit(body) > 192,
        "This model's maximum context length is 8192 tokens. However, you requested 14000 tokens (8000 in the"
        " messages, 6000 in the completion).",
        model={"token_limit": 6000},
    ),
    "a choice that must be left out": refuses(
        lambda body: "tool_choice" in body, "Unrecognized request argument supplied: tool_choice"
    ),
    "no stream with tools": refuses(
        lambda body: bool(body.get("stream")),
        "Streaming is not supported when tools are present",
        status=500,
        options={"stream": True},
    ),
    "a history that ends with the model": refuses(
        lambda body: body["messages"][-1]["role"] == "assistant",
        "Conversation must end with a user message.",
        messages=(*Endpoint.messages, AIMessage("A platform")),
    ),
}


def test_a_run_goes_on_whatever_the_words(monkeypatch):
    monkeypatch.setattr(model_calls, "_FIRST_WAIT", 0.01)
    problems = {
        name: problem_with(Endpoint(name=name, seen="", done="", **fields)) for name, fields in OTHERS.items()
    }
    assert {case: problem for case, problem in problems.items() if problem} == {}


def has(word, text):
    """An endpoint that refuses tools in whose schemas a word stands."""

    def refused(tools):
        found = [tool for tool in tools if f'"{word}"' in json.dumps(tool["function"].get("parameters", {}))]
        name = found[0]["function"]["name"] if found else ""
        return text.format(name=name, word=word) if found else ""

    return refused


STRICT = {
    "anyOf": "Unable to submit request because `{name}` functionDeclaration `parameters.a` schema specified"
    " other fields alongside any_of.",
    "$ref": "Error parsing tool schema: {word} is not supported",
    "maxLength": "Invalid arguments passed to the model.",
    "format": "Failed to compile json schema: unsupported {word}",
    "const": "tools.0.function.parameters: unsupported keyword {word}",
    "additionalProperties": 'Invalid JSON payload received. Unknown name "{word}" at'
    " 'tools[0].function_declarations[0].parameters': Cannot find field.",
    "minItems": "Function schema of {name} has an unsupported keyword: {word}",
}


def test_what_endpoints_say_of_schemas_in_other_words_costs_no_tool():
    part = {
        "anyOf": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "$ref": {"$ref": "#/$defs/b"},
        "maxLength": {"type": "string", "maxLength": 3},
        "format": {"type": "string", "format": "date-time"},
        "const": {"const": "x"},
        "additionalProperties": {"type": "string"},
        "minItems": {"type": "array", "minItems": 1, "items": {"type": "string"}},
    }
    wrong = {}
    for word, text in STRICT.items():
        schema = {"type": "object", "properties": {"a": part[word]}, "$defs": {"b": {"type": "string"}}}
        schema |= {"additionalProperties": False} if word == "additionalProperties" else {}
        if word != "$ref":
            del schema["$defs"]
        written = {"a": ["x"]} if word == "minItems" else {"a": "x"}
        for tools in (1, 45):
            outcome, made, more = outcome_of(has(word, text), schema, written, tools=tools)
            if outcome.error is not None or made != [written] or more > 2:
                wrong[word, tools] = (str(outcome.error), made, more)
    assert wrong == {}


@pytest.mark.parametrize(
    ("turns", "most", "options"),
    [
        ([], 2, {}),
        ([calls(call("look"))], 4, {}),
        ([calls(call("look"))] * 2, 6, LAST),
        ([calls(call("look"))] * 2, 8, {**LAST, "answer_schema": AnswerSchema(FORM)}),
    ],
)
def test_a_refusal_that_says_nothing_costs_few_requests(turns, most, options):
    """One more for tools that were not accepted before, two for what stands beside calls.

    In the last turn further ones for the other ways of asking for an answer.
    """
    for words in ("Bad Request", "Unprocessable Entity", "调用失败"):
        for status in (400, 422):
            tools = Functions(look=lambda *_: "a desk")
            refusals = [fails(status, words)] * 9
            outcome, server, *_ = play([*turns, *refusals], tools, to_the_end=False, **options)
            assert type(outcome.error) is ModelRequestRefused
            assert words in str(outcome.error)
            assert len(server.requests) <= most


@pytest.mark.parametrize(
    "said",
    [
        '<think budget="3">so</think>Hello',
        "<think >so</think >Hello",
        "<|think|>so<|/think|>Hello",
        "<thinking>so</thinking>Hello",
        "[think]so[/think]\nHello",
        "<reasoning_content>so</reasoning_content>Hello",
        "<internal_thoughts>so</internal_thoughts>Hello",
    ],
)
def test_thoughts_in_other_marks(said):
    assert answer_of(AIMessage(said)) == "Hello"


@pytest.mark.parametrize(
    "written",
    [
        "query_dataset<|tool_call_argument_begin|>",
        "query_dataset()",
        "functions/query_dataset",
        "<|call|>query_dataset",
        "query_dataset\n",
        '"query_dataset"',
        "tool_call:query_dataset",
    ],
)
def test_other_pieces_of_templates_in_names(written):
    functions = Functions(query_dataset=lambda _, __: "7 rows", list=lambda _, __: "")
    play([calls(call(written, {})), says("7")], functions)
    assert functions.requests[0].name == "query_dataset"


def test_a_call_that_cannot_be_read_stays_between_the_others():
    wanted = [call("look", {"n": 1}, "a"), call("look", '{"n": ', "b"), call("look", {"n": 3}, "c")]
    wanted[0]["extra_content"] = {"google": {"thought_signature": "s"}}
    outcome, server, *_ = play([calls(*wanted), says("ok")], Functions(look=lambda *_: "a desk"))
    [asked] = [m for m in server.requests[1].messages if m.get("tool_calls")]
    assert [each["id"] for each in asked["tool_calls"]] == ["a", "b", "c"]
    assert ["extra_content" in each for each in asked["tool_calls"]] == [True, False, False]
    assert outcome.text == "ok"


@pytest.mark.parametrize(
    ("message", "finish", "words"),
    [
        ({"content": "", "reasoning": "It is 42."}, "stop", ("reasoning", "It is 42.")),
        ({"content": None}, "UNEXPECTED_TOOL_CALL", ("UNEXPECTED_TOOL_CALL",)),
        ({"content": ""}, "other", ("other",)),
    ],
)
def test_an_empty_answer_says_why(message, finish, words):
    body = json.dumps({"choices": [{"message": message, "finish_reason": finish}]}).encode()
    outcome, *_ = play([Turn(body=body)] * 3, to_the_end=False)
    assert all(word in str(outcome.error) for word in words), str(outcome.error)


@pytest.mark.parametrize(
    ("words", "context"),
    [
        ("Requested token count exceeds the model's maximum context length of 4096 tokens", 4096),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", 4096),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("Prompt length of 5000 tokens exceeds the maximum of 4096", 4096),
        (
            "The number of tokens to keep from the initial prompt is greater than the context length."
            " Try to load the model with a larger context length",
            None,
        ),
        ("Input is too long for requested model.", None),
        ("The prompt (length 5000) does not fit in the context window of 4096", 4096),
    ],
)
def test_a_conversation_that_is_too_long_in_other_words(words, context):
    assert (type(status_error(400, words)), context_in(words)) == (ContextTooLong, context)
    assert type(status_error(429, words)) is ModelBusy
