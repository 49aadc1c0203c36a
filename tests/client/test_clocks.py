"""The three clocks, cancel, and what a server learns of them. Bounds are generous: machines are slow at
times."""

import itertools
import socket
import threading
import time
from statistics import median

import h11
import pytest

from knime_mcp.client.clock import Wait, backoff
from knime_mcp.client.protocol.outcomes import Moment
from knime_mcp.client.transports.base import Delivery
from knime_mcp.client.transports.connections import Connections, HttpConnection
from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import Canceled, ConnectError, TimedOut
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    event,
    legacy,
    modern,
    notification,
    reply_event,
    rpc,
    stream,
    text,
)

STALL = [Part.STALL]
HALF_A_REPLY = [
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    Part.STALL,
]
HALF_A_REPLY_IN_CHUNKS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
SILENT_STREAM = stream(b": hello\n\n", Part.STALL)
STALLS = pytest.mark.parametrize(
    "stall", [STALL, HALF_A_REPLY, SILENT_STREAM], ids=["headers", "body", "stream"]
)


@STALLS
def test_silence_ends_at_the_idle_clock(era, stall):
    with (
        ScriptedServer(era(tools__call=stall)) as server,
        MCPClient(server.url, timeouts=Timeouts(idle=0.3)) as client,
    ):
        with pytest.raises(TimedOut) as caught:
            client.call_tool("echo")
        assert caught.value.kind == "idle"
        assert caught.value.tool == "echo"
        assert server.disconnected.wait(30)
        _assert_told(server, era)


@STALLS
def test_the_total_clock_of_a_call_wins(stall):
    with ScriptedServer(modern(tools__call=stall)) as server, MCPClient(server.url) as client:
        with pytest.raises(TimedOut) as caught:
            client.call_tool("echo", timeout=0.3)
        assert caught.value.kind == "total"
        assert "0.3 s" in str(caught.value)


@STALLS
def test_cancel_wakes_a_blocked_read(era, stall):
    def is_canceled():
        sent = server.named("tools/call")
        return bool(sent) and time.monotonic() > sent[0].at + 0.3

    with ScriptedServer(era(tools__call=stall)) as server, MCPClient(server.url) as client:
        with pytest.raises(Canceled):
            client.call_tool("echo", is_canceled=is_canceled)
        assert server.disconnected.wait(30)
        _assert_told(server, era)


def _assert_told(server, era):
    """In the handshake era by a notification, in the modern one by the closed stream alone."""
    told = server.named("notifications/cancelled")
    if era is modern:
        assert not told
    else:
        (request,) = server.named("tools/call")
        assert [note.params["requestId"] for note in told] == [request.json["id"]]


def test_what_is_canceled_asks_ends_the_wait_and_keeps_its_own_error():
    class StopError(Exception):
        pass

    def stop():
        raise StopError

    with (
        ScriptedServer(modern(tools__call=STALL)) as server,
        MCPClient(server.url) as client,
        pytest.raises(StopError),
    ):
        client.call_tool("echo", is_canceled=stop)


def test_is_canceled_is_asked_often_while_waiting():
    asked = []

    def ask():
        asked.append(time.monotonic())
        return len(asked) > 5

    with (
        ScriptedServer(modern(tools__call=STALL)) as server,
        MCPClient(server.url) as client,
        pytest.raises(Canceled),
    ):
        client.call_tool("echo", is_canceled=ask)
    assert median(b - a for a, b in itertools.pairwise(asked)) < 0.5  # a machine may be slow for once


def test_progress_extends_the_idle_clock():
    def reply(request):
        token = request.params["_meta"]["progressToken"]
        step = event(notification("notifications/progress", progressToken=token, progress=1))
        return stream(*[part for _ in range(6) for part in (0.3, step)], reply_event(text("done")))(request)

    with (
        ScriptedServer(modern(tools__call=reply)) as server,
        MCPClient(server.url, timeouts=Timeouts(idle=1.5)) as client,
    ):
        assert client.call_tool("echo").text == "done"


