"""Servers that ask the person or the model of the client, in both eras and over both transports."""

import json
import threading
import time

import pytest

from knime_mcp.client.protocol.messages import RpcError
from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import Canceled, ServerError, TimedOut
from tests.client.child_servers import connected, in_background
from tests.support.scripted_server import (
    ScriptedServer,
    event,
    legacy,
    modern,
    reply_event,
    rpc,
    rpc_error,
    stream,
    text,
)
from tests.support.waiting import until

pytestmark = pytest.mark.quick


FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
LONGER_THAN_THE_CLOCKS = 1.5
SHORT = Timeouts(connect=5.0, idle=0.5, total=1.0)


def luca(params):
    assert params == FORM
    return {"action": "accept", "content": {"name": "Luca"}}


def slow(params):
    """Somebody who thinks longer than the server may be silent, and than the call may take."""
    time.sleep(LONGER_THAN_THE_CLOCKS)
    return luca(params)


def asks():
    return {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": FORM}


def test_the_clocks_stand_still_while_a_person_answers():
    def waits(request):
        def answered(_):
            until(lambda: server.named("response"))
            return b""

        asked, thanked = stream(event(asks()), end=False), stream(reply_event(text("thanks")))
        return [*asked(request), answered, *thanked(request)[1:]]

    with (
        ScriptedServer(legacy(session="s", tools__call=waits)) as server,
        MCPClient(server.url, elicitation=slow, timeouts=SHORT) as client,
    ):
        assert client.server.protocol_version == "2025-11-25"
        assert client.call_tool("echo").text == "thanks"
        until(lambda: server.named("response"))
    assert server.named("initialize")[0].params["capabilities"] == {"elicitation": {"form": {}, "url": {}}}
    (answer,) = server.named("response")
    assert answer.json == {"jsonrpc": "2.0", "id": 7, "result": luca(FORM)}


def test_a_modern_server_gets_the_answer_with_the_repeated_call():
    asked = {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "elicitation/create", "params": FORM}},
    }
    with (
        ScriptedServer(modern(tools__call=[rpc(asked), rpc(text("thanks"))])) as server,
        MCPClient(server.url, elicitation=slow, timeouts=SHORT) as client,
    ):
        assert client.call_tool("echo").text == "thanks"
    assert server.named("tools/call")[1].params["inputResponses"] == {"a": luca(FORM)}


def test_a_call_that_needs_a_page_first_is_made_again_once_it_was_opened():
    page = {"mode": "url", "message": "Log in", "url": "https://login.example.org", "elicitationId": "e"}
    needed = rpc_error(-32042, "Log in first", data={"elicitations": [page]})
    opened = []

    def open_it(params):
        opened.append(params["url"])
        return {"action": "accept" if len(opened) < 3 else "decline"}

    with (
        ScriptedServer(legacy(tools__call=[needed, rpc(text("in")), needed, needed])) as server,
        MCPClient(server.url, elicitation=open_it) as client,
    ):
        assert client.call_tool("echo").text == "in"
        with pytest.raises(ServerError, match="Log in first"):
            client.call_tool("echo")
    assert opened == ["https://login.example.org"] * 3
    assert len(server.named("tools/call")) == 4


def test_a_model_is_asked_over_a_pipe():
    def sampled(params):
        return {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m", **params}

    with connected("legacy", elicitation="decline", sampling=sampled) as client:
        answers = json.loads(client.call_tool("ask").text)
    assert answers["s-sampling/createMessage"]["content"] == {"type": "text", "text": "Hi"}
    assert answers["s-elicitation/create"] == {"action": "decline"}


def test_a_call_is_canceled_while_the_person_thinks():
    thinks, canceled = threading.Event(), threading.Event()

    def never(_params):
        canceled.set()
        assert thinks.wait(60)
        return {"action": "cancel"}

    with connected("legacy", elicitation=never) as client:
        thread, box = in_background(lambda: client.call_tool("ask", is_canceled=canceled.is_set))
        thread.join(60)
        thinks.set()
    assert isinstance(box[0], Canceled)


def test_a_server_that_is_silent_after_the_answer_times_out():
    silent = stream(event(asks()), 30.0)
    with (
        ScriptedServer(legacy(session="s", tools__call=silent)) as server,
        MCPClient(server.url, elicitation=luca, timeouts=SHORT) as client,
        pytest.raises(TimedOut),
    ):
        client.call_tool("echo")


@pytest.mark.parametrize(
    ("answerer", "code"),
    [(lambda _: 1 / 0, -32603), (lambda _: RpcError(-1, "The user does not want it"), -1)],
)
def test_a_question_without_an_answer_is_refused(answerer, code):
    with connected("legacy", sampling=answerer) as client:
        answers = json.loads(client.call_tool("ask").text)
    assert answers["s-sampling/createMessage"] == code


def test_a_flood_of_questions_does_not_ask_for_ever():
    gate = threading.Event()
    open_now = []

    def waiting(_params):
        open_now.append(1)
        assert gate.wait(60)
        return {"action": "decline"}

    questions = [event({**asks(), "id": number}) for number in range(1, 41)]
    flood = stream(*questions, 1.0, reply_event(text("done")))
    with (
        ScriptedServer(legacy(session="s", tools__call=flood)) as server,
        MCPClient(server.url, elicitation=waiting) as client,
    ):
        assert client.call_tool("echo").text == "done"
        until(lambda: len(server.named("response")) >= 32)
        gate.set()
        until(lambda: len(server.named("response")) == 40)
    assert len(open_now) == 8
