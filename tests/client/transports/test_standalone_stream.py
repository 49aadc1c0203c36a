"""The stream of the handshake era on which a server speaks unasked (GET, streamable HTTP)."""

import threading

import pytest

from knime_mcp.client.limits import Timeouts
from knime_mcp.client.protocol import events
from knime_mcp.tools import Limits, MCPClient
from knime_mcp.types.errors import Canceled, ResultTooLarge
from tests.client.logins import Renewing
from tests.support.scripted_server import (
    LEGACY,
    Part,
    ScriptedServer,
    event,
    http,
    initialize,
    legacy,
    notification,
    rpc,
    rpc_error,
    stream,
    text,
)
from tests.support.waiting import until

ASKED = {
    "jsonrpc": "2.0",
    "id": "q-1",
    "method": "elicitation/create",
    "params": {
        "message": "Who?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}},
    },
}
HELD = stream(Part.EVENTS, end=False)


def reader_threads():
    return [thread for thread in threading.enumerate() if thread.name == "knime-mcp-listen"]


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert reader_threads() == []


@pytest.mark.requirement("T9")
def test_a_question_on_the_stream_is_answered_while_the_call_waits():
    """The reply comes only after the answer, and the question only over a stream that stands."""
    answered = threading.Semaphore(0)

    def call(request):
        server.push(event(ASKED))

        def wait_for_answer(_):
            assert answered.acquire(timeout=30)
            return b""

        return [wait_for_answer, *rpc(text("thanks"))(request)]

    def take(request):
        answered.release()
        return http(202, content_type=None)

    script = legacy(session="s-1", tools__call=call, response=take, GET=HELD)
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url, elicitation="defaults", timeouts=Timeouts(total=10)) as client,
    ):
        assert client.call_tool("echo").text == "thanks"
        client.call_tool("echo")
        assert len(reader_threads()) == 1
    opened = server.named("GET")
    assert len(opened) == 1
    assert opened[0].headers["accept"] == "text/event-stream"
    assert opened[0].headers["mcp-session-id"] == "s-1"
    assert opened[0].headers["mcp-protocol-version"] == LEGACY
    assert "last-event-id" not in opened[0].headers
    answer = server.named("response")[0]
    assert answer.json == {
        "jsonrpc": "2.0",
        "id": "q-1",
        "result": {"action": "accept", "content": {"name": "x"}},
    }
    assert answer.headers["mcp-session-id"] == "s-1"
    order = server.methods
    assert order.index("notifications/initialized") < order.index("GET") < order.index("tools/call")
    assert order[-1] == "DELETE"


def test_progress_on_the_stream_finds_its_call_and_extends_its_patience():
    """Several SDKs send progress there unless they are told which request it belongs to."""
    heard = []

    def call(request):
        token = request.params["_meta"]["progressToken"]

        def report(step):
            def push(_):
                until(lambda: server.named("GET"))
                server.push(event(notification("notifications/progress", progressToken=token, progress=step)))
                return b""

            return push

        return [report(1), 0.4, report(2), 0.4, report(3), 0.4, *rpc(text("done"))(request)]

    script = legacy(session="s-1", tools__call=call, GET=HELD)
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url, timeouts=Timeouts(idle=1.0, total=10)) as client,
    ):
        result = client.call_tool("echo", on_progress=lambda progress: heard.append(progress.progress))
        assert result.text == "done"
        assert heard == [1.0, 2.0, 3.0]


def test_ping_on_the_stream_is_answered_between_calls():
    with ScriptedServer(legacy(session="s-1", GET=HELD)) as server, MCPClient(server.url) as client:
        client.call_tool("echo")
        until(lambda: server.named("GET"))
        server.push(event({"jsonrpc": "2.0", "id": 7, "method": "ping"}))
        server.push(event("no JSON at all"))
        server.push(event({"jsonrpc": "2.0", "id": 8, "method": "sampling/createMessage", "params": {}}))
        until(lambda: len(server.named("response")) == 2)
        assert client.call_tool("echo").text == "hi"
    answers = {answer.json["id"]: answer.json for answer in server.named("response")}  # in any order
    assert answers[7] == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert answers[8]["error"]["code"] == -32601


