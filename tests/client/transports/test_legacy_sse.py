"""The old transport: a stream for replies, posts for requests."""

import threading

import pytest

from knime_mcp.client.protocol import events
from knime_mcp.tools import Limits, MCPClient, Progress, Timeouts
from knime_mcp.types.errors import Canceled, ResultTooLarge, SessionLost, TimedOut
from tests.support.scripted_server import (
    LEGACY,
    MODERN,
    Part,
    event,
    http,
    notification,
    stream,
    text,
)
from tests.support.sse_server import ACCEPTED, SseServer
from tests.support.waiting import until


class BrittleSseServer(SseServer):
    """Ends a stream, or never speaks on it again, once it was asked what it does not know."""

    def __init__(self, *, ends):
        super().__init__(GET=self._open)
        self._ends = ends
        self._lost = False
        self.streams = 0

    def _open(self, request):
        self.streams += 1
        self._lost = False
        head = event("/messages?session=1", name="endpoint")
        if self._ends and self.streams == 1:
            return stream(head, 0.2, Part.CLOSE, end=False)(request)
        return stream(head, Part.EVENTS, end=False)(request)

    def _post(self, request):
        self._lost = self._lost or request.rpc == "server/discover"
        return ACCEPTED if self._lost else super()._post(request)


@pytest.mark.parametrize("ends", [True, False])
def test_a_server_whose_stream_does_not_survive_the_probe_is_initialized_on_another_one(ends):
    # The official Python SDK 1.0 to 1.6 ends the stream on a method that it does not know.
    with (
        BrittleSseServer(ends=ends) as server,
        MCPClient(server.url, timeouts=Timeouts(connect=1.0, idle=5.0)) as client,
    ):
        assert client.server.protocol_version == LEGACY
        assert client.call_tool("echo", {}).text == "hi"
        assert server.streams == 2


@pytest.mark.requirement("T1")
@pytest.mark.parametrize("path", ["/sse", "/old"])
def test_a_server_of_the_old_transport_is_found_and_used(path):
    with SseServer(path=path) as server:
        with MCPClient(server.url) as client:
            assert client.server.transport == "sse"
            assert client.server.protocol_version == LEGACY
            assert [definition.name for definition in client.list_tools()] == ["echo"]
            assert client.call_tool("echo", {"a": 1}).text == "hi"
        assert server.disconnected.wait(30)
    posts = [request for request in server.requests if request.method == "POST" and request.target != path]
    assert [request.rpc for request in posts] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ]
    assert "DELETE" not in server.methods
    (get,) = server.named("GET")
    assert get.headers["accept"] == "text/event-stream"


def test_the_modern_era_may_come_over_the_old_transport():
    with (
        SseServer({"server/discover": {"supportedVersions": [MODERN], "capabilities": {}}}) as server,
        MCPClient(server.url) as client,
    ):
        assert (client.server.transport, client.server.protocol_version) == ("sse", MODERN)
        assert client.call_tool("echo").text == "hi"
    assert "io.modelcontextprotocol/protocolVersion" in server.requests[-1].params["_meta"]


def test_a_server_that_is_silent_to_what_it_does_not_know_is_initialized():
    with SseServer({"server/discover": lambda r: None}) as server:
        server.script["*"] = lambda r: ACCEPTED if r.rpc == "server/discover" else server._post(r)
        with MCPClient(server.url, timeouts=Timeouts(connect=0.4)) as client:
            assert client.server.protocol_version == LEGACY


def test_the_second_client_goes_straight_to_the_stream():
    with SseServer(path="/old") as server:
        for _ in range(2):
            with MCPClient(server.url) as client:
                client.call_tool("echo")
    first_get = server.methods.index("GET")
    assert server.methods[:first_get] == ["server/discover", "initialize"]
    assert server.methods.count("server/discover") == 2  # once by POST, once over the stream
    assert server.methods.count("GET") == 2


