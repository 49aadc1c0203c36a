"""Connections are kept for the next request, however many there are, and for no longer than is safe."""

import itertools
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import h11
import pytest

from knime_mcp.client.clock import Wait
from knime_mcp.client.network import Dialer
from knime_mcp.client.transports.base import Delivery
from knime_mcp.client.transports.http_channel import HttpChannel
from knime_mcp.tools import Limits, MCPClient, NetworkSettings, Timeouts
from knime_mcp.types.errors import ConnectError
from tests.support.scripted_server import Part, ScriptedServer, modern, rpc, text, tool

AT_ONCE = 40
CUT = [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", Part.CLOSE]


def test_forty_calls_at_once_use_forty_connections_again_and_again():
    together = threading.Barrier(AT_ONCE, timeout=30)

    def answer(request):
        together.wait()
        return b"".join(rpc(text("ok", resultType="complete"))(request))

    with (
        ScriptedServer(modern(tools__call=lambda _: [answer])) as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        for _ in range(3):
            calls = [threads.submit(client.call_tool, "echo", timeout=60) for _ in range(AT_ONCE)]
            assert all(call.result().text == "ok" for call in calls)
        assert server.connections == AT_ONCE


@pytest.mark.parametrize(
    ("said", "connections"),
    [("timeout=0", 4), ("max=100, TIMEOUT = 0", 4), ("timeout=60, max=1000", 1), ("whatever", 1)],
)
def test_a_connection_is_not_kept_for_as_long_as_the_server_keeps_it(said, connections):
    answer = rpc(text("ok", resultType="complete"), headers={"Keep-Alive": said})
    with ScriptedServer(modern(tools__call=answer)) as server, MCPClient(server.url) as client:
        for _ in range(4):
            assert client.call_tool("echo").text == "ok"
        assert server.connections == connections


@pytest.mark.parametrize("pause", [0.0, 0.002, 0.02])
def test_a_server_that_closes_after_each_reply_and_does_not_say_so_costs_no_call(era, pause):
    def closing(reply):
        return lambda request: [*(reply(request) if callable(reply) else reply), pause, Part.CLOSE]

    script = {method: closing(reply) for method, reply in era().items()}
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        client.list_tools()
        assert list(threads.map(lambda _: client.call_tool("echo").text, range(100))) == ["hi"] * 100
    assert server.methods.count("tools/call") == 100


@pytest.mark.parametrize("ending", [[Part.CLOSE], [Part.RESET]])
@pytest.mark.parametrize(
    ("hints", "calls"),
    [
        ({"readOnlyHint": True}, 2),
        ({"readOnlyHint": False, "idempotentHint": True}, 2),
        ({"readOnlyHint": False}, 1),
        (None, 1),
    ],
)
def test_a_call_that_crosses_the_end_of_a_kept_connection(era, ending, hints, calls):
    """It hardly ran, and the server says of some tools that it does not matter."""
    listed = rpc({"tools": [tool(annotations=hints)], "resultType": "complete"})
    answers = [ending, rpc(text("ok", resultType="complete"))]
    attempts = []
    with (
        ScriptedServer(era(tools__list=listed, tools__call=answers)) as server,
        MCPClient(server.url) as client,
    ):
        client.list_tools()
        if calls == 1:
            with pytest.raises(ConnectError, match="before it replied"):
                client.call_tool("echo")
        else:
            assert client.call_tool("echo", on_attempt=lambda: attempts.append(1)).text == "ok"
            assert len(attempts) == calls, "both are on record"
    assert len(server.named("tools/call")) == calls


@pytest.mark.parametrize(
    ("listing", "ending"),
    [({"Connection": "close"}, [Part.CLOSE]), ({}, CUT)],
    ids=["the connection is new", "the reply has begun"],
)
def test_a_call_that_did_run_is_not_sent_again_whatever_its_tool_says(listing, ending):
    tools = {"tools": [tool(annotations={"readOnlyHint": True})], "resultType": "complete"}
    script = modern(tools__list=rpc(tools, headers=listing), tools__call=[ending, rpc(text("again"))])
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.list_tools()
        with pytest.raises(ConnectError):
            client.call_tool("echo")
    assert len(server.named("tools/call")) == 1


def test_routers_are_told_that_a_call_is_still_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        with Dialer(NetworkSettings(), None).open(host, port, Wait(Timeouts())) as sock:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_closing_a_channel_closes_the_connections_from_before_a_redirect_to_https():
    channel = HttpChannel(
        "http://localhost/", authorization=None, headers={}, network=NetworkSettings(), limits=Limits()
    )
    before = channel._open_connections("http://localhost/")
    after = channel._open_connections("https://localhost/")
    assert channel._open_connections("https://localhost/") is after
    channel.close()
    request = h11.Request(method="GET", target="/", headers=[("Host", "localhost")])
    for connections in (before, after):
        with pytest.raises(ConnectError, match="client was closed"):
            connections.exchange(request, b"", Wait(Timeouts()), Delivery())


@pytest.fixture
def hectic():
    """Threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hectic")
@pytest.mark.parametrize("count", [300, pytest.param(1500, marks=pytest.mark.long)])
def test_cookies_of_many_replies_at_once_do_no_harm(count):
    numbers = itertools.count()

    def answer(request):
        number = next(numbers)
        cookie = f"c{number % 45}=x; path=/; Max-Age={number % 2 * 100}"
        return rpc(text("ok", resultType="complete"), headers={"Set-Cookie": cookie})(request)

    with (
        ScriptedServer(modern(tools__call=answer)) as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(16) as threads,
    ):
        calls = [threads.submit(client.call_tool, "echo", timeout=30) for _ in range(count)]
        assert all(call.result().text == "ok" for call in calls)
