"""Faults of the old transport (HTTP+SSE), where all calls share one stream."""

import threading
import time

import pytest

from knime_mcp.tools import Limits, MCPClient
from knime_mcp.types.errors import (
    ConnectError,
    MCPError,
    ProtocolError,
    ResultTooLarge,
    TimedOut,
)
from tests.faults.rows import BAD_ROWS, HURRIED, PATIENT, OldServer, run_rows
from tests.support.scripted_server import Part, event, http, notification, stream, text
from tests.support.sse_server import ACCEPTED

LIMITS = Limits(result_bytes=200_000, event_bytes=200_000)


def refused(status, body=b"", **headers):
    return lambda server, request: http(status, body, content_type="text/plain", headers=headers)


def pushed(make):
    """The POST is accepted; what is made goes onto the stream."""

    def fault(server, request):
        server.push(make(request))
        return ACCEPTED

    return fault


def answer(request, result, **more):
    return event({"jsonrpc": "2.0", "id": request.json["id"], "result": result, **more})


#: Name: what happens to a bad row, its error, words, and the clock that ends it.
ROW_FAULTS = {
    "accepted and forgotten": (pushed(lambda r: b": nothing\n\n"), TimedOut, "sent nothing", "idle"),
    "reply for another id": (
        pushed(lambda r: event({"jsonrpc": "2.0", "id": 10**9, "result": {}})),
        TimedOut,
        "sent nothing",
        "idle",
    ),
    "reply for an endless id": (
        pushed(lambda r: event({"jsonrpc": "2.0", "id": "9" * 9000, "result": {}})),
        TimedOut,
        "sent nothing",
        "idle",
    ),
    "reply for no id at all": (
        pushed(lambda r: event({"jsonrpc": "2.0", "id": [], "result": {}})),
        TimedOut,
        "sent nothing",
        "idle",
    ),
    "event that is no JSON": (pushed(lambda r: b"data: {\n\n"), TimedOut, "sent nothing", "idle"),
    "deep event": (pushed(lambda r: b"data: " + b"[" * 50_000 + b"\n\n"), TimedOut, "sent nothing", "idle"),
    "no object": (pushed(lambda r: b"data: [1]\n\n"), TimedOut, "sent nothing", "idle"),
    "post stalls": (lambda server, r: [Part.STALL], TimedOut, "sent nothing", "idle"),
    "post is closed": (lambda server, r: [Part.CLOSE], ConnectError, "before it replied", None),
    "post is refused": (refused(500, b"oops"), ConnectError, "500 Internal Server Error ('oops')", None),
    "post is answered by a page": (
        refused(403, b"<html><title>Forbidden</title>"),
        MCPError,
        "403",
        None,
    ),
    "503 that wants patience": (refused(503, **{"Retry-After": "3600"}), ConnectError, "3600 s", None),
    "redirect to another server": (
        lambda server, r: http(307, headers={"Location": "http://127.0.0.2:1/x"}),
        ConnectError,
        "leads to another server",
        None,
    ),
    "too large": (
        pushed(lambda r: answer(r, text("x" * 300_000))),
        ResultTooLarge,
        "an event of more than 200000 bytes",
        None,
    ),
    "too large, its id at the end": (
        pushed(lambda r: event({"result": text("x" * 300_000), "id": r.json["id"]})),
        ResultTooLarge,
        "an event of more than 200000 bytes",
        None,
    ),
}


def test_a_fault_of_one_call_leaves_the_others_alone(subtests):
    for name in ROW_FAULTS:
        with subtests.test(name=name):
            fault, kind, words, clock = ROW_FAULTS[name]
            timeouts = HURRIED[clock] if clock else PATIENT
            with (
                OldServer(fault) as server,
                MCPClient(server.url, timeouts=timeouts, limits=LIMITS) as client,
            ):
                assert client.server.transport == "sse"
                rows = run_rows(client)
            assert [row.number for row in rows if not row.good] == list(BAD_ROWS)
            for number in BAD_ROWS:
                assert isinstance(rows[number].outcome, kind)
                assert words in str(rows[number].outcome)


