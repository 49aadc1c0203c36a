"""The prompts that servers offer in the chat's view, with the official SDK's server."""

import pytest

from tests.support import peers
from tests.support.chat_server import call, calls, says


@pytest.fixture(scope="module")
def asking():
    with peers.running(peers.asking()) as server:
        yield server.url("/mcp")


def test_a_prompt_is_listed_filled_in_and_asked(chat, script, tools_of, asking, executed, rows_of):
    model = script(says("Dear Ada"), says("Dear Bob"))
    page = chat(model, tools_of(asking))
    (listed,) = page.call("prompts")["prompts"]
    assert (listed["name"], listed["server"]) == ("letter", asking)
    assert [(a["name"], a["is_required"]) for a in listed["arguments"]] == [("to", True), ("tone", False)]
    assert "needs to" in page.call("ask_prompt", 0, {"tone": "short"})
    assert page.call("ask_prompt", 0, {"to": "Ada", "tone": "short"}) is None
    page.done()
    assert page.of("question")[0]["text"] == "Write a short letter to Ada."
    assert page.of("answer")[-1]["text"] == "Dear Ada"
    page.call("undo")
    page.call("ask_prompt", 0, {"to": "Bob"})
    page.done()
    said = [m["content"] for m in model.requests[1].messages if m["role"] == "user"]
    assert said == ["Write a friendly letter to Bob."]
    assert len(rows_of(executed(model, view_data=page.hand_on()), 0)) == 2


def test_a_prompt_of_an_untrusted_server_counts_for_rules(chat, script, tools_of, asking):
    model = script(calls(call("notes")), says("I may not."))
    page = chat(model, tools_of(asking), rules="deny notes if after-untrusted\nallow *")
    page.call("prompts")
    page.call("ask_prompt", 0, {"to": "Ada"})
    page.done()
    assert [event["status"] for event in page.of("result")] == ["denied"]


def test_a_server_that_is_gone_is_named(chat, script, tools_of, asking):
    with peers.running(peers.asking()) as server:
        tools = tools_of(asking, server.url("/mcp"))
    page = chat(script(), tools)
    listed = page.call("prompts")
    assert [prompt["server"] for prompt in listed["prompts"]] == [asking]
    (problem,) = listed["problems"]
    assert server.url("/mcp") in problem
