"""Endpoints as people have them: each refuses something, and the run goes on.

The table in ``docs/agents.md`` is made of these cases: ``python -m tests.agents.model.test_endpoints`` writes
it.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from knime_mcp.agents import model_calls
from knime_mcp.agents.model.model_errors import Construct, retry_after
from knime_mcp.agents.model.openai_model import EndpointModel
from tests.agents.playing import QUESTION, Functions, play
from tests.support.chat_server import Turn, call, calls, fails, says

LOOKS = calls(call("look"))
TALKS = calls(call("look"), text="I look.")
SHOWS = calls(call("look"), call("show"))
LIMITED = {"token_limit": 6000}
PATIENT = {"longest_wait": 3.0}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An endpoint that refuses requests of a kind.

    Attributes:
        refuses: Whether it refuses the body of a request.
        asks: What the model says first.
        done: What is done, if that is no `Construct`.
        options, model: Of the run and of the model.
        keeps: What still has to be in the last request.
    """

    name: str
    seen: str
    refuses: Callable[[dict[str, Any]], bool]
    words: str
    status: int = 400
    done: Construct | str
    asks: Turn = LOOKS
    headers: tuple[tuple[str, str], ...] = ()
    messages: tuple[Any, ...] = QUESTION
    options: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    keeps: Callable[[dict[str, Any]], bool] = lambda body: True


def picture(size):
    return {"type": "image", "base64": base64.b64encode(bytes(size)).decode(), "mime_type": "image/png"}


def beside(body):
    """What stands beside calls."""
    return [m["content"] for m in body["messages"] if m.get("tool_calls")]


def images(body):
    listed = [m["content"] for m in body["messages"] if isinstance(m["content"], list)]
    return [len(json.dumps(block)) for blocks in listed for block in blocks if block["type"] != "text"]


def results(body):
    return [m["content"] for m in body["messages"] if m["role"] == "tool"]


def once(*_, left=2):
    """Refuses so many requests after the first, whatever is in them."""
    asked = []

    def refuses(body):
        asked.append(body)
        return 1 < len(asked) <= 1 + left

    return refuses


def is_blank(text):
    return isinstance(text, str) and not text.strip()


def limit(body):
    return body.get("max_completion_tokens") or body.get("max_tokens") or 0