def test_the_second_of_two_replies_is_ignored():
    def twice(request):
        return answer(request, text("one")) + answer(request, text("two"))

    with OldServer(pushed(twice)) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        rows = run_rows(client)
    assert [rows[number].outcome.text for number in BAD_ROWS] == ["one", "one"]
    assert sum(row.good for row in rows) == len(rows) - len(BAD_ROWS)


def test_what_ends_the_stream_ends_the_calls_on_it_and_later_rows_get_a_new_one():
    def fault(server, request):
        server.end_stream()
        return ACCEPTED

    class Server(OldServer):
        def end_stream(self):
            self.push(b"")  # an empty chunk is the last one

    with Server(fault) as server, MCPClient(server.url, timeouts=PATIENT, limits=LIMITS) as client:
        rows = run_rows(client, rows=12, bad=(3,), in_flight=3)
        client.call_tool("echo", {"row": 12, "bad": False})  # row 3 may have been the last to be sent
    assert isinstance(rows[3].outcome, ConnectError)
    assert "closed its event stream" in str(rows[3].outcome)
    # Beside it only calls that were in flight with it, never later ones; each was sent once.
    failed = [row for row in rows if not row.good]
    assert len(failed) <= 3
    assert all(isinstance(row.outcome, ConnectError) for row in failed)
    assert len(server.named("tools/call")) == len(rows) + 1
    assert len(server.named("GET")) == 2


def test_an_event_too_large_for_nobody_in_particular_may_be_anybodys_reply():
    big = event({"jsonrpc": "2.0", "result": {}, "id": None, "x": "x" * 300_000})
    with (
        OldServer(pushed(lambda r: big)) as server,
        MCPClient(server.url, timeouts=PATIENT, limits=LIMITS) as client,
    ):
        rows = run_rows(client, rows=2, bad=(0,), in_flight=1)
        assert len(server.named("GET")) == 1
    assert isinstance(rows[0].outcome, ResultTooLarge)
    assert rows[1].good


def test_a_session_that_is_lost_is_opened_anew():
    lost = [True]

    def fault(server, request):
        if lost:
            lost.clear()
            return http(404, "Could not find session", content_type="text/plain")
        server.answer(request, text("row 2"))
        return ACCEPTED

    with OldServer(fault) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        rows = run_rows(client, rows=4, bad=(2,), in_flight=1)
    assert all(row.good for row in rows)


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("http://127.0.0.2:1/messages", "another server"),
        ("//other.example/messages", "another server"),
        ("http://[::1", "no usable URL"),
        ("/messages\x01", "no usable URL"),
        ("/" + "a" * 70_000, "no usable URL"),
        ("ftp://127.0.0.1/messages", "another server"),
    ],
)
def test_an_address_that_messages_must_not_go_to(endpoint, words):
    with OldServer(endpoint=endpoint) as server:
        client = MCPClient(server.url, transport="sse", timeouts=PATIENT, headers={"X-Key": "s3cret-s3cret"})
        with pytest.raises(ProtocolError, match=words):
            client.connect()
        assert [request.method for request in server.requests] == ["GET"]


