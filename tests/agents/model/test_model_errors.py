"""Errors as routers, gateways and local servers write them: told by their cause, not by their status."""

import json

import pytest
from langchain_core.messages import ToolMessage

from knime_mcp.agents.agent_events import Ending
from knime_mcp.agents.model.model_errors import (
    ContextTooLong,
    ModelAnswerInvalid,
    ModelLoginFailed,
    ModelRequestRefused,
)
from tests.agents.playing import Functions, play
from tests.support.chat_server import Turn, call, calls, fails, says

pytestmark = pytest.mark.quick


SCHEMA = {"type": "object"}


def passed_on(raw, status=400):
    """An error of the service behind OpenRouter."""
    metadata = {"raw": raw, "provider_name": "Somebody"}
    error = {"message": "Provider returned error", "code": status, "metadata": metadata}
    return Turn(status=status, error=error)


@pytest.mark.parametrize(
    ("raw", "kind", "words"),
    [
        (json.dumps({"error": {"message": "no such setting"}}), ModelRequestRefused, "no such setting"),
        (json.dumps({"message": "no such setting"}), ModelRequestRefused, "no such setting"),
        ({"error": {"message": "no such setting"}}, ModelRequestRefused, "no such setting"),
        ("no such setting", ModelRequestRefused, "no such setting"),
        ("", ModelRequestRefused, "Provider returned error"),
        ("[" * 100_000, ModelRequestRefused, "[[["),
        (7, ModelRequestRefused, "Provider returned error"),
        ('{"error":{"message":"maximum context length is 8192 tokens"}}', ContextTooLong, "8192"),
    ],
)
def test_the_words_of_the_service_behind_a_router(raw, kind, words):
    outcome, *_ = play([passed_on(raw)])
    assert type(outcome.error) is kind
    assert words in str(outcome.error)


def test_a_schema_that_the_service_behind_a_router_refuses_is_made_simpler():
    refused = passed_on(
        json.dumps({"error": {"message": "Invalid schema for function 'add': no properties"}})
    )
    outcome, server, *_ = play([refused, says("ok")], Functions({"add": SCHEMA}, add=lambda *_: "3"))
    assert outcome.text == "ok"
    sent = server.requests[-1].body["tools"][0]["function"]
    assert sent == {"name": "add", "description": "Does add."}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "No endpoints found that support tool use."),
        (500, "tools param requires --jinja flag"),
        (400, "registry.ollama.ai/library/gemma3:latest does not support tools"),
    ],
)
def test_a_model_without_tools_is_said_if_it_holds_to_no_form_either(status, words):
    outcome, server, *_ = play([fails(status, words), says("No.")], Functions(add=lambda *_: "3"))
    assert type(outcome.error) is ModelRequestRefused
    assert words.rstrip(".") in str(outcome.error)
    assert "Choose a model that can call tools" in str(outcome.error)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "words",
    [
        "API key not valid. Please pass a valid API key.",
        "Incorrect API key provided: ab***yz.",
        "API key expired. Please renew the API key.",
    ],
)
def test_a_wrong_key_is_a_wrong_key_at_every_service(words):
    outcome, *_ = play([fails(400, words)])
    assert type(outcome.error) is ModelLoginFailed
    assert "does not accept the credential (400)" in str(outcome.error)
    assert "ab***yz" not in str(outcome.error)


@pytest.mark.parametrize(
    "words", ["Failed to call a function. Please adjust your prompt.", "tool call validation failed"]
)
def test_a_call_that_the_endpoint_could_not_read_is_asked_for_again(words):
    failed = fails(400, words, "tool_use_failed")
    outcome, _, retries, _ = play(
        [failed, failed, calls(call("add")), says("3")], Functions(add=lambda *_: "3")
    )
    assert outcome.text == "3"
    assert [message.content for message in outcome.messages if isinstance(message, ToolMessage)] == ["3"]
    assert words.rstrip(".") in retries[0].reason
    outcome, *_ = play([failed] * 3)
    assert isinstance(outcome.error, ModelAnswerInvalid)


def test_a_prompt_that_a_routers_filter_refuses():
    outcome, *_ = play([fails(403, "Your chosen model requires moderation and your input was flagged")])
    assert outcome.ending is Ending.REFUSED
    assert "your input was flagged" in outcome.text


def test_an_answer_in_two_choices_is_one_answer():
    """Some gateways give text and calls of one answer as two choices."""
    text = {"message": {"role": "assistant", "content": "I add."}, "finish_reason": "tool_calls"}
    wanted = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    asks = {"message": {"role": "assistant", "tool_calls": [wanted]}, "finish_reason": "tool_calls"}
    tools = Functions(add=lambda *_: "3")
    outcome, *_ = play([Turn(body=json.dumps({"choices": [text, asks]}).encode()), says("3")], tools)
    assert outcome.text == "3"
    assert outcome.messages[2].content == "I add."
    assert [request.arguments for request in tools.requests] == [{"a": 1}]
