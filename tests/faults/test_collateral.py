"""What goes wrong with one row must not cost the rows beside it."""

import gc
import socket
import threading
import traceback
import weakref

import pytest

from knime_mcp.tools import Limits, MCPClient, Timeouts
from knime_mcp.types.errors import ConnectError, ProtocolError, ResultTooLarge, SessionLost
from tests.faults.rows import PATIENT, OldServer, good_reply, run_rows
from tests.support.scripted_server import (
    LEGACY,
    Part,
    ScriptedServer,
    event,
    http,
    initialize,
    legacy,
    modern,
    notification,
    stream,
)

GONE = http(404, "Session not found", content_type="text/plain")
QUESTIONS = 40


@pytest.mark.parametrize("form", ["json", "sse"])
def test_a_connection_that_is_out_of_step_costs_one_row(form):
    """A reply comes a second time, when the next request is under way: all later replies would be late."""
    good = good_reply(f"modern-{form}")
    replies = []

    def call(request):
        replies.append(good(request))
        return [*replies[0], 0.2, *replies[1]] if len(replies) == 2 else replies[-1]

    with ScriptedServer(modern(tools__call=call)) as server, MCPClient(server.url) as client:
        rows = run_rows(client, rows=5, bad=(), in_flight=1)
    assert [row.number for row in rows if not row.good] == [1]
    assert isinstance(rows[1].outcome, ProtocolError | ConnectError)


def test_a_session_that_cannot_be_opened_anew_does_not_end_calls_under_way():
    is_slow, go_on = threading.Event(), threading.Event()
    good = good_reply("legacy-json")
    sessions = ["s0"]

    def begin(request):
        return initialize(session=sessions.pop())(request) if sessions else [Part.CLOSE]

    def wait_for_the_others(_request):
        is_slow.set()
        assert go_on.wait(30)
        return b""

    def call(request):
        if request.params["arguments"]["row"] == 0:
            return [wait_for_the_others, *good(request)]
        return GONE if request.headers["mcp-session-id"] == "s0" else good(request)

    script = legacy(tools__call=call) | {"initialize": begin}
    found = []
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        thread = threading.Thread(target=lambda: found.append(run_rows(client, rows=1, bad=())[0].good))
        thread.start()
        assert is_slow.wait(30)
        for _ in range(2):
            with pytest.raises(ConnectError, match="before it replied"):
                client.call_tool("echo", {"row": 1, "bad": False})
        go_on.set()  # there is no session now; the reply to what was asked before is heard all the same
        thread.join(30)
        assert found == [True]
        assert client.server.protocol_version == LEGACY
        sessions.append("s1")
        assert client.call_tool("echo", {"row": 1, "bad": False}).text == "row 1"


def test_sessions_that_are_lost_again_before_they_serve():
    """A second server behind the address, or a second restart, may know nothing of the new session either."""
    good = good_reply("legacy-json")
    opened = iter(range(100))
    script = legacy(tools__call=lambda r: good(r) if r.headers["mcp-session-id"] == "s2" else GONE)
    script["initialize"] = lambda request: initialize(session=f"s{next(opened)}")(request)
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        rows = run_rows(client, rows=1, bad=())
    assert rows[0].good


def test_a_session_that_is_lost_again_and_again_says_so():
    with (
        ScriptedServer(legacy(session="s", tools__call=GONE)) as server,
        MCPClient(server.url) as client,
        pytest.raises(SessionLost) as caught,
    ):
        client.call_tool("echo")
    assert "lost the session 3 times during one call" in str(caught.value)
    assert "several servers" in str(caught.value)
    assert "path" not in caught.value.fix
    assert server.methods.count("initialize") == 3


def test_a_refusal_that_only_looks_like_a_lost_session_is_shown():
    refusal = http(400, "Missing field session_name", content_type="text/plain")
    with (
        ScriptedServer(legacy(session="s", tools__call=refusal)) as server,
        MCPClient(server.url) as client,
        pytest.raises(SessionLost, match="400 text/plain 'Missing field session_name'"),
    ):
        client.call_tool("echo")


