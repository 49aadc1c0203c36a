"""What is sent where endpoints differ: images of tools, the order of roles, the system message."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from knime_mcp.agents.agent_events import Ending
from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.model_errors import Construct, ModelRequestRefused
from knime_mcp.agents.model_calls import MessageFitting
from tests.agents.playing import QUESTION, Functions, model_at, play
from tests.support.chat_server import ChatServer, call, calls, fails, says

pytestmark = pytest.mark.quick


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
TWO_OF_THE_USER = (SystemMessage("Be brief."), HumanMessage("Data: none."), HumanMessage("What is KNIME?"))


def in_turn(turn, status=400):
    """An endpoint like the templates of Mistral's and Google's open models."""

    def answer(request):
        roles = [message["role"] for message in request.messages if message["role"] != "system"]
        if any(a == b == "user" for a, b in pairwise(roles)):
            return fails(status, "Conversation roles must alternate user/assistant/user/assistant/...")
        return turn

    return answer


def no_user_after_tool(turn):
    """An endpoint like Mistral's."""

    def answer(request):
        roles = [message["role"] for message in request.messages]
        if ("tool", "user") in pairwise(roles):
            return fails(400, "Unexpected role 'user' after role 'tool'", "3230")
        return turn

    return answer


def test_images_of_tools_are_sent_as_the_users():
    history = [
        AIMessage("", tool_calls=[{"id": i, "name": "t", "args": {}} for i in "abc"]),
        ToolMessage([{"type": "text", "text": "one"}, PICTURE], tool_call_id="a"),
        ToolMessage(["two", {"type": "text", "text": "three"}], tool_call_id="b"),
        ToolMessage("four", tool_call_id="c"),
        HumanMessage("next"),
    ]
    shown = MessageFitting(set()).fit(history)
    assert [message.type for message in shown] == ["ai", "tool", "tool", "tool", "human", "human"]
    assert shown[2].content == "two\nthree"
    assert shown[4].content[1:] == [PICTURE]
    hidden = MessageFitting({Construct.IMAGES}).fit(history)
    assert [message.type for message in hidden] == ["ai", "tool", "tool", "tool", "human"]
    assert "left out" in hidden[1].content


@pytest.mark.parametrize("status", [400, 500])  # llama.cpp says 500
def test_messages_of_the_user_that_follow_one_another_are_joined(status):
    outcome, server, retries, _ = play([in_turn(says("A platform."), status)] * 2, messages=TWO_OF_THE_USER)
    assert outcome.text == "A platform."
    assert server.requests[-1].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Data: none.\n\nWhat is KNIME?"},
    ]
    assert len(retries) == 1
    assert [message.content for message in outcome.messages][:-1] == [m.content for m in TWO_OF_THE_USER]


def test_a_word_of_the_model_stands_between_images_of_tools_and_their_results():
    tools = Functions(draw=lambda *_: [PICTURE])
    answers = no_user_after_tool(calls(call("draw"))), no_user_after_tool(says("A dot."))
    outcome, server, retries, _ = play([answers[0], answers[1], answers[1]], tools)
    assert outcome.text == "A dot."
    assert [m["role"] for m in server.requests[-1].messages][-3:] == ["tool", "assistant", "user"]
    assert len(retries) == 1


def test_the_answer_at_the_limit_can_be_asked_for():
    tools = Functions(again=lambda *_: "more")
    asks, last = calls(call("again")), no_user_after_tool(says("42"))
    outcome, *_ = play([asks, asks, last, last], tools, iteration_limit=1, answer_at_limit=True)
    assert (outcome.ending, outcome.text) == (Ending.LIMIT, "42")


@pytest.mark.parametrize(
    "words",
    [
        "System role not supported",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    ],
)
def test_the_system_message_becomes_the_users_where_there_is_none(words):
    def strict(request):
        if request.messages[0]["role"] == "system":
            return fails(400, words)
        return in_turn(says("A platform."))(request)

    outcome, server, *_ = play([strict] * 2, messages=TWO_OF_THE_USER)
    assert outcome.text == "A platform."
    (sent,) = server.requests[-1].messages
    assert sent == {"role": "user", "content": "Be brief.\n\nData: none.\n\nWhat is KNIME?"}


def test_what_prompts_learn_at_the_same_time_fails_none_of_them():
    refused, both_sent = [], threading.Event()

    def strict(request):
        if request.messages[0]["role"] != "system":
            return says("A platform.")
        refused.append(request)
        if len(refused) == 2:
            both_sent.set()
        return fails(400, "System role not supported", hold=both_sent)

    with ChatServer([strict] * 4) as server:
        model = model_at(server)
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda _: run_agent(model, Functions(), QUESTION), range(2)))
    assert [outcome.text for outcome in outcomes] == ["A platform."] * 2
    assert len(server.requests) == 4


def test_of_a_request_with_too_many_bytes_the_new_image_goes():
    large = {"type": "image", "base64": "A" * 4000, "mime_type": "image/png"}
    small = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    tools = Functions(read=lambda *_: "a page " * 100, draw=lambda *_: [small], show=lambda *_: [large])

    def narrow(request):
        if len(request.raw) > 4000:
            return fails(413, "Request Entity Too Large")
        return says("ok") if "endpoint refused it" in str(request.messages) else calls(call("show"))

    first = calls(call("read"), call("draw"))
    outcome, server, *_ = play([first, narrow, narrow, narrow], tools)
    assert outcome.text == "ok"
    last = server.requests[-1].messages
    assert "a page" in last[3]["content"]
    assert [len(m["content"]) for m in last if isinstance(m["content"], list)] == [2]
    (note,) = outcome.notes
    assert "refused an image of 3" in note


def test_an_endpoint_that_refuses_all_orders_is_said():
    words = "Conversation roles must alternate user/assistant/user/assistant/..."
    outcome, server, *_ = play([fails(400, words)] * 2)
    assert isinstance(outcome.error, ModelRequestRefused)
    assert "must alternate" in str(outcome.error)
    assert len(server.requests) == 2


def of_user(*sizes):
    pictures = [{"type": "image", "base64": "A" * size, "mime_type": "image/png"} for size in sizes]
    return HumanMessage([{"type": "text", "text": "What is this?"}, *pictures])


def images_in(request):
    content = [m["content"] for m in request.messages if isinstance(m["content"], list)]
    return [block for blocks in content for block in blocks if block["type"] == "image_url"]


@pytest.mark.parametrize("status", [400, 413])
def test_of_a_users_images_only_the_one_that_is_refused_goes(status):
    def narrow(request):
        if any(len(str(image)) > 3000 for image in images_in(request)):
            return fails(status, "image exceeds 5 MB maximum")
        return says("A dot.")

    outcome, server, *_ = play([narrow] * 2, messages=[of_user(4, 4000, 8)])
    assert (outcome.text, len(images_in(server.requests[-1]))) == ("A dot.", 2)
    assert "What is this?" in str(server.requests[-1].messages)
    assert "refused an image of 3" in outcome.notes[0]


def test_a_model_without_eyes_answers_a_user_who_shows_images():
    def blind(request):
        return fails(400, "This model does not support image input") if images_in(request) else says("Blind.")

    outcome, server, *_ = play([blind] * 2, messages=[of_user(4)])
    assert outcome.text == "Blind."
    assert "left out because the model does not take images" in str(server.requests[-1].messages)
