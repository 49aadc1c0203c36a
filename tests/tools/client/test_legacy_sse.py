"""The old transport: a stream for replies, posts for requests."""

import json
import threading
import time

import pytest

from knime_mcp.tools import MCPClient, Progress, Timeouts
from knime_mcp.types.errors import Canceled, ConnectError, ProtocolError, SessionLost, TimedOut
from tests.support.scripted_server import (
    LEGACY,
    MODERN,
    Part,
    ScriptedServer,
    event,
    http,
    notification,
    stream,
    text,
    tool,
)
from tests.support.waiting import until

ACCEPTED = http(202, "Accepted", content_type="text/plain")


class SseServer(ScriptedServer):
    """A server of the old transport; results come over the stream."""

    def __init__(self, results=None, *, endpoint="/messages/?session_id=abc", path="/sse", **script):
        super().__init__(script, path=path)
        self.results = {"initialize": {"protocolVersion": LEGACY, "capabilities": {"tools": {}}}}
        self.results |= {"tools/list": {"tools": [tool()]}, "tools/call": text("hi"), **(results or {})}
        self.script.setdefault("GET", stream(event(endpoint, name="endpoint"), Part.EVENTS, end=False))
        self.script.setdefault("*", self._post)

    def _post(self, request):
        if request.target != "/messages/?session_id=abc":
            return http(405, "Method Not Allowed", content_type="text/plain")
        result = self.results.get(request.rpc)
        if callable(result):
            result = result(request)
        if result is not None:
            self.reply(request, result)
        elif "id" in request.json and request.rpc == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            self.push(event({"jsonrpc": "2.0", "id": request.json["id"], "error": error}, name="message"))
        return ACCEPTED

    def reply(self, request, result):
        self.push(event({"jsonrpc": "2.0", "id": request.json["id"], "result": result}, name="message"))


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
        head = event("/messages/?session_id=abc", name="endpoint")
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


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:1/messages", "https://other.example/x", "//evil.example/x"]
)
def test_an_endpoint_elsewhere_is_refused(endpoint):
    with SseServer(endpoint=endpoint) as server, pytest.raises(ProtocolError, match="another server"):
        MCPClient(server.url).connect()
    assert server.methods == ["GET"]


def test_a_stream_that_never_says_where_to_post():
    silent = stream(b": ping\n\n", Part.STALL)
    with ScriptedServer({"GET": silent, "*": http(405)}, path="/sse") as server:
        started = time.monotonic()
        with pytest.raises((TimedOut, ConnectError)):
            MCPClient(server.url, timeouts=Timeouts(connect=0.4)).connect()
        assert time.monotonic() - started < 30
        assert server.disconnected.wait(30)
    with (
        ScriptedServer({"GET": stream(b": bye\n\n"), "*": http(405)}, path="/sse") as server,
        pytest.raises(ConnectError, match="before it said where to post"),
    ):
        MCPClient(server.url, transport="sse").connect()


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
                server.reply(server.named("tools/call")[0], text("after"))
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
                    server.reply(other, text(str(other.params["arguments"]["n"])))

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


def test_a_stream_that_ends_fails_the_calls_and_the_next_one_reconnects():
    def result(request):
        server.push(b"")  # an empty chunk ends the body

    with SseServer({"tools/call": result}) as server, MCPClient(server.url) as client:
        with pytest.raises(ConnectError, match="closed its event stream"):
            client.call_tool("echo")
        server.results["tools/call"] = text("back")
        assert client.call_tool("echo").text == "back"
    assert server.methods.count("GET") == 2
    assert server.methods.count("tools/call") == 2  # the first one was not sent again: it may have run


def test_a_session_that_the_server_forgot_is_opened_anew():
    with SseServer() as server, MCPClient(server.url) as client:
        client.connect()
        good = server.script["*"]
        answers = [http(404, "Could not find session", content_type="text/plain")]
        server.script["*"] = lambda r: answers.pop() if r.rpc == "tools/call" and answers else good(r)
        assert client.call_tool("echo").text == "hi"
    assert server.methods.count("GET") == 2


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
    started = time.monotonic()
    options = {
        Canceled: {"is_canceled": lambda: time.monotonic() > started + 0.3},
        TimedOut: {"timeout": 0.3},
    }
    with SseServer({"tools/call": lambda r: None, "server/discover": discovered}) as server:
        with MCPClient(server.url) as client:
            with pytest.raises(error):
                client.call_tool("echo", **options[error])
            assert client.server
        (note,) = server.named("notifications/cancelled")
        assert note.params["requestId"] == server.named("tools/call")[0].json["id"]


def test_a_refused_post_is_the_error_of_its_call():
    with SseServer() as server, MCPClient(server.url) as client:
        client.connect()
        good = server.script["*"]
        refused = http(413, json.dumps({"error": "too large"}))
        server.script["*"] = lambda r: refused if r.rpc == "tools/call" else good(r)
        with pytest.raises(ConnectError, match="413"):
            client.call_tool("echo")


def test_nothing_is_left_behind():
    before = threading.active_count()
    with SseServer() as server:
        for _ in range(3):
            with MCPClient(server.url) as client:
                client.call_tool("echo")
    until(lambda: threading.active_count() <= before, "threads end")