ENDPOINTS = [
    Endpoint(
        name="LM Studio",
        seen="`content: null` beside calls",
        refuses=lambda body: None in beside(body),
        words="Invalid 'content': 'content' field must be a string or an array of objects.",
        done=Construct.NULL_BESIDE_CALLS,
    ),
    Endpoint(
        name="Zhipu",
        seen="`content: null` beside calls",
        refuses=lambda body: None in beside(body),
        words="messages 参数非法。请检查文档。",
        done=Construct.NULL_BESIDE_CALLS,
    ),
    Endpoint(
        name="templates of local servers",
        seen="`content: null` beside calls",
        refuses=lambda body: None in beside(body),
        words='Jinja template error: can only concatenate str (not "NoneType") to str',
        status=500,
        done=Construct.NULL_BESIDE_CALLS,
    ),
    Endpoint(
        name="llama-cpp-python",
        seen="`content: null` beside calls",
        refuses=lambda body: None in beside(body),
        words="body.messages.1.content: Input should be a valid string",
        status=422,
        done=Construct.NULL_BESIDE_CALLS,
    ),
    Endpoint(
        name="Claude behind OpenAI's form",
        seen="blanks beside calls",
        refuses=lambda body: any(map(is_blank, beside(body))),
        words="messages: text content blocks must contain non-whitespace text",
        done="`null` is sent",
        asks=calls(call("look"), text="\n\n"),
    ),
    Endpoint(
        name="gateways to Bedrock",
        seen="neither `null` nor blanks beside calls",
        refuses=lambda body: any(text is None or is_blank(text) for text in beside(body)),
        words="The text field in the ContentBlock object at messages.1.content.0 is blank.",
        done=Construct.EMPTY_BESIDE_CALLS,
    ),
    Endpoint(
        name="Mistral",
        seen="text beside calls",
        refuses=lambda body: any(beside(body)),
        words="Assistant message must have either content or tool_calls, but not both.",
        done=Construct.TEXT_BESIDE_CALLS,
        asks=TALKS,
    ),
    Endpoint(
        name="Mistral",
        seen="ids of calls of another form",
        refuses=lambda body: any(
            len(c["id"]) != 9 for m in body["messages"] for c in m.get("tool_calls", ())
        ),
        words="Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        done=Construct.CALL_IDS,
    ),
    Endpoint(
        name="Mistral",
        seen="the field `max_completion_tokens`",
        refuses=lambda body: "max_completion_tokens" in body,
        words='{"loc": ["body", "max_completion_tokens"], "msg": "Extra inputs are not permitted"}',
        status=422,
        done=Construct.LIMIT_FIELD,
        model=LIMITED,
        keeps=lambda body: body["max_tokens"] == 6000,
    ),
    Endpoint(
        name="OpenAI",
        seen="the field `max_tokens`",
        refuses=lambda body: "max_tokens" in body,
        words="Unsupported parameter: 'max_tokens' is not supported with this model. Use"
        " 'max_completion_tokens' instead.",
        done=Construct.LIMIT_FIELD,
        model={**LIMITED, "token_limit_field": "max_tokens"},
        keeps=lambda body: body["max_completion_tokens"] == 6000,
    ),
    Endpoint(
        name="vLLM",
        seen="a token limit that does not fit beside the conversation",
        refuses=lambda body: limit(body) > 5000,
        words="This model's maximum context length is 8192 tokens. However, you requested 6000 output tokens"
        " and your prompt contains at least 3192 input tokens, for a total of at least 9192 tokens.",
        done=Construct.LARGE_LIMIT,
        model=LIMITED,
        keeps=lambda body: limit(body) == 5000 and results(body) == ["a desk"],
    ),
    Endpoint(
        name="DeepSeek",
        seen="a token limit that is too high",
        refuses=lambda body: limit(body) > 4096,
        words="Invalid max_tokens value, the valid range of max_tokens is [1, 4096]",
        done=Construct.LARGE_LIMIT,
        model=LIMITED,
        keeps=lambda body: limit(body) > 1000,
    ),
    Endpoint(
        name="some gateways",
        seen="`tool_choice`",
        refuses=lambda body: "tool_choice" in body,
        words="Unrecognized request argument supplied: tool_choice",
        done=Construct.TOOL_CHOICE,
        keeps=lambda body: len(body["tools"]) == 2,
    ),
    Endpoint(
        name="llama.cpp",
        seen="streaming with tools",
        refuses=lambda body: body.get("stream", False),
        words="Cannot use tools with stream",
        status=500,
        done=Construct.STREAM,
        options={"stream": True},
    ),
    Endpoint(
        name="Mistral",
        seen="`stream_options`",
        refuses=lambda body: "stream_options" in body,
        words='{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}',
        status=422,
        done=Construct.STREAM,
        options={"stream": True},
    ),
    Endpoint(
        name="OpenAI, Groq",
        seen="more tools than it takes",
        refuses=lambda body: len(body["tools"]) > 1,
        words="Invalid 'tools': array too long. Expected an array with maximum length 1.",
        done="the model searches for tools",
    ),
    Endpoint(
        name="Claude behind OpenAI's form",
        seen="an image that is too large",
        refuses=lambda body: any(size > 300_000 for size in images(body)),
        words="messages.4.content.1.image.source.base64: image exceeds 5 MB maximum: 6133413 bytes",
        done=Construct.ONE_IMAGE,
        asks=SHOWS,
        keeps=lambda body: len(images(body)) == 1,
    ),
    Endpoint(
        name="OpenAI",
        seen="an image that it cannot read",
        refuses=lambda body: any(size > 300_000 for size in images(body)),
        words="You uploaded an unsupported image. Please make sure your image has one of the formats: png",
        done=Construct.ONE_IMAGE,
        asks=SHOWS,
        keeps=lambda body: len(images(body)) == 1,
    ),
    Endpoint(
        name="llama.cpp",
        seen="images, of a model without eyes",
        refuses=lambda body: bool(images(body)),
        words="image input is not supported - hint: you may need to provide the mmproj",
        status=500,
        done=Construct.IMAGES,
        asks=SHOWS,
    ),
    Endpoint(
        name="DeepSeek",
        seen="images, of a model without eyes",
        refuses=lambda body: bool(images(body)),
        words="messages[3]: unknown variant `image_url`, expected `text` at line 1 column 200",
        done=Construct.IMAGES,
        asks=SHOWS,
    ),
    Endpoint(
        name="OpenRouter",
        seen="images, of a model without eyes",
        refuses=lambda body: bool(images(body)),
        words="No endpoints found that support image input",
        status=404,
        done=Construct.IMAGES,
        asks=SHOWS,
    ),
    Endpoint(
        name="Groq",
        seen="thoughts that it gave itself",
        refuses=lambda body: any("reasoning" in m for m in body["messages"]),
        words="'messages.2' : property 'reasoning' is unsupported",
        done=Construct.THOUGHTS,
        asks=Turn(
            body=json.dumps(
                {"choices": [{"message": {"reasoning": "I look.", "tool_calls": [call("look", id="c")]}}]}
            ).encode()
        ),
    ),
    Endpoint(
        name="Gemma's template",
        seen="a system message",
        refuses=lambda body: body["messages"][0]["role"] == "system",
        words="System role not supported",
        done=Construct.SYSTEM,
    ),
    Endpoint(
        name="Mistral's and Gemma's templates",
        seen="two messages of the user, one after the other",
        refuses=lambda body: [m["role"] for m in body["messages"]][:3] == ["system", "user", "user"],
        words="Conversation roles must alternate user/assistant/user/assistant/...",
        status=500,
        done=Construct.ROLES,
        messages=(QUESTION[0], HumanMessage("Data: none."), QUESTION[1]),
    ),
    Endpoint(
        name="Claude",
        seen="a history that ends with the model",
        refuses=lambda body: body["messages"][-1]["role"] == "assistant",
        words="This model does not support assistant message prefill.",
        done="it is asked to go on",
        messages=(*QUESTION, AIMessage("A platform")),
    ),
    Endpoint(
        name="Bedrock, Cerebras",
        seen="429 with words about tokens",
        refuses=once(),
        words="Too many tokens, please wait before trying again.",
        status=429,
        done="waited for; the conversation is sent whole",
        options=PATIENT,
        keeps=lambda body: results(body) == ["a desk"],
    ),
    Endpoint(
        name="gateways to Bedrock",
        seen="a throttle with another status",
        refuses=once(),
        words="ThrottlingException: Too many tokens, please wait before trying again.",
        status=400,
        done="waited for; the conversation is sent whole",
        options=PATIENT,
        keeps=lambda body: results(body) == ["a desk"],
    ),
    Endpoint(
        name="Azure, gateways",
        seen="`Retry-After` of 0, below 0 or in the past",
        refuses=once(),
        words="Rate limit reached",
        status=429,
        headers=(("Retry-After", "0"),),
        done="waited for as without it: 0.5 s, and twice as long each time",
        options=PATIENT,
    ),
    Endpoint(
        name="llama.cpp",
        seen="503 *Loading model*",
        refuses=once(left=6),
        words="Loading model",
        status=503,
        done="waited for, within `--longest-wait`",
        options=PATIENT,
    ),
]


