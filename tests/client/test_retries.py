"""What is sent again, and what never is."""

import logging
import socket
import threading

import pytest

from knime_mcp.tools import Limits, MCPClient, Timeouts
from knime_mcp.types.errors import ConnectError, MCPError
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    event,
    http,
    legacy,
    modern,
    rpc,
    rpc_error,
    stream,
    text,
    tool,
)

pytestmark = pytest.mark.quick


CLOSED = [Part.CLOSE]
CUT = [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", Part.CLOSE]
BROKEN = [CLOSED, [Part.RESET], CUT, http(500), http(502), http(503), http(408)]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_listing_is_repeated_after_an_outage(era, broken):
    with (
        ScriptedServer(era(tools__list=[broken, rpc({"tools": [tool()]})])) as server,
        MCPClient(server.url) as client,
    ):
        assert len(client.list_tools()) == 1
    assert server.methods.count("tools/list") == 2


@pytest.mark.parametrize("broken", BROKEN)
def test_a_call_that_may_have_run_is_never_repeated(era, broken):
    with (
        ScriptedServer(era(tools__call=[broken, rpc(text("again"))])) as server,
        MCPClient(server.url) as client,
        pytest.raises(ConnectError) as caught,
    ):
        client.call_tool("echo")
    assert caught.value.phase == "http"
    assert caught.value.fix
    assert caught.value.may_have_run
    assert server.methods.count("tools/call") == 1


@pytest.mark.parametrize(
    ("answer", "limit"),
    [
        ([Part.STALL], {}),
        (rpc(None), {}),
        (http(200, b"{nonsense"), {}),
        (rpc(text("x" * 5000)), {"result_bytes": 4000}),
    ],
    ids=["nothing in time", "no result", "no JSON", "too large"],
)
def test_what_may_have_run_although_there_is_no_result_says_so(era, answer, limit):
    with (
        ScriptedServer(era(tools__call=answer)) as server,
        MCPClient(server.url, timeouts=Timeouts(idle=0.5), limits=Limits(**limit)) as client,
        pytest.raises(MCPError) as caught,
    ):
        client.call_tool("echo")
    assert caught.value.may_have_run
    assert caught.value.at(row="Row1").may_have_run


@pytest.mark.parametrize("answer", [http(401), http(403), http(404), http(429), rpc_error(-32603)])
def test_what_the_server_refused_or_answered_has_not_run_unknown_to_us(era, answer):
    with (
        ScriptedServer(era(tools__call=answer)) as server,
        MCPClient(server.url, limits=Limits(attempts=1)) as client,
        pytest.raises(MCPError) as caught,
    ):
        client.call_tool("echo")
    assert not caught.value.may_have_run


def test_what_never_left_has_not_run(era):
    with ScriptedServer(era()) as server, MCPClient(server.url, timeouts=Timeouts(connect=0.5)) as client:
        client.connect()
        server._listener.close()
    with pytest.raises(MCPError) as caught:
        client.call_tool("echo")
    assert not caught.value.may_have_run


def test_a_call_that_was_turned_away_is_repeated_when_the_server_says(era):
    script = era(tools__call=[http(429, headers={"Retry-After": "1"}), rpc(text("ok"))])
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "ok"
    first, second = server.named("tools/call")
    assert second.at - first.at >= 1.0


@pytest.mark.parametrize(("other_tool", "attempts"), [("echo", 7), ("another", 3)])
def test_a_call_waits_for_its_turn_while_its_tool_answers_others(era, other_tool, attempts):
    def reply(request):
        if request.params["arguments"] or asked == 6:
            return rpc(text("done"))(request)
        return http(429, headers={"Retry-After": "0"})

    asked = 0

    def another_call():
        nonlocal asked
        asked += 1
        client.call_tool(other_tool, {"quick": True})

    with ScriptedServer(era(tools__call=reply)) as server, MCPClient(server.url) as client:
        if attempts == 7:
            assert client.call_tool("echo", on_attempt=another_call).text == "done"
        else:
            with pytest.raises(ConnectError, match="429"):
                client.call_tool("echo", on_attempt=another_call)
    assert asked == attempts


def test_a_pause_that_does_not_fit_is_not_made():
    script = modern(tools__call=http(429, headers={"Retry-After": "70"}))
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url, timeouts=Timeouts(total=60)) as client,
        pytest.raises(ConnectError, match="70 s") as caught,
    ):
        client.call_tool("echo")
    assert "429" in str(caught.value)
    assert server.methods.count("tools/call") == 1


