"""What the reply to a request may look like: the decision table, stream resumption, limits."""

import json
import zlib

import pytest

from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import (
    ConnectError,
    ProtocolError,
    ServerError,
    SessionLost,
    ToolNotFound,
)
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    event,
    http,
    initialize,
    legacy,
    modern,
    notification,
    reply_event,
    rpc,
    rpc_error,
    stream,
    text,
)

pytestmark = pytest.mark.quick


def call(script, name="echo", **options):
    with ScriptedServer(script) as server, MCPClient(server.url, **options) as client:
        return client.call_tool(name), server


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "3", "null", '{"jsonrpc": "2.0"}', '{"id": null, "result": 3}']
)
def test_a_body_that_is_no_response_is_a_protocol_error(era, body):
    with pytest.raises(ProtocolError):
        call(era(tools__call=http(200, body)))


def test_the_media_type_of_a_stream_is_compared_without_case_and_parameters(era):
    def upper(request):
        parts = stream(reply_event(text("ü")))(request)
        return [parts[0].replace(b"text/event-stream", b"Text/Event-Stream; charset=iso-8859-1"), *parts[1:]]

    assert call(era(tools__call=upper))[0].text == "ü"


def test_a_reply_for_another_id_is_not_ours(era):
    other = event({"jsonrpc": "2.0", "id": 123456, "result": text("wrong")})
    assert call(era(tools__call=stream(other, reply_event(text("ok")))))[0].text == "ok"


def test_errors_with_foreign_ids_and_any_status_are_errors_of_the_call(era):
    for status in (200, 400, 500):
        body = json.dumps(
            {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32603, "message": "oops"}}
        )
        with pytest.raises(ServerError, match="oops") as caught:
            call(era(tools__call=http(status, body)))
        assert caught.value.code == -32603
    anonymous = event({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "parse"}})
    with pytest.raises(ServerError, match="parse"):
        call(era(tools__call=stream(anonymous)))


@pytest.mark.parametrize("code", [-32602, -32603, -32601, 0])  # the last three: what servers throw themselves
def test_an_unknown_tool_is_named_with_what_may_be_meant(era, code):
    script = era(tools__call=rpc_error(code, "Unknown tool: ehco"))
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.list_tools()
        with pytest.raises(ToolNotFound, match="Did you mean echo") as caught:
            client.call_tool("ehco")
    assert caught.value.suggestions == ("echo",)


def test_a_page_that_a_person_must_visit_is_named_without_its_query_and_never_opened():
    with ScriptedServer({"*": http(500)}) as page:
        wanted = {
            "mode": "url",
            "elicitationId": "1",
            "url": f"{page.url}/consent?ticket=hidden",
            "message": "x",
        }
        script = legacy(tools__call=rpc_error(-32042, "consent first", {"elicitations": [wanted, None, {}]}))
        with pytest.raises(ServerError, match="consent first") as caught:
            call(script)
        assert not page.requests
    assert caught.value.code == -32042
    assert caught.value.data["elicitations"][0] == wanted
    assert "/consent first" in str(caught.value.fix)
    assert "hidden" not in str(caught.value)


def test_a_tool_that_was_listed_and_is_gone_is_not_found(era):
    """As with FastMCP, where a session may hide tools from itself."""
    script = era(tools__call=rpc_error(-32001, "Not found: Unknown tool: 'echo'"))
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.list_tools()
        with pytest.raises(ToolNotFound, match="List the server's tools again") as caught:
            client.call_tool("echo")
    assert caught.value.suggestions == ()


@pytest.mark.parametrize(
    "words",
    [
        "Tool ehco not found",
        "MCP error -32602: Tool ehco not found",
        "tool not found",
        "tool 'ehco' not found: tool not found",
        "Tool not found: ehco",
        "ehco was not found",
        'unknown tool "ehco"',
    ],
)
def test_an_unknown_tool_in_the_words_of_any_library(words):
    with (
        ScriptedServer(legacy(tools__call=rpc_error(-32602, words))) as server,
        MCPClient(server.url) as client,
        pytest.raises(ToolNotFound),
    ):
        client.call_tool("ehco")