class Searched(Functions):
    """As a toolbox that has its tools searched offers fewer."""

    offered = None

    def definitions(self):
        return super().definitions()[: self.offered]

    def offer_at_most(self, count):
        self.offered, before = count, self.offered
        return self.offered != before


def problem_with(endpoint):
    def answer(request):
        if endpoint.refuses(request.body):
            return fails(endpoint.status, endpoint.words, headers=endpoint.headers)
        return says("ok") if results(request.body) else endpoint.asks

    shown = [picture(100), picture(300_000)]
    tools = Searched(look=lambda *_: "a desk", show=lambda *_: shown)
    asked = len(endpoint.asks.tool_calls) or 1
    outcome, server, *_ = play(
        [answer] * 16, tools, endpoint.messages, to_the_end=False, model=endpoint.model, **endpoint.options
    )
    if (outcome.text, server.complaints) != ("ok", []):
        return f"{outcome.text!r} {outcome.error} {server.complaints}"
    if len(tools.requests) != asked:
        return f"{len(tools.requests)} calls"
    last = server.requests[-1].body
    return None if endpoint.keeps(last) else f"sent at last: {json.dumps(last)[:600]}"


def test_a_run_goes_on_at_every_endpoint(monkeypatch):
    monkeypatch.setattr(model_calls, "_FIRST_WAIT", 0.01)
    problems = {f"{e.name}: {e.seen}": problem_with(e) for e in ENDPOINTS}
    assert {case: problem for case, problem in problems.items() if problem} == {}