def test_attempts_are_bounded():
    with (
        ScriptedServer(modern(tools__list=http(503))) as server,
        MCPClient(server.url, limits=Limits(attempts=2)) as client,
        pytest.raises(ConnectError, match="503"),
    ):
        client.list_tools()
    assert server.methods.count("tools/list") == 2


def test_json_rpc_errors_are_not_repeated():
    from knime_mcp.types.errors import ServerError

    with (
        ScriptedServer(modern(tools__list=rpc_error(-32603))) as server,
        MCPClient(server.url) as client,
        pytest.raises(ServerError),
    ):
        client.list_tools()
    assert server.methods.count("tools/list") == 1


def test_initialize_is_repeated_after_an_outage():
    script = legacy()
    script["initialize"] = [http(503), script["initialize"]]
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "hi"


def test_a_call_is_repeated_when_no_connection_could_be_made(caplog):
    caplog.set_level(logging.DEBUG, logger="knime_mcp.client.calling")
    with ScriptedServer(modern()) as server:
        client = MCPClient(server.url, timeouts=Timeouts(connect=0.5))
        client.connect()
    # The server is gone; nothing can have run. It comes back on another port only, so the attempts fail.
    with pytest.raises(ConnectError) as caught:
        client.call_tool("echo")
    client.close()
    assert caught.value.phase == "tcp"
    assert caplog.text.count("is repeated") > 1


def test_a_wrong_port_fails_at_once():
    with ScriptedServer() as server:
        pass
    steps = []
    with pytest.raises(ConnectError) as caught:
        MCPClient(server.url, limits=Limits(attempts=15), trace=steps.append).connect()
    assert caught.value.phase == "tcp"
    assert len([step for step in steps if step.what.startswith("connect to")]) == 1
    assert str(server.port) in str(caught.value)


def test_a_call_whose_stream_broke_is_not_repeated_when_resuming_finds_nobody():
    """The call has run, whatever became of the attempts to hear the rest of its reply."""
    opened = []

    def cut(request):
        server._listener.close()
        return [*stream(event("", id="1", retry=1))(request), Part.CLOSE]

    def come_back():
        opened.append(socket.create_server(("127.0.0.1", server.port)))

    with ScriptedServer(legacy(session="s", tools__call=cut)) as server:
        client = MCPClient(server.url, timeouts=Timeouts(idle=3))
        client.connect()
        later = threading.Timer(0.08, come_back)  # in time for a second attempt at the call
        later.start()
        try:
            with pytest.raises(ConnectError, match="could not be resumed"):
                client.call_tool("echo")
        finally:
            later.join()
            opened[0].close()
            client.close()


def test_a_question_that_cannot_be_answered_does_not_make_the_call_unsent():
    """The answer goes out under the clocks of the call, and its failure says nothing about the call."""
    sent = []

    def ask(request):
        server._listener.close()
        question = event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        return [*stream(question, end=False)(request), 0.3, Part.CLOSE]

    with (
        ScriptedServer(legacy(tools__call=ask)) as server,
        MCPClient(server.url, timeouts=Timeouts(total=10)) as client,
        pytest.raises(ConnectError, match="ended the stream"),
    ):
        client.call_tool("echo", on_attempt=lambda: sent.append(1))
    assert sent == [1]
