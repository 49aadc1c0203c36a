"""Faults in the middle of a batch: restarts, lost sessions, expired tokens, refusals, closing the client."""

import contextlib
import itertools
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from knime_mcp.tools import BearerAuth, MCPClient
from knime_mcp.types.errors import AuthError, ConnectError, MCPError
from tests.faults.rows import HURRIED, PATIENT, WAYS, OldServer, run_rows, script_for
from tests.support.scripted_server import Part, ScriptedServer, http, legacy, modern, rpc, text
from tests.support.sse_server import ACCEPTED

SECRET = "s3cret-s3cret"


class OnPort(ScriptedServer):
    """A server that comes back where another one was."""

    def __init__(self, script, port):
        super().__init__(script)
        self._listener.close()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = port


@pytest.mark.parametrize("way", WAYS)
def test_a_restart_between_calls_goes_unnoticed(way):
    first = ScriptedServer(script_for(way, Part.CLOSE, session="one"))
    client = MCPClient(first.url, timeouts=PATIENT)
    with first:
        assert all(row.good for row in run_rows(client, bad=()))
    script = script_for(way, Part.CLOSE, session="two")
    call = script["tools/call"]
    unknown = http(404, "Session not found", content_type="text/plain")
    script["tools/call"] = lambda r: unknown if r.headers.get("mcp-session-id") == "one" else call(r)
    with OnPort(script, first.port) as second, client:
        assert all(row.good for row in run_rows(client, bad=()))
    assert second.methods.count("initialize") == (1 if way.startswith("legacy") else 0)
    assert second.methods.count("server/discover") == 0


@pytest.mark.parametrize("way", ["modern-json", "legacy-json"])
def test_a_restart_is_waited_for(way):
    """For longer than three attempts take: nobody listens meanwhile, so no call can have run."""
    script = script_for(way, Part.CLOSE)
    first = ScriptedServer(script)
    client = MCPClient(first.url, timeouts=PATIENT)
    with first:
        assert all(row.good for row in run_rows(client, bad=()))
    back = contextlib.ExitStack()
    later = threading.Timer(1.5, lambda: back.enter_context(OnPort(script, first.port)))
    later.start()
    with back, client:
        rows = run_rows(client, bad=())
        later.join()
    assert all(row.good for row in rows)


def test_a_restart_that_takes_a_while_fails_only_the_rows_of_that_while():
    first = ScriptedServer(script_for("legacy-json", Part.CLOSE))
    client = MCPClient(first.url, timeouts=HURRIED["connect"])
    with first:
        assert all(row.good for row in run_rows(client, bad=()))
    down = run_rows(client, rows=3, bad=())
    assert all(isinstance(row.outcome, ConnectError) and row.outcome.phase == "tcp" for row in down)
    with OnPort(script_for("legacy-json", Part.CLOSE), first.port), client:
        assert all(row.good for row in run_rows(client, bad=()))


@pytest.mark.parametrize("way", ["legacy-json", "legacy-sse"])
def test_a_session_that_ends_in_the_middle_of_a_batch_is_opened_anew_once(way):
    unknown = http(404, "Session not found", content_type="text/plain")
    script = script_for(way, None, session="s")
    call = script["tools/call"]
    lost = threading.Event()

    def answer(request):
        opened = len(server.named("initialize"))
        if request.params["arguments"]["row"] == 5:
            lost.set()
        return unknown if lost.is_set() and opened < 2 else call(request)

    script["tools/call"] = answer
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        rows = run_rows(client, rows=20, bad=())
    assert all(row.good for row in rows)
    assert server.methods.count("initialize") == 2


@pytest.mark.parametrize("way", ["modern-json", "legacy-sse"])
def test_a_token_that_expires_in_the_middle_of_a_batch(way):
    challenge = 'Bearer error="invalid_token", error_description="The token expired"'
    expired = http(401, "", headers={"WWW-Authenticate": challenge})
    script = script_for(way, expired)
    bad = tuple(range(6, 12))
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url, timeouts=PATIENT, auth=BearerAuth(SECRET)) as client,
    ):
        rows = run_rows(client, rows=12, bad=bad)
    assert [row.good for row in rows] == [number < 6 for number in range(12)]
    for row in rows[6:]:
        assert isinstance(row.outcome, AuthError)
        assert row.outcome.status == 401
        assert "The token expired" in str(row.outcome)
        assert SECRET not in str(row.outcome)
    assert server.methods.count("tools/call") == 12


