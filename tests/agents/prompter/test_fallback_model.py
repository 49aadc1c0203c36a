"""A second model goes on where the first one fails: which one answered is on record."""

import json

import pytest

from tests.support.chat_server import call, calls, fails, says


@pytest.fixture
def ask_two(host, script, tmp_path):
    """Asks a model with a fallback at another place; both play a script."""

    def run(first, second, tools=None, **parameters):
        models = script(*first), script(*second, models=["second"])
        settings = {
            "base_url": models[0].url,
            "model_name": "test-model",
            "fallback_model": "second",
            "fallback_base_url": models[1].url,
        }
        connected = host.run("openai_compatible_chat_model", [], settings)
        assert connected.ok, connected.failure
        port = host.port_object(connected.outputs[0])
        result = host.run(
            "mcp_agent_prompter",
            [port, tools, None, [], None],
            {"user_message": "What?", **parameters},
            workflow_dir=tmp_path,
            output_groups={"Data outputs": 1},
        )
        return result, models

    return run


def turns_of(folder):
    (journal,) = folder.glob("data/mcp-audit/*.jsonl")
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return [line.get("model", "the first") for line in lines if line["kind"] == "turn"]


def test_the_fallback_goes_on_with_the_conversation(ask_two, tools_of, servers, rows_of, tmp_path):
    first = [calls(call("add", {"a": 1, "b": 2})), fails(401, "expired")]
    result, (_, second) = ask_two(first, [says("It is 3.")], tools_of(servers[0].url("/one")))
    assert rows_of(result, 2)[0]["Answer"] == "It is 3."
    assert [message["role"] for message in second.requests[0].messages][1:] == ["user", "assistant", "tool"]
    assert "test-model failed, so second answered" in " ".join(result.warnings)
    assert turns_of(tmp_path) == ["the first", "second"]


def test_one_that_asks_to_wait_for_too_long_is_not_waited_for(ask_two, rows_of):
    limited = fails(429, "slow down", headers=(("Retry-After", "600"),))
    result, _ = ask_two([limited], [says("Here.")], longest_wait=5.0)
    assert rows_of(result, 2)[0]["Answer"] == "Here."


def test_if_both_fail_the_error_is_that_of_the_second(ask_two):
    result, (_, second) = ask_two([fails(401)], [fails(401)])
    assert second.url in result.failure["message"]


def test_what_a_filter_refused_is_not_asked_elsewhere(ask_two):
    _, (_, second) = ask_two([fails(400, "no", "content_filter")], [])
    assert second.requests == []