@pytest.mark.parametrize(
    "script",
    [
        legacy(session=None, GET=HELD),
        legacy(session="s-1", GET=http(405, content_type=None)),
    ],
)
def test_without_a_session_or_an_offer_there_is_no_stream(script):
    with ScriptedServer(script) as server, MCPClient(server.url, elicitation="decline") as client:
        for _ in range(3):
            assert client.call_tool("echo").text == "hi"
        until(lambda: not reader_threads())
    assert len(server.named("GET")) == (1 if "s-1" in str(server.requests[-1].headers) else 0)


def test_a_client_that_only_connects_opens_no_stream():
    with (
        ScriptedServer(legacy(session="s-1", GET=HELD)) as server,
        MCPClient(server.url, elicitation="defaults"),
    ):
        assert reader_threads() == []
    assert "GET" not in server.methods


def test_whoever_connects_for_one_request_opens_no_stream():
    for use in (MCPClient.list_tools, lambda client: client.call_tool("echo")):
        with ScriptedServer(legacy(session="s-1", GET=HELD)) as server, MCPClient(server.url) as client:
            use(client)
        assert "GET" not in server.methods


def test_the_first_call_does_not_wait_for_the_stream():
    with ScriptedServer(legacy(session="s-1", GET=HELD)) as server, MCPClient(server.url) as client:
        client.call_tool("echo")
        client.call_tool("echo")
        until(lambda: server.named("GET"))
    assert server.methods.index("GET") > server.methods.index("tools/call")


def test_a_listing_opens_the_stream_and_the_call_after_it_finds_it_standing():
    """A server may take a GET in the middle of a call for the resumption of the call's own stream."""
    script = legacy(session="s-1", GET=lambda request: [0.03, *HELD(request)])
    for _ in range(5):
        with ScriptedServer(script) as server, MCPClient(server.url) as client:
            client.list_tools()
            client.call_tool("echo")
        assert server.methods.index("GET") < server.methods.index("tools/call")