@pytest.mark.parametrize("words", ["Method not found", "Could not find tool: ehco"])
def test_a_tool_that_is_not_listed_is_the_method_that_a_server_does_not_find(words):
    script = legacy(tools__call=rpc_error(-32601, words))
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.list_tools()
        with pytest.raises(ToolNotFound, match="Did you mean echo"):
            client.call_tool("ehco")
        with pytest.raises(ServerError, match="does not offer this"):
            client.call_tool("echo")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-32603, "echo: unknown tool hammer"),
        (-32602, "Customer 42 not found"),
        (-32602, "Invalid arguments for tool echo: no such file, /tmp/echo.txt not found"),
    ],
)
def test_a_tool_that_does_not_find_something_is_not_missing_itself(era, code, words):
    with ScriptedServer(era(tools__call=rpc_error(code, words))) as server, MCPClient(server.url) as client:
        client.list_tools()
        with pytest.raises(ServerError, match=words):
            client.call_tool("echo")


@pytest.mark.parametrize("status", [406, 409, 413, 415, 421])
def test_configuration_errors_are_not_repeated(status):
    with (
        ScriptedServer(modern(tools__list=http(status, "no", content_type="text/plain"))) as server,
        MCPClient(server.url) as client,
        pytest.raises(ConnectError, match=str(status)) as caught,
    ):
        client.list_tools()
    assert caught.value.fix
    assert server.methods.count("tools/list") == 1


def test_a_modern_stream_that_ends_early_is_lost_and_not_repeated():
    with (
        ScriptedServer(modern(tools__call=stream(event("", id="1", retry=1)))) as server,
        MCPClient(server.url) as client,
        pytest.raises(ConnectError, match="without its reply"),
    ):
        client.call_tool("echo")
    assert server.methods.count("tools/call") == 1
    assert "GET" not in server.methods


def test_a_legacy_stream_without_event_ids_cannot_be_resumed():
    with (
        ScriptedServer(legacy(tools__call=stream(event(notification("x"))))) as server,
        MCPClient(server.url) as client,
        pytest.raises(ConnectError, match="without its reply"),
    ):
        client.call_tool("echo")
    assert "GET" not in server.methods


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
@pytest.mark.parametrize("broken", [False, True])
def test_a_legacy_stream_is_resumed_where_it_was_left(version, broken):
    script = legacy(session="s", version=version)
    script["tools/call"] = stream(event("", id="a-1", retry=120), *([Part.CLOSE] if broken else []))
    asked = {}

    def resumed(request):
        if "last-event-id" not in request.headers:
            return http(405)  # the server's own stream
        asked["id"] = server.named("tools/call")[0].json["id"]
        return stream(event({"jsonrpc": "2.0", "id": asked["id"], "result": text("late")}, id="a-2"))(request)

    script["GET"] = resumed
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "late"
        sent, resumption = server.named("tools/call")[0], server.named("GET")[-1]
    assert resumption.headers["last-event-id"] == "a-1"
    assert resumption.headers["accept"] == "text/event-stream"
    assert resumption.headers["mcp-session-id"] == "s"
    assert resumption.headers["mcp-protocol-version"] == version
    assert resumption.at - sent.at >= 0.12
    assert server.methods.count("tools/call") == 1


def test_resumption_goes_on_while_there_is_progress_and_ends_without():
    script = legacy(tools__call=stream(event("", id="1", retry=1)))
    script["GET"] = [
        stream(event(notification("notifications/message", data=1), id="2")),
        stream(event(notification("notifications/message", data=2), id="3")),
        http(500),
        stream(),
    ]
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url) as client,
        pytest.raises(ConnectError, match="could not be resumed"),
    ):
        client.call_tool("echo")
    assert [request.headers["last-event-id"] for request in server.named("GET")] == ["1", "2", "3", "3"]