def test_sessions_that_others_have_lost_cost_a_row_none_of_its_attempts():
    """Each session ends with a bad row; the good one waits in it until there is a new one."""
    sessions = [f"s{number}" for number in range(6)]
    begun = {session: threading.Event() for session in sessions}
    entered = {session: threading.Event() for session in sessions}
    good = good_reply("legacy-json")
    following = iter(sessions)

    def begin(request):
        session = next(following)
        begun[session].set()
        return initialize(session=session)(request)

    def call(request):
        session = request.headers["mcp-session-id"]
        if request.params["arguments"]["bad"]:
            return [after(entered[session]), *GONE]
        entered[session].set()
        if session == sessions[-1]:
            return good(request)
        return [after(begun[sessions[sessions.index(session) + 1]]), *GONE]

    def after(happened):
        return lambda _: b"" if happened.wait(30) else b"late"

    script = legacy(tools__call=call) | {"initialize": begin}
    found = []
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        thread = threading.Thread(target=lambda: found.extend(run_rows(client, rows=1, bad=())))
        thread.start()
        assert entered["s0"].wait(30)
        for _ in range(2):
            with pytest.raises(SessionLost):
                client.call_tool("echo", {"row": 1, "bad": True})
        thread.join(60)
    assert found
    assert found[0].good


def test_an_outage_leaves_a_lost_session_its_attempts():
    good, busy = good_reply("legacy-json"), http(429, headers={"Retry-After": "0"})
    replies = [busy, GONE, busy, GONE, good]

    def call(request):
        reply = replies.pop(0)
        return reply(request) if callable(reply) else reply

    with ScriptedServer(legacy(session="s", tools__call=call)) as server, MCPClient(server.url) as client:
        rows = run_rows(client, rows=1, bad=())
    assert rows[0].good


def test_a_restart_of_an_old_server_is_waited_for():
    """Its stream ends with it, so that whoever comes meanwhile has to connect before anything can be sent."""
    first, second = OldServer(), OldServer()
    client = MCPClient(first.url, timeouts=PATIENT, transport="sse", limits=Limits(attempts=6))
    with first:
        assert run_rows(client, rows=1, bad=())[0].good
    second._listener.close()

    def come_back():
        second._listener = socket.create_server(("127.0.0.1", first.port))
        second.__enter__()

    timer = threading.Timer(0.1, come_back)
    timer.start()
    with client:
        rows = run_rows(client, rows=4, bad=())
    timer.join()
    second.__exit__()
    assert all(row.good for row in rows), [str(row.outcome) for row in rows]


def test_answers_that_nobody_takes_do_not_stop_the_one_stream():
    """The server asks, and does not take the answers: the replies come all the same."""

    class Asking(OldServer):
        def _post(self, request):
            if request.rpc == "response":
                return [Part.STALL]
            if request.rpc == "tools/call":
                self.push(event({"jsonrpc": "2.0", "id": f"ping {request.json['id']}", "method": "ping"}))
            return super()._post(request)

    with Asking() as server, MCPClient(server.url, timeouts=Timeouts(idle=3)) as client:
        assert all(row.good for row in run_rows(client, rows=QUESTIONS, bad=()))


def test_answers_that_nobody_takes_do_not_stop_the_servers_own_stream():
    """Progress comes by that stream, and keeps calls alive that take long."""
    good = good_reply("legacy-json")

    def call(request):
        token = request.params["_meta"]["progressToken"]
        server.push(event({"jsonrpc": "2.0", "id": "p", "method": "ping"}))
        for step in range(8):
            progress = notification("notifications/progress", progressToken=token, progress=step)
            server.push(event(progress))
        return [1.0, *good(request)]

    heard = []
    opened = stream(Part.EVENTS, end=False)
    script = legacy(session="s", tools__call=call, GET=opened, response=[Part.STALL])
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        assert client.call_tool("echo", {"row": 1}, on_progress=heard.append).text == "row 1"
    assert [progress.progress for progress in heard] == list(range(8))


def test_an_error_keeps_neither_the_reply_nor_itself_alive():
    """Replies that were too large, kept until the next garbage collection, are what fills the memory."""
    large = http(200, b" " * 300_000)
    with (
        ScriptedServer(modern(tools__call=large)) as server,
        MCPClient(server.url, limits=Limits(result_bytes=200_000)) as client,
    ):
        gc.disable()
        try:
            places, error = failed_call(client)
            assert error() is None
        finally:
            gc.enable()
    assert "mcp_client" in places
    assert not {place for place in places if "transports" in place}


def failed_call(client):
    """The modules whose frames an error holds, itself or by what came before it, and the error, weakly."""
    try:
        client.call_tool("echo")
    except ResultTooLarge as error:
        places, found = set(), error
        while found is not None:
            for frame, _ in traceback.walk_tb(found.__traceback__):
                places.add(frame.f_globals["__name__"].removeprefix("knime_mcp.client."))
            found = found.__context__
        return places, weakref.ref(error)
    raise AssertionError("the reply was not too large")