def test_a_stream_that_ends_is_opened_again_where_it_was_left():
    ids = [f"a-{number}" for number in range(2, 7)]
    silent = [stream(event("", id=each)) for each in ids]
    streams = [stream(event(notification("x"), id="a-1", retry=20)), *silent, HELD]
    script = legacy(session="s-1", GET=streams)
    with ScriptedServer(script) as server, MCPClient(server.url, elicitation="decline") as client:
        client.call_tool("echo")
        until(lambda: len(server.named("GET")) == len(streams))
        server.push(event({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
        until(lambda: server.named("response"))
    assert [get.headers.get("last-event-id") for get in server.named("GET")] == [None, "a-1", *ids]


@pytest.mark.parametrize(
    "reply",
    [
        http(409, content_type=None),
        [Part.CLOSE],
        stream(b": nothing\nretry: 1\n\n"),
    ],
)
def test_a_stream_that_never_says_anything_is_given_up(reply):
    script = legacy(session="s-1", GET=reply)
    with ScriptedServer(script) as server, MCPClient(server.url, elicitation="decline") as client:
        assert client.call_tool("echo").text == "hi"
        until(lambda: not reader_threads())
        assert len(server.named("GET")) == 2
        assert client.call_tool("echo").text == "hi"
        assert len(server.named("GET")) == 2


def test_401_on_the_stream_asks_nobody_to_log_in():
    auth = Renewing()
    script = legacy(session="s-1", GET=http(401, content_type=None))
    with ScriptedServer(script) as server, MCPClient(server.url, auth=auth, elicitation="decline") as client:
        assert client.call_tool("echo").text == "hi"
        until(lambda: not reader_threads())
    assert len(server.named("GET")) == 1
    assert auth.seen == []


@pytest.mark.parametrize("held", [HELD, [Part.STALL], stream(b": hello\n\n", Part.STALL, end=False)])
def test_close_wakes_the_reader_whatever_it_waits_for(held):
    with ScriptedServer(legacy(session="s-1", GET=held)) as server:
        client = MCPClient(server.url, elicitation="decline")
        client.call_tool("echo")
        assert len(reader_threads()) == 1
        client.close()
        assert reader_threads() == []
        assert server.disconnected.wait(30)
    assert server.methods[-1] == "DELETE"


def test_a_server_that_holds_the_headers_back_does_not_hold_the_call():
    script = legacy(session="s-1", GET=[Part.STALL])
    with ScriptedServer(script) as server, MCPClient(server.url, elicitation="decline") as client:
        assert client.call_tool("echo").text == "hi"
        with pytest.raises(Canceled):
            client.call_tool("echo", is_canceled=lambda: True)


def test_a_new_session_has_a_stream_of_its_own():
    calls = [rpc(text("one")), rpc_error(-32600, "Session not found", status=404), rpc(text("two"))]
    sessions = [initialize(session="s-1"), initialize(session="s-2")]
    script = legacy(initialize=sessions, tools__call=calls, GET=HELD)
    with ScriptedServer(script) as server, MCPClient(server.url, elicitation="decline") as client:
        client.call_tool("echo")
        assert client.call_tool("echo").text == "two"
        assert len(reader_threads()) == 1
    assert [get.headers["mcp-session-id"] for get in server.named("GET")] == ["s-1", "s-2"]


def test_the_client_may_be_closed_from_a_progress_callback():
    def call(request):
        token = request.params["_meta"]["progressToken"]

        def push(_):
            until(lambda: server.named("GET"))
            server.push(event(notification("notifications/progress", progressToken=token, progress=1)))
            return b""

        return [push, Part.STALL]

    script = legacy(session="s-1", tools__call=call, GET=HELD)
    with ScriptedServer(script) as server:
        client = MCPClient(server.url, timeouts=Timeouts(idle=5, total=5))
        ended = threading.Event()

        def close(_progress):
            client.close()
            ended.set()

        with pytest.raises(Exception, match="closed"):
            client.call_tool("echo", on_progress=close)
        assert ended.wait(30)
        until(lambda: not reader_threads())


def test_an_event_beyond_the_limit_does_not_end_the_stream():
    script = legacy(session="s-1", GET=HELD)
    limits = Limits(event_bytes=1000)
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url, elicitation="decline", limits=limits) as client,
    ):
        client.call_tool("echo")
        server.push(event(notification("notifications/message", data="x" * 5000)))
        server.push(event({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
        until(lambda: server.named("response"))
    assert len(server.named("GET")) == 1


def test_a_flood_on_the_stream_ends_it_and_is_the_reason_of_a_call_that_hears_nothing(monkeypatch):
    """An event without end in small chunks, which no message interrupts."""
    monkeypatch.setattr(events, "_MOST_DROPPED", 50_000)
    flood = [b"14\r\nxxxxxxxxxxxxxxxxxxxx\r\n" * 10_000] * 10
    script = legacy(
        session="s-1",
        tools__call=[rpc(text("hi")), [Part.STALL]],
        GET=lambda request: [*stream(b"data: ", end=False)(request), *flood, Part.STALL],
    )
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url, limits=Limits(event_bytes=100_000), timeouts=Timeouts(idle=0.5)) as client,
    ):
        assert client.call_tool("echo").text == "hi"
        until(lambda: server.named("GET") and not reader_threads())
        with pytest.raises(ResultTooLarge, match="an event of more than 100000 bytes") as caught:
            client.call_tool("echo")
    assert "KNIME_MCP_LIMITS='event_bytes=" in caught.value.fix
    assert caught.value.tool == "echo"


def test_a_flood_of_whole_messages_on_the_stream_ends_it():
    flood = event(notification("notifications/message", data="x")) * 200
    script = legacy(session="s-1", GET=lambda request: [*stream(flood, end=False)(request), Part.STALL])
    with ScriptedServer(script) as server, MCPClient(server.url, limits=Limits(events=100)) as client:
        assert client.call_tool("echo").text == "hi"
        until(lambda: server.named("GET") and not reader_threads())
        assert client.call_tool("echo").text == "hi"
    assert len(server.named("GET")) == 1
