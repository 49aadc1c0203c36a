"""Hearing of changes of the tools: ``subscriptions/listen``, and the streams of the handshake era."""

import sys
import threading

import pytest

from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.client.transports.stdio_server import StdioServer
from knime_mcp.runs.checked_calls import Definitions
from knime_mcp.tools import MCPClient
from knime_mcp.types.routing import ServerRoute
from tests.client.child_servers import in_background
from tests.support.scripted_server import (
    MODERN,
    Part,
    ScriptedServer,
    discover,
    event,
    http,
    initialize,
    legacy,
    modern,
    notification,
    rpc,
    rpc_error,
    stream,
    tool,
)
from tests.support.waiting import until

pytestmark = pytest.mark.quick


CHANGING = {"capabilities": {"tools": {"listChanged": True}}}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def watchers():
    names = {"knime-mcp-watch", "knime-mcp-listen"}
    return [thread for thread in threading.enumerate() if thread.name in names]


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    until(lambda: not watchers())


def acknowledged(request, **granted):
    meta = {SUBSCRIPTION: request.json["id"]}
    granted = granted or {"toolsListChanged": True}
    return event(notification("notifications/subscriptions/acknowledged", _meta=meta, notifications=granted))


CHANGED = event(notification("notifications/tools/list_changed", _meta={SUBSCRIPTION: 1}))
HELD = stream(acknowledged, Part.EVENTS, end=False)


def listing(*names, ttl=60_000):
    return rpc({"tools": [tool(name) for name in names], "resultType": "complete", "ttlMs": ttl})


def script(listen=HELD, **replies):
    return modern(
        server__discover=discover(**CHANGING),
        tools__list=[listing("a"), listing("b"), listing("c")],
        subscriptions__listen=listen,
        **replies,
    )


def names(client):
    return [found.name for found in client.list_tools()]


def test_a_list_that_is_kept_is_watched():
    with ScriptedServer(script()) as server, MCPClient(server.url) as client:
        assert names(client) == names(client) == ["a"]
        until(lambda: server.named("subscriptions/listen"))
        (request,) = server.named("subscriptions/listen")
        assert request.params["notifications"] == {"toolsListChanged": True}
        assert request.params["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN
        assert "progressToken" not in request.params["_meta"]
        assert request.headers["mcp-method"] == "subscriptions/listen"
        assert client.tool_changes == 0
        server.push(CHANGED)
        until(lambda: client.tool_changes == 1)
        assert names(client) == names(client) == ["b"]
        assert len(watchers()) == 1
        client.close()
        assert not watchers()
        assert server.disconnected.wait(30)
    # The closed stream says that nobody listens any more; no message may.
    assert "notifications/cancelled" not in server.methods
    assert len(server.named("subscriptions/listen")) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"tools__list": listing("a", ttl=0)},
        {"server__discover": discover()},
    ],
    ids=["nothing is kept", "not offered"],
)
def test_nobody_listens_for_nothing(more):
    with (
        ScriptedServer({**script(), **modern(**more)} | {"tools/list": listing("a", ttl=0)}) as server,
        MCPClient(server.url) as client,
    ):
        client.list_tools()
        client.call_tool("a")
        assert not watchers()
    assert "subscriptions/listen" not in server.methods


def test_whoever_keeps_definitions_may_ask_for_it():
    replies = script() | {"tools/list": listing("a", ttl=0)}
    with ScriptedServer(replies) as server, MCPClient(server.url) as client:
        client.watch_tools()
        client.watch_tools()
        until(lambda: server.named("subscriptions/listen"))
        server.push(CHANGED)
        until(lambda: client.tool_changes == 1)
    assert len(server.named("subscriptions/listen")) == 1


@pytest.mark.parametrize(
    "listen",
    [
        rpc_error(-32601, "Method not found", status=404),
        http(405, content_type=None),
        http(202, content_type=None),
        stream(lambda r: acknowledged(r, promptsListChanged=True), Part.EVENTS, end=False),
    ],
    ids=["unknown", "no stream", "202", "not granted"],
)
def test_a_server_that_refuses_is_left_alone_and_the_list_is_kept(listen):
    with ScriptedServer(script(listen)) as server, MCPClient(server.url) as client:
        assert names(client) == ["a"]
        until(lambda: server.named("subscriptions/listen") and not watchers())
        assert names(client) == ["a"]
        assert client.call_tool("a").text == "hi"
    assert len(server.named("subscriptions/listen")) == 1


def test_a_stream_that_breaks_is_opened_again_and_what_was_kept_is_asked_for_again():
    streams = [stream(acknowledged, b": bye\n\n", Part.CLOSE, end=False), HELD]
    with ScriptedServer(script(streams)) as server, MCPClient(server.url) as client:
        assert names(client) == ["a"]
        until(lambda: len(server.named("subscriptions/listen")) == 2)
        until(lambda: client.tool_changes >= 1)  # something may have been said meanwhile
        assert names(client) == ["b"]
        ids = [request.json["id"] for request in server.requests]
        assert len(set(ids)) == len(ids)