def test_a_stream_that_stays_open_after_the_reply_is_left():
    reply = stream(reply_event(text("ok")), Part.STALL)
    with ScriptedServer(modern(tools__call=reply)) as server, MCPClient(server.url) as client:
        for _ in range(3):
            assert client.call_tool("echo").text == "ok"
        assert server.disconnected.wait(30)


def test_a_stream_that_ends_after_the_reply_leaves_its_connection_usable():
    with ScriptedServer(legacy(tools__call=stream(reply_event(text("ok"))))) as server:
        with MCPClient(server.url) as client:
            for _ in range(5):
                client.call_tool("echo")
        assert server.connections == 1


@pytest.mark.parametrize(
    "lost",
    [
        http(404, "Session not found", content_type="text/plain"),
        http(410, "Gone", content_type="text/plain"),
        http(404, "<html><title>Not Found</title>", content_type="text/html"),
        http(401, "Unauthorized: Session not found", content_type="text/plain"),
        http(400, "Bad Request: No valid session ID provided", content_type="text/plain"),
        rpc_error(-32600, "Session terminated", status=404),
        rpc_error(-32000, "Bad Request: No valid session ID provided", status=400),
        rpc_error(-32000, "Bad Request: Server not initialized", status=400),
        # WordPress, old and new; Anubis; tower-mcp
        rpc_error(-32602, "Invalid or expired session"),
        rpc_error(-32005, "Session not found: Invalid or expired session"),
        rpc_error(-32002, "Server not initialized"),
        rpc_error(-32005, "Session not found or expired", status=400),
        rpc_error(-32001, "Session not found"),
        rpc_error(-32602, "Unknown session", status=404),
    ],
)
def test_a_lost_session_is_opened_anew_without_the_old_id(lost):
    """The server refuses whatever belongs to the session that it no longer knows."""
    script = legacy(tools__call=[lost, rpc(text("again"))], tools__list=lost)
    script["initialize"] = [initialize(session="s-1"), initialize(session="s-2")]
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "again"
        first, second = server.named("initialize")
        assert "mcp-session-id" not in second.headers
        assert "mcp-protocol-version" not in second.headers
        assert server.named("tools/call")[-1].headers["mcp-session-id"] == "s-2"
    assert server.methods.count("server/discover") == 1
    assert first.json["id"] != 0


@pytest.mark.parametrize("code", [-32001, -32002, -32005, -32602, -32603])
def test_a_tool_s_own_error_about_a_session_loses_none(code):
    """Such as a shop's, whose tool may have been carried out: a listing goes on in the same session."""
    script = legacy(session="s", tools__call=rpc_error(code, "Session expired: server not initialized"))
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        with pytest.raises(ServerError, match="Session expired"):
            client.call_tool("echo")
        assert len(client.list_tools()) == 1
    assert server.methods.count("tools/call") == server.methods.count("initialize") == 1


def test_calls_are_not_sent_again_where_that_was_ruled_out():
    script = legacy(session="s", tools__call=[http(404), rpc(text("ok"))])
    with ScriptedServer(script) as server, MCPClient(server.url, reopen_sessions=False) as client:
        with pytest.raises(SessionLost):
            client.call_tool("echo")
        assert client.call_tool("echo").text == "ok"


def test_a_404_without_a_session_is_a_wrong_path():
    with (
        ScriptedServer(legacy(tools__call=http(404))) as server,
        MCPClient(server.url) as client,
        pytest.raises(ConnectError, match="404") as caught,
    ):
        client.call_tool("echo")
    assert "/mcp" in str(caught.value)
    assert server.methods.count("initialize") == 1


@pytest.mark.parametrize(
    ("encoding", "wbits"),
    [("gzip", 31), ("deflate", 15), ("deflate", -15)],
    ids=["gzip", "deflate", "deflate without its wrapper"],
)
def test_compressed_results_are_read(encoding, wbits):
    def reply(request):
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("z" * 5000)}).encode()
        packer = zlib.compressobj(wbits=wbits)
        data = packer.compress(body) + packer.flush()
        return http(200, data, headers={"Content-Encoding": encoding})

    assert call(modern(tools__call=reply))[0].text == "z" * 5000