def test_requests_of_the_server_are_answered_even_when_no_call_waits():
    with SseServer() as server, MCPClient(server.url) as client:
        client.connect()
        server.push(event({"jsonrpc": "2.0", "id": "p", "method": "ping"}))
        until(lambda: server.named("response"))
    assert server.named("response")[0].json == {"jsonrpc": "2.0", "id": "p", "result": {}}


def test_a_request_is_answered_while_a_call_waits():
    def result(request):
        server.push(event({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}))

    with SseServer({"tools/call": result}) as server:
        waiting = server.script["*"]

        def post(request):
            reply = waiting(request)
            if request.rpc == "response":
                server.answer(server.named("tools/call")[0], text("after"))
            return reply

        server.script["*"] = post
        with MCPClient(server.url) as client:
            assert client.call_tool("echo").text == "after"
    assert server.named("response")[0].json["error"]["code"] == -32601


def test_progress_finds_its_call():
    def result(request):
        token = request.params["_meta"]["progressToken"]
        server.push(event(notification("notifications/progress", progressToken=token, progress=1, total=2)))
        server.push(event(notification("notifications/progress", progressToken="stranger", progress=1)))
        return text("ok")

    told = []
    with SseServer({"tools/call": result}) as server, MCPClient(server.url) as client:
        client.call_tool("echo", on_progress=told.append)
    assert told == [Progress(1.0, 2.0)]


def test_replies_find_their_calls_in_any_order():
    held = []
    lock = threading.Lock()

    def result(request):
        with lock:
            held.append(request)
            if len(held) == 5:
                for other in reversed(held):
                    server.answer(other, text(str(other.params["arguments"]["n"])))

    results = {}
    with SseServer({"tools/call": result}) as server, MCPClient(server.url) as client:
        client.connect()

        def work(n):
            results[n] = client.call_tool("echo", {"n": n}).text

        threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert results == {n: str(n) for n in range(5)}


def test_noise_on_the_stream_is_ignored():
    def result(request):
        for noise in (
            b": c\n\n",
            event("", id="1"),
            event("x", name="weird"),
            event("{no json"),
            event("[1]"),
        ):
            server.push(noise)
        server.push(event({"jsonrpc": "2.0", "id": 12345, "result": {}}))
        return text("ok")

    with SseServer({"tools/call": result}) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "ok"


def test_a_session_that_stays_lost_is_an_error():
    with SseServer() as server, MCPClient(server.url) as client:
        client.connect()
        good = server.script["*"]
        server.script["*"] = lambda r: http(404) if r.rpc == "tools/call" else good(r)
        with pytest.raises(SessionLost):
            client.call_tool("echo")


@pytest.mark.parametrize("discovered", [None, {"supportedVersions": [MODERN], "capabilities": {}}])
@pytest.mark.parametrize("error", [Canceled, TimedOut])
def test_cancel_and_timeout_are_told_in_both_eras(error, discovered):
    options = {
        Canceled: {"is_canceled": lambda: bool(server.named("tools/call"))},
        TimedOut: {"timeout": 1},
    }
    with SseServer({"tools/call": lambda r: None, "server/discover": discovered}) as server:
        with MCPClient(server.url) as client:
            with pytest.raises(error):
                client.call_tool("echo", **options[error])
            assert client.server
        (note,) = server.named("notifications/cancelled")
        assert note.params["requestId"] == server.named("tools/call")[0].json["id"]


def test_an_event_without_end_in_chunks_of_one_byte_ends_the_session(monkeypatch):
    monkeypatch.setattr(events, "_MOST_DROPPED", 50_000)

    def flood(_request):
        server.push(b"data: ")
        for _ in range(100_000):
            server.push(b"x")

    with (
        SseServer({"tools/call": flood}) as server,
        MCPClient(server.url, limits=Limits(event_bytes=10_000), timeouts=Timeouts(idle=30)) as client,
    ):
        with pytest.raises(ResultTooLarge, match="an event of more than 10000 bytes"):
            client.call_tool("echo")
        server.results["tools/call"] = text("hi")
        assert client.call_tool("echo").text == "hi"