@pytest.mark.parametrize("way", ["modern-json", "legacy-sse"])
def test_429_is_waited_for_and_503_of_a_call_is_not_sent_again(way):
    busy = http(429, headers={"Retry-After": "0"})
    rows, server = served(way, [busy, busy])
    assert all(row.good or "429" in str(row.outcome) for row in rows)
    rows, server = served(way, [http(503, headers={"Retry-After": "0"})])
    assert [row.number for row in rows if not row.good] == [2]
    assert "503 Service Unavailable; it asks to wait 0 s" in str(rows[2].outcome)
    assert server.methods.count("tools/call") == 4


def served(way, faults):
    """Four rows, of which row 2 meets the faults one after the other, and then none."""
    script = script_for(way, None)
    call = script["tools/call"]

    def answer(request):
        row = request.params["arguments"]["row"]
        return faults.pop(0) if row == 2 and faults else call(request)

    script["tools/call"] = answer
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        return run_rows(client, rows=4, bad=()), server


def test_cookies_do_not_pile_up():
    count = iter(range(10_000))

    def answer(request):
        return rpc({"content": []}, headers={"Set-Cookie": f"c{next(count)}={'x' * 100}; path=/"})(request)

    with ScriptedServer(modern(tools__call=answer)) as server, MCPClient(server.url) as client:
        for _ in range(200):
            client.call_tool("echo")
        assert len(server.requests[-1].headers["cookie"]) < 60 * 110


@pytest.mark.parametrize("cookie", ["name=José".encode(), b"=;;;"], ids=["utf-8", "none"])
def test_cookies_of_any_form_do_no_harm(cookie):
    def answer(request):
        return [rpc(text("hi"))(request)[0].replace(b"\r\n", b"\r\nSet-Cookie: " + cookie + b"\r\n", 1)]

    with ScriptedServer(modern(tools__call=answer)) as server, MCPClient(server.url) as client:
        assert [client.call_tool("echo").text for _ in range(3)] == ["hi"] * 3


@pytest.mark.parametrize("way", WAYS)
def test_closing_the_client_ends_the_calls_in_flight(way):
    with ScriptedServer(script_for(way, [Part.STALL])) as server:
        client = MCPClient(server.url, timeouts=PATIENT)
        client.connect()
        timer = threading.Timer(0.3, client.close)
        timer.start()
        rows = run_rows(client, rows=4, bad=range(4))
        timer.join()
    assert all(isinstance(row.outcome, MCPError) for row in rows)


@pytest.mark.parametrize("way", ["modern-json", "legacy-sse"])
def test_closing_the_client_while_calls_begin(way):
    """At whatever moment of a call it happens, the error is one of ours."""

    def call_on(client, closed):
        for row in itertools.count():
            if closed.is_set():
                return
            with contextlib.suppress(ConnectError):
                assert client.call_tool("echo", {"row": row, "bad": False}).text == f"row {row}"

    with ScriptedServer(script_for(way, None, session="s")) as server, ThreadPoolExecutor(8) as threads:
        client = MCPClient(server.url, timeouts=PATIENT)
        for pause in range(8):
            client.connect()
            closed = threading.Event()
            calls = [threads.submit(call_on, client, closed) for _ in range(8)]
            time.sleep(pause / 300)
            client.close()
            closed.set()
            for call in calls:
                call.result(30)
        client.close()  # a call that came after the first time has opened it again


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("what", ["page", "between pages", "pause"])
def test_closing_the_client_ends_a_listing_and_connects_to_nobody(transport, what):
    """A listing is repeated after an outage; a client that was closed is none."""
    closing = threading.Event()

    def page(request):
        closing.set()
        match what:
            case "page":
                return None
            case "between pages":
                time.sleep(0.02)
                return {"tools": [], "nextCursor": str(request.json["id"])}
            case _:
                return "busy"

    class Old(OldServer):
        def _post(self, request):
            if request.rpc != "tools/list":
                return super()._post(request)
            result = page(request)
            if result == "busy":
                return http(503, headers={"Retry-After": "1"})
            if result is not None:
                self.answer(request, result)
            return ACCEPTED

    def reply(request):
        result = page(request)
        if result == "busy":
            return http(503, headers={"Retry-After": "1"})
        return [Part.STALL] if result is None else rpc(result)(request)

    with Old() if transport == "sse" else ScriptedServer(legacy(tools__list=reply)) as server:
        client = MCPClient(server.url, timeouts=PATIENT)
        client.connect()

        def close():
            assert closing.wait(30)
            time.sleep(0.2)
            client.close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(MCPError, match="closed"):
            client.list_tools()
        thread.join()
        assert server.methods.count("initialize") == 1
        assert server.methods.count("GET") == (1 if transport == "sse" else 0)
        client.connect()  # it may be opened again
        assert server.methods.count("initialize") == 2
        client.close()