def test_every_construct_has_an_endpoint_that_refuses_it():
    assert {endpoint.done for endpoint in ENDPOINTS} >= EndpointModel.changes


def table():
    """The table of the page for users."""
    rows = [(e.seen, e.name, e.done.value if isinstance(e.done, Construct) else e.done) for e in ENDPOINTS]
    where: dict[tuple[str, str], list[str]] = {}
    for seen, name, done in rows:
        where.setdefault((seen, done), []).append(name)
    yield "what is seen", "at", "what is done"
    yield from ((seen, ", ".join(names), done) for (seen, done), names in where.items())


SOON = pytest.approx(20, abs=5)


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "0"}, {}, 0.0),
        ({"retry-after": "0", "x-ratelimit-reset": "20"}, {}, 20.0),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-reset-requests": "20ms"}, {}, 0.02),
        (
            {
                "x-ratelimit-reset-tokens": "20s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "99",
            },
            {},
            20.0,
        ),
        ({"ratelimitbysize-reset": "20"}, {}, 20.0),
        ({"x-ratelimit-reset-tokens-minute": "20.5"}, {}, 20.5),
        ({"ratelimit-reset": "now + 20"}, {}, SOON),
        ({"x-ratelimit-reset": "now + 20 in ms"}, {}, SOON),
        ({"anthropic-ratelimit-tokens-reset": "now + 20 as a date"}, {}, SOON),
        ({}, {"error": {"metadata": {"headers": {"X-RateLimit-Reset": "now + 20 in ms"}}}}, SOON),
        ({}, {"error": {"metadata": {"retry_after_seconds": 20}}}, 20.0),
        ({}, {"error": "Model is currently loading", "estimated_time": 20.0}, 20.0),
        ({}, [{"error": {"details": [{"retryDelay": "20s"}]}}], 20.0),
        ({}, {"error": {"message": "Please retry after 20 seconds."}}, 20.0),
        ({}, {"error": {"message": "Please try again in 1 minute and 20 seconds"}}, 80.0),
        ({}, {"detail": "Request was throttled. Expected available in 20 seconds."}, 20.0),
        ({}, {"error": {"retryAfter": 20}}, 20.0),
        ({}, {"error": {"retryAfterMs": 20000}}, 20.0),
        ({}, {"error": {"resets_in_seconds": 20}}, 20.0),
        ({"x-retry-after": "20"}, {}, 20.0),
        ({"ratelimit": '"default";r=0;t=20'}, {}, 20.0),
        ({}, {"error": {"message": "Please wait 1 minute before the next request"}}, 60.0),
        ({}, {"error": {"message": "Too many tokens, please wait before trying again."}}, None),
        ({}, "Limit reached", None),
        ({}, {"error": {"code": 429, "limit": 3}}, None),
    ],
)
def test_how_long_to_wait_is_read_where_services_put_it(headers, body, seconds):
    now = datetime.now(UTC)
    then = now + timedelta(seconds=20)
    moments = {
        "now + 20 as a date": then.isoformat().replace("+00:00", "Z"),
        "now + 20 in ms": str(round(then.timestamp() * 1000)),
        "now + 20": str(round(then.timestamp())),
    }
    text = json.dumps([headers, body])
    for word, moment in moments.items():
        text = text.replace(f'"{word}"', f'"{moment}"')
    headers, body = json.loads(text)
    assert retry_after(headers, body) == seconds
