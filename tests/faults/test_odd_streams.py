"""Event streams that are odd but good: the result arrives, at once, and nobody else is kept."""

import itertools
import json
import threading

import pytest

from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import MCPError
from tests.faults.rows import PATIENT, OldServer, batch, run_rows, script_for
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    event,
    http,
    legacy,
    notification,
    reply_event,
    stream,
    text,
)
from tests.support.sse_server import ACCEPTED


def row_of(request):
    return text(f"row {request.params['arguments']['row']}", resultType="complete")


def reply(request):
    return reply_event(row_of(request))(request)


@pytest.mark.parametrize("line_end", [b"\r", b"\r\n", b"\n"])
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "byte by byte"])
def test_the_last_line_end_is_enough_whatever_it_is(line_end, cut):
    """Nothing follows the blank line, and the stream stays open: who waits for more waits in vain."""

    def fault(request):
        data = reply(request).replace(b"\n", line_end)
        parts = [data[i : i + 1] for i in range(len(data))] if cut else [data]
        return stream(*parts, Part.STALL, end=False)(request)

    rows, _ = batch(script_for("modern-json", fault))
    assert all(row.good for row in rows)


def test_a_stream_that_is_kept_open_costs_its_own_connection_alone():
    def fault(request):
        return stream(reply, Part.STALL, end=False)(request)

    rows, server = batch(script_for("modern-sse", fault), rows=60, bad=(5,), in_flight=1)
    assert all(row.good for row in rows)
    assert server.connections < 5


def test_a_response_without_an_id_on_the_stream_of_a_call_is_its_reply():
    def fault(request):
        return stream(event({"jsonrpc": "2.0", "result": row_of(request)}))(request)

    rows, _ = batch(script_for("legacy-sse", fault))
    assert all(row.good for row in rows)


@pytest.mark.parametrize("questions", [1, 50])
def test_an_answer_that_the_server_does_not_take_costs_no_reply(questions):
    """It asks in the middle of a call, and the reply comes without the answer."""

    def fault(request):
        asked = [event({"jsonrpc": "2.0", "id": f"q{i}", "method": "ping"}) for i in range(questions)]
        return stream(*asked, reply)(request)

    script = script_for("legacy-json", fault) | {"response": [Part.STALL]}
    rows, _ = batch(script)
    assert all(row.good for row in rows)


def test_a_server_may_be_polled_for_as_long_as_it_likes():
    """2025-11-25: it ends the stream at any time, and says no more than where to go on."""
    polls = 6

    def resumed(request):
        last = request.headers.get("last-event-id")
        if last is None:
            return http(405)
        if int(last) < polls:
            return stream(event("", id=str(int(last) + 1), retry=0))(request)
        asked = server.named("tools/call")[0].json["id"]
        return stream(event({"jsonrpc": "2.0", "id": asked, "result": text("polled")}))(request)

    script = legacy(session="s", tools__call=stream(event("", id="1", retry=0)), GET=resumed)
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        assert client.call_tool("echo").text == "polled"


def test_a_stream_that_says_something_and_ends_again_and_again_is_not_followed_without_a_pause():
    def again(request):
        if "last-event-id" not in request.headers:
            return http(405)
        return stream(event(notification("x"), id="1", retry=0))(request)

    script = legacy(session="s", tools__call=stream(event("", id="1", retry=0)), GET=again)
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url, timeouts=Timeouts(total=2)) as client,
        pytest.raises(MCPError, match=r"without its reply|in total"),
    ):
        client.call_tool("echo")
    assert len(server.named("GET")) < 2 / 0.02 + 5


def test_a_pause_that_does_not_fit_into_the_call_is_told_as_such():
    script = script_for("legacy-json", stream(event("", id="1", retry=10**9)))
    rows, _ = batch(script)
    for row in rows:
        assert row.good or "wants to be asked for it only in 86400 s" in str(row.outcome)


def test_a_server_that_never_answers_the_first_notification_is_connected_to():
    script = legacy(session="s") | {"notifications/initialized": [Part.STALL]}
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        assert client.call_tool("echo").text == "hi"


def test_a_list_that_changes_while_it_is_read_is_read_again():
    """Its cursors belong to the list that was."""
    pages = {
        None: [
            {"tools": [{"name": "old"}], "nextCursor": "1"},
            {"tools": [{"name": "a"}], "nextCursor": "2"},
        ],
        "2": [{"tools": [{"name": "b"}]}],
    }

    def page(request):
        found = pages.get(request.params.get("cursor"))
        body = {"jsonrpc": "2.0", "id": request.json["id"]}
        if found is None:
            return http(200, json.dumps({**body, "error": {"code": -32602, "message": "Invalid cursor"}}))
        return http(200, json.dumps({**body, "result": found.pop(0) if len(found) > 1 else found[0]}))

    with ScriptedServer(legacy(tools__list=page)) as server, MCPClient(server.url) as client:
        assert [tool.name for tool in client.list_tools()] == ["a", "b"]


@pytest.mark.parametrize("post", [[Part.STALL], [Part.CLOSE], http(500, "oops", content_type="text/plain")])
def test_a_reply_that_came_by_the_stream_is_the_reply_whatever_becomes_of_the_post(post):
    def fault(server, request):
        server.answer(request, row_of(request))
        return [0.2, *post]

    with OldServer(fault) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        rows = run_rows(client)
    assert all(row.good for row in rows)


def test_one_lost_post_of_the_old_transport_leaves_the_replies_of_the_others_alone():
    """A load balancer sends one POST to a machine that knows nothing of the session."""

    streams = {}

    class Slow(OldServer):
        def _post(self, request):
            streams.setdefault(request.target, self._events)  # whoever posts first has just opened it
            return super()._post(request)

        def answer(self, request, result):
            reply = event({"jsonrpc": "2.0", "id": request.json["id"], "result": result})
            late = 0.3 if request.rpc == "tools/call" else 0.0
            threading.Timer(late, streams[request.target].put, [reply]).start()

    numbers = itertools.count()

    def opened(request):
        address = event(f"/messages?session={next(numbers)}", name="endpoint")
        return stream(address, Part.EVENTS, end=False)(request)

    lost = [http(404, "Could not find session", content_type="text/plain")]

    def fault(server, request):
        if lost:
            return lost.pop()
        server.answer(request, row_of(request))
        return ACCEPTED

    with Slow(fault, get=opened) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        rows = run_rows(client, bad=(2,))
    assert all(row.good for row in rows), [str(row.outcome) for row in rows]
    assert len(server.named("GET")) == 2


def test_a_message_that_cannot_be_read_ends_its_call_at_once():
    def fault(server, request):
        deep = b"[" * 10_000 + b"]" * 10_000
        server.push(b'data: {"jsonrpc": "2.0", "id": %d, "result": %s}\n\n' % (request.json["id"], deep))
        return ACCEPTED

    with OldServer(fault) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        rows = run_rows(client)
    for row in rows:
        assert row.good or "nested too deeply" in str(row.outcome)