def test_progress_does_not_extend_the_total_clock():
    def reply(request):
        token = request.params["_meta"]["progressToken"]
        step = event(notification("notifications/progress", progressToken=token, progress=1))
        return stream(*[part for _ in range(100) for part in (0.05, step)])(request)

    with (
        ScriptedServer(modern(tools__call=reply)) as server,
        MCPClient(server.url) as client,
        pytest.raises(TimedOut) as caught,
    ):
        client.call_tool("echo", timeout=0.4)
    assert caught.value.kind == "total"


def test_keep_alive_comments_are_no_progress():
    comments = stream(*[part for _ in range(60) for part in (0.05, b": ping\n\n")])
    with (
        ScriptedServer(modern(tools__call=comments)) as server,
        MCPClient(server.url, timeouts=Timeouts(idle=0.4)) as client,
        pytest.raises(TimedOut) as caught,
    ):
        client.call_tool("echo")
    assert caught.value.kind == "idle"


def test_a_slow_drip_of_a_large_body_is_progress_until_the_total_clock():
    drip = [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
        *[part for _ in range(60) for part in (0.05, b" ")],
    ]
    with (
        ScriptedServer(modern(tools__call=drip)) as server,
        MCPClient(server.url, timeouts=Timeouts(idle=0.9, total=1.0)) as client,
        pytest.raises(TimedOut) as caught,
    ):
        client.call_tool("echo")
    assert caught.value.kind == "total"


def test_connecting_can_be_canceled_and_times_out():
    with ScriptedServer({"*": STALL}) as server:
        with pytest.raises(Canceled):
            MCPClient(server.url).connect(is_canceled=lambda: True)
        with pytest.raises(TimedOut) as caught:
            MCPClient(server.url, timeouts=Timeouts(idle=0.3)).connect()
    assert caught.value.kind == "idle"
    assert caught.value.server == server.url


def test_a_connection_that_is_never_accepted_ends_at_the_connect_clock():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        with pytest.raises((TimedOut, ConnectError)) as caught:
            MCPClient(f"http://127.0.0.1:{port}/mcp", timeouts=Timeouts(connect=0.4, idle=0.4)).connect()
        for filler in fillers:
            filler.close()
    assert getattr(caught.value, "kind", "connect") in {"connect", "idle"}


def test_closing_a_client_ends_the_calls_of_other_threads():
    failures = []
    with ScriptedServer(modern(tools__call=STALL)) as server:
        client = MCPClient(server.url)
        client.connect()

        def work():
            try:
                client.call_tool("echo")
            except ConnectError as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        while "tools/call" not in server.methods:
            time.sleep(0.01)
        client.close()
        thread.join(30)
        assert not thread.is_alive()
    assert len(failures) == 1


def test_many_threads_share_one_client():
    def reply(request):
        return rpc(text(str(request.params["arguments"]["n"])))(request)

    results = {}
    with ScriptedServer(legacy(session="s", tools__call=reply)) as server, MCPClient(server.url) as client:

        def work(start):
            for n in range(start, start + 20):
                results[n] = client.call_tool("echo", {"n": n}).text

        threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 160, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        ids = [request.json["id"] for request in server.named("tools/call")]
    assert results == {n: str(n) for n in range(160)}
    assert len(set(ids)) == 160
    assert server.methods.count("initialize") == 1


def test_of_many_threads_that_lost_the_session_one_opens_a_new_one():
    from tests.support.scripted_server import http, initialize

    script = legacy()
    script["initialize"] = [initialize(session="s-1"), initialize(session="s-2")]
    script["tools/call"] = lambda r: http(404) if r.headers["mcp-session-id"] == "s-1" else rpc(text("ok"))(r)
    results = []
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        barrier = threading.Barrier(6)

        def work():
            barrier.wait()
            results.append(client.call_tool("echo").text)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert results == ["ok"] * 6
    assert server.methods.count("initialize") == 2