def test_a_good_bye_ends_it_and_the_next_list_begins_anew():
    def good_bye(request):
        meta = {SUBSCRIPTION: request.json["id"]}
        result = {"resultType": "complete", "_meta": meta}
        return event({"jsonrpc": "2.0", "id": request.json["id"], "result": result})

    streams = [stream(acknowledged, good_bye), HELD]
    with ScriptedServer(script(streams)) as server, MCPClient(server.url) as client:
        assert names(client) == ["a"]
        until(lambda: client.tool_changes == 1 and not watchers())
        assert names(client) == ["b"]
        until(lambda: len(server.named("subscriptions/listen")) == 2)


def test_a_server_that_stalls_holds_up_neither_calls_nor_close():
    with ScriptedServer(script([Part.STALL])) as server, MCPClient(server.url) as client:
        assert names(client) == ["a"]
        assert client.call_tool("a").text == "hi"
        until(lambda: server.named("subscriptions/listen"))
    assert not watchers()


def test_a_change_while_the_pages_arrive_is_not_overlooked():
    page = {"tools": [tool("old")], "nextCursor": "2", "ttlMs": 60_000}

    def last(request):
        server.push(CHANGED)
        until(lambda: client.tool_changes == 1)
        return listing("older")(request)

    replies = script() | {"tools/list": [listing("a", ttl=0), rpc(page), last, listing("new")]}
    with ScriptedServer(replies) as server, MCPClient(server.url) as client:
        client.watch_tools()
        assert names(client) == ["a"]
        until(lambda: server.named("subscriptions/listen"))
        assert names(client) == ["old", "older"]
        assert names(client) == ["new"]


def test_a_session_of_the_handshake_era_is_listened_to():
    held = stream(Part.EVENTS, end=False)
    replies = legacy(initialize=initialize(session="s-1", **CHANGING), GET=held)
    with ScriptedServer(replies) as server, MCPClient(server.url) as client:
        client.watch_tools()
        until(lambda: server.named("GET"))
        server.push(event(notification("notifications/tools/list_changed")))
        until(lambda: client.tool_changes == 1)


STDIO = """
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
M = "io.modelcontextprotocol/"
lists = 0
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    if method == "server/discover":
        tools = {"listChanged": True}
        say(id=message["id"], result={"supportedVersions": ["2026-07-28"], "capabilities": {"tools": tools}})
    elif method == "tools/list":
        lists += 1
        tool = {"name": f"t{lists}", "inputSchema": {"type": "object"}}
        say(id=message["id"], result={"tools": [tool], "ttlMs": 60000})
    elif method == "subscriptions/listen":
        subscription = message["id"]
        meta = {M + "subscriptionId": subscription}
        say(method="notifications/subscriptions/acknowledged",
            params={"_meta": meta, "notifications": params["notifications"]})
    elif method == "tools/call":
        say(method="notifications/tools/list_changed", params={"_meta": {M + "subscriptionId": subscription}})
        say(id=message["id"], result={"content": [{"type": "text", "text": "changed"}]})
    elif method == "notifications/cancelled":
        sys.stderr.write(f"cancelled {params['requestId'] == subscription}\\n")
"""


def test_over_stdio_the_subscription_shares_the_stream(tmp_path):
    program = tmp_path / "server.py"
    program.write_text(STDIO)
    with MCPClient(stdio=StdioServer("changing", [sys.executable, str(program)])) as client:
        assert names(client) == names(client) == ["t1"]
        until(lambda: len(watchers()) == 1)
        assert client.call_tool("t1").text == "changed"
        until(lambda: client.tool_changes >= 1)
        assert names(client) == ["t2"]


def test_definitions_are_asked_for_again_after_a_change():
    replies = script() | {"tools/list": [listing("a", ttl=0), listing("b", ttl=0)]}
    with ScriptedServer(replies) as server, SessionPool(lambda route: MCPClient(route.url)) as pool:
        definitions = Definitions(pool)
        route = ServerRoute(url=server.url)
        for _ in range(3):
            assert definitions.find(route, "a").name == "a"
        assert server.methods.count("tools/list") == 1
        until(lambda: server.named("subscriptions/listen"))
        server.push(CHANGED)
        until(lambda: pool.client(route).tool_changes == 1)
        assert definitions.find(route, "b").name == "b"
        assert server.methods.count("tools/list") == 2


def test_one_change_counts_once_however_many_calls_wait():
    held = stream(Part.EVENTS, end=False)
    replies = legacy(initialize=initialize(session="s-1", **CHANGING), GET=held, tools__call=[Part.STALL])
    heard = threading.Event()
    with ScriptedServer(replies) as server, MCPClient(server.url) as client:
        client.watch_tools()
        until(lambda: server.named("GET"))
        for _ in range(3):
            in_background(lambda: client.call_tool("a", on_progress=lambda _: heard.set()))
        until(lambda: len(server.named("tools/call")) == 3)
        server.push(event(notification("notifications/tools/list_changed")))
        token = server.named("tools/call")[0].params["_meta"]["progressToken"]
        server.push(event(notification("notifications/progress", progressToken=token, progress=1)))
        assert heard.wait(30)
        assert client.tool_changes == 1