@pytest.mark.parametrize(
    ("get", "kind", "words", "clock"),
    [
        (stream(b": hi\n\n", Part.STALL), TimedOut, "No event within .* proxy", "connect"),
        (stream(), ConnectError, "before it said where to post", None),
        (stream(event("x")), ConnectError, "before it said where to post", None),
        (stream(b"data: ", *[b"x" * 65536] * 10), ConnectError, "before it said where to post", None),
        (
            [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: x\n", Part.RESET],
            ConnectError,
            "before it said where to post",
            None,
        ),
        ([Part.CLOSE], ConnectError, "before it replied", None),
    ],
    ids=["stall", "empty", "other events", "too large", "reset", "close"],
)
def test_a_stream_that_never_stands(get, kind, words, clock):
    with OldServer(get=get) as server:
        timeouts = HURRIED[clock] if clock else PATIENT
        client = MCPClient(server.url, transport="sse", timeouts=timeouts, limits=LIMITS)
        with pytest.raises(kind, match=words):
            client.connect()


def test_a_large_reply_that_arrives_slowly_is_not_silence():
    def fault(server, request):
        data = answer(request, text("x" * 150_000))
        for start in range(0, len(data), 10_000):
            server.push(data[start : start + 10_000])
        return ACCEPTED

    class Slow(OldServer):
        def _send_events(self, sock):
            send = sock.sendall

            class Socket:
                def __getattr__(self, name):
                    return getattr(sock, name)

                def fileno(self):
                    return sock.fileno()

                def sendall(self, data):
                    if len(data) > 9_000:
                        time.sleep(0.1)
                    send(data)

            super()._send_events(Socket())

    with Slow(fault) as server, MCPClient(server.url, timeouts=HURRIED["idle"]) as client:
        rows = run_rows(client, rows=1, bad=(0,), in_flight=1)
    assert rows[0].outcome.text == "x" * 150_000


def test_a_flood_of_requests_from_the_server_does_not_keep_a_call_alive():
    def fault(server, request):
        for number in range(200):
            server.push(event({"jsonrpc": "2.0", "id": number, "method": "ping"}))
            server.push(event(notification("notifications/message", data="x")))
        return ACCEPTED

    with OldServer(fault) as server, MCPClient(server.url, timeouts=HURRIED["idle"]) as client:
        rows = run_rows(client, rows=1, bad=(0,), in_flight=1)
        assert isinstance(rows[0].outcome, TimedOut)


def test_events_that_are_no_messages_do_not_go_on_for_ever():
    def chatter(server, request):
        server.push(b"data: {not a message\n\n" * 10 + b"data: ping\n\n" * 10)
        return ACCEPTED

    refused = pytest.raises(ResultTooLarge, match="16 messages or lines, and no reply")
    with OldServer(chatter) as server, MCPClient(server.url, limits=Limits(events=15)) as client, refused:
        client.call_tool("bad", {"row": 0, "bad": True})


def test_a_post_that_fails_leaves_the_stream_to_the_others():
    """A listing is sent again over the same stream, on which other calls wait."""
    waiting = threading.Event()
    asked = []

    class Server(OldServer):
        dropped = 0

        def _post(self, request):
            if request.rpc == "tools/list" and not self.dropped:
                self.dropped = 1
                return [Part.CLOSE]
            return super()._post(request)

    def fault(server, request):
        asked.append(request)
        waiting.set()
        return ACCEPTED

    with Server(fault) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        client.connect()
        rows = []
        thread = threading.Thread(target=lambda: rows.extend(run_rows(client, rows=1, bad=(0,), in_flight=1)))
        thread.start()
        assert waiting.wait(30)
        assert [found.name for found in client.list_tools()] == ["echo"]
        server.answer(asked[0], text("late"))
        thread.join()
    assert rows[0].outcome.text == "late"
    assert len(server.named("GET")) == 1


def test_ids_are_never_used_again_not_even_in_a_new_session():
    """A reply that an old session left behind must find nobody."""
    with OldServer(refused(404)) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        rows = run_rows(client, rows=6, bad=(1, 3), in_flight=1)
    assert sum(row.good for row in rows) == 4
    assert len(server.named("GET")) > 2
    ids = [request.json["id"] for request in server.requests if request.json and "id" in request.json]
    assert len(set(ids)) == len(ids)


def test_those_who_wait_are_told_that_the_session_is_lost():
    """One call learns that the server knows the session no more; the others would wait for ever."""
    waiting = threading.Event()

    def fault(server, request):
        if request.params["arguments"]["row"] == 0:
            waiting.set()
            return ACCEPTED
        return http(404, "Could not find session", content_type="text/plain")

    class Server(OldServer):
        def _post(self, request):
            if len(self.named("GET")) > 1 and request.rpc == "tools/call":  # the second session is fine
                self.answer(request, text("row 1"))
                return ACCEPTED
            return super()._post(request)

    with Server(fault) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        client.connect()
        rows = []
        thread = threading.Thread(target=lambda: rows.extend(run_rows(client, rows=1, bad=(0,), in_flight=1)))
        thread.start()
        assert waiting.wait(30)
        assert client.call_tool("echo", {"row": 1, "bad": True}).text == "row 1"
        thread.join(30)
    assert isinstance(rows[0].outcome, ConnectError)
    assert "lost the session before it replied" in str(rows[0].outcome)