def test_a_pause_obeys_the_clocks():
    Wait(Timeouts(idle=0.05)).sleep(0.2)  # does not count as silence of the server
    with pytest.raises(TimedOut):
        Wait(Timeouts(total=0.1)).sleep(60)
    with pytest.raises(Canceled):
        Wait(Timeouts(), is_canceled=lambda: True).sleep(60)


def test_backoff_grows_with_jitter_and_obeys_the_server():
    pauses = [backoff(attempt) for attempt in (1, 2, 3, 20)]
    assert all(0 < pause <= 8 for pause in pauses)
    assert backoff(3) != backoff(3)
    assert 2 <= backoff(1, retry_after=2) <= 2.25


def test_sending_is_not_silence_of_the_server():
    """A large request over a slow line takes longer than a server may be silent."""

    class Noting(Wait):
        resets = 0

        def reset_idle(self):
            self.resets += 1

    size = 5_000_000
    ours, theirs = socket.socketpair()
    wait, delivery = Noting(Timeouts()), Delivery()
    taken = []
    with ours, theirs:
        taker = threading.Thread(target=lambda: taken.append(_taken(theirs, size)))
        taker.start()
        HttpConnection(ours).send(_request(size), bytes(size), wait, delivery)
        taker.join(30)
    assert taken[0] > size
    assert wait.resets
    assert delivery.moment is Moment.SENT


def _request(size):
    headers = [("Host", "localhost"), ("Content-Length", str(size))]
    return h11.Request(method="POST", target="/", headers=headers)


def _taken(sock, size):
    """Reads head and body, and returns the number of bytes."""
    taken = bytearray()
    while (end := taken.find(b"\r\n\r\n")) < 0 or len(taken) < end + 4 + size:
        if not (data := sock.recv(65_536)):
            break
        taken += data
    return len(taken)


def test_what_follows_the_last_byte_of_a_request_is_not_undone_by_its_sending():
    """On a stream that all calls share the reply may be there before whoever sent the request goes on."""

    class Answered(socket.socket):
        def send(self, data):
            wait.hurry(0)
            return super().send(data)

    wait, delivery = Wait(Timeouts()), Delivery()
    ours, theirs = socket.socketpair()
    with Answered(fileno=ours.detach()) as answered, theirs:
        connection = HttpConnection(answered)
        connection.send(_request(1), b"x", wait, delivery)
        with pytest.raises(TimedOut):
            connection.receive(wait)
    assert delivery.moment is Moment.SENT


def test_head_and_body_of_a_request_leave_together():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        HttpConnection(ours).send(_request(4), b"body", Wait(Timeouts()), Delivery())
        assert theirs.recv(1000).endswith(b"\r\n\r\nbody")


def test_an_answer_is_read_although_the_request_was_refused_midway():
    """A server may say why it wants no more of a request, and close."""
    ours, theirs = socket.socketpair()
    wait, delivery = Wait(Timeouts()), Delivery()
    theirs.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    theirs.close()
    connections = Connections(lambda _: HttpConnection(ours))
    connection, status, headers = connections.exchange(_request(7), b"request", wait, delivery)
    assert status == 413
    assert delivery.moment is Moment.UNSENT
    connections.give_back(connection, headers)
    assert ours.fileno() < 0  # the rest of the request may still be under way
    connections.close()


@pytest.mark.parametrize("size", [1, 5_000_000])
def test_what_is_kept_for_the_time_of_the_server_is_done_once_when_all_was_sent(size):
    ours, theirs = socket.socketpair()
    wait, seen = Wait(Timeouts()), []
    delivery = Delivery(lambda: seen.append(delivery.moment))
    with ours, theirs:
        taker = threading.Thread(target=_taken, args=(theirs, size))
        taker.start()
        connection = HttpConnection(ours)
        connection.send(_request(size), bytes(size), wait, delivery)
        theirs.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n12")
        assert connection.receive(wait)[0] == 200
        assert connection.chunk(wait) == b"12"
        taker.join(30)
    assert seen == [Moment.SENT]
