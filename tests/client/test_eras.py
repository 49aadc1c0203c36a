"""Whole dialogues with servers of each era: what goes over the wire, and what comes out."""

import itertools

import pytest

from knime_mcp.client.conversation import request_ids
from knime_mcp.tools import MCPClient, Progress
from knime_mcp.types.errors import AuthError, ConnectError, ProtocolError, ServerError, VersionError
from tests.support.scripted_server import (
    ACCEPTED,
    LEGACY,
    MODERN,
    ScriptedServer,
    discover,
    event,
    http,
    legacy,
    modern,
    notification,
    reply_event,
    rpc,
    rpc_error,
    stream,
    text,
    tool,
)
from tests.support.waiting import until

pytestmark = pytest.mark.quick


META = "io.modelcontextprotocol/"


@pytest.mark.requirement("T10")
def test_a_modern_server_gets_its_headers_and_meta_on_every_request():
    with ScriptedServer(modern()) as server, MCPClient(server.url) as client:
        assert client.server.protocol_version == MODERN
        assert (client.server.name, client.server.version, client.server.transport) == (
            "scripted",
            "2",
            "http",
        )
        assert [tool.name for tool in client.list_tools()] == ["echo"]
        assert client.call_tool("écho", {"a": 1}).text == "hi"
    assert server.methods == ["server/discover", "tools/list", "tools/call"]  # and nothing to close
    for request in server.requests:
        assert request.headers["mcp-protocol-version"] == MODERN
        assert request.headers["mcp-method"] == request.rpc
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert request.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in request.headers
        assert "origin" not in request.headers
        meta = request.params["_meta"]
        assert meta[META + "protocolVersion"] == MODERN
        assert meta[META + "clientCapabilities"] == {"extensions": {META + "tasks": {}}}
        assert meta[META + "clientInfo"]["name"] == "knime-mcp"
    call = server.requests[-1]
    assert call.headers["mcp-name"] == "=?base64?w6ljaG8=?="
    assert call.params["name"] == "écho"
    assert call.params["arguments"] == {"a": 1}
    assert len({request.json["id"] for request in server.requests}) == 3


@pytest.mark.requirement("T9")
def test_a_handshake_server_gets_its_session_and_version_after_initialize():
    with ScriptedServer(legacy(session="s-1")) as server:
        with MCPClient(server.url) as client:
            assert client.server.protocol_version == LEGACY
            assert client.list_tools()
            assert client.call_tool("echo").text == "hi"
        names = [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/list",
            "tools/call",
            "DELETE",
        ]
        posted = [request for request in server.requests if request.method != "GET"]
        assert [request.rpc or request.method for request in posted] == names
    _, init, *after = posted
    assert "mcp-session-id" not in init.headers
    assert "mcp-protocol-version" not in init.headers
    assert init.params["protocolVersion"] == LEGACY
    assert init.params["capabilities"] == {}
    assert "_meta" not in init.params
    for request in after:
        assert request.headers["mcp-session-id"] == "s-1"
        assert request.headers["mcp-protocol-version"] == LEGACY
        assert "mcp-method" not in request.headers
    assert posted[3].params == {}
    assert posted[4].params["arguments"] == {}


def test_a_session_id_counts_only_from_the_reply_that_began_it():
    script = legacy(session=None)
    script["server/discover"] = rpc_error(-32600, status=400, headers={"Mcp-Session-Id": "wrong"})
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.call_tool("echo")
    assert all("mcp-session-id" not in request.headers for request in server.requests)
    assert "DELETE" not in server.methods


def test_ids_grow_and_cannot_be_guessed():
    """Where a gateway mixes up its clients, the reply to one must not be one for another."""
    many = [itertools.islice(request_ids(), 1000) for _ in range(50)]
    ids = [list(each) for each in many]
    assert all(each == sorted(set(each)) and each[0] > 0 and each[-1] < 2**31 for each in ids)
    assert len({each[0] for each in ids}) > 40
    assert len({after - before for before, after in itertools.pairwise(ids[0])}) > 100


def test_a_modern_server_s_session_id_means_nothing():
    script = modern(server__discover=rpc({"supportedVersions": [MODERN]}, headers={"Mcp-Session-Id": "x"}))
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.call_tool("echo")
    assert "mcp-session-id" not in server.requests[-1].headers


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_handshake_revision(version):
    with ScriptedServer(legacy(version=version)) as server, MCPClient(server.url) as client:
        assert client.server.protocol_version == version
        assert client.call_tool("echo").text == "hi"
    assert server.requests[-1].headers["mcp-protocol-version"] == version


def test_the_second_client_asks_only_what_it_must():
    with ScriptedServer(legacy()) as server:
        with MCPClient(server.url):
            pass
        with MCPClient(server.url):
            pass
    assert server.methods.count("server/discover") == 1
    assert server.methods.count("initialize") == 2


def test_a_server_that_was_upgraded_is_asked_anew():
    with ScriptedServer(legacy()) as server:
        with MCPClient(server.url):
            pass
        server.script = {"initialize": rpc_error(-32601, status=404), **modern()}
        with MCPClient(server.url) as client:
            assert client.server.protocol_version == MODERN


def test_a_server_that_was_downgraded_between_two_calls_is_asked_anew():
    with ScriptedServer(modern()) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "hi"
        server.script = legacy(tools__call=rpc(text("old")))
        server.script["tools/call"] = [http(400, "unknown"), rpc(text("old"))]
        assert client.call_tool("echo").text == "old"
        assert client.server.protocol_version == LEGACY


@pytest.mark.parametrize("status", [400, 404, 405])
def test_a_refusal_by_a_server_of_the_same_revision_is_no_downgrade(status):
    with (
        ScriptedServer(modern(tools__call=http(status, "no"))) as server,
        MCPClient(server.url) as client,
        pytest.raises(ConnectError, match=str(status)),
    ):
        client.call_tool("echo")
    assert server.methods.count("tools/call") == 1
    assert server.methods.count("server/discover") == 2


def test_a_version_that_the_server_no_longer_speaks_is_negotiated_again():
    script = modern(
        tools__call=[rpc_error(-32022, data={"supported": [MODERN]}, status=400), rpc(text("ok"))]
    )
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "ok"
    assert server.methods.count("server/discover") == 2


def test_overrides_for_version_and_transport():
    with ScriptedServer({**modern(), **legacy()}) as server:
        with MCPClient(server.url, protocol_version="2025-11-25", transport="http") as client:
            assert client.server.protocol_version == "2025-11-25"
        assert "server/discover" not in server.methods
    with ScriptedServer(legacy(version="2025-03-26")) as server, pytest.raises(VersionError):
        MCPClient(server.url, protocol_version="2025-06-18").connect()


def test_all_attempts_are_named_when_nothing_answers():
    with ScriptedServer({}) as server, pytest.raises(ConnectError) as caught:
        MCPClient(server.url).connect()
    message = str(caught.value)
    assert caught.value.phase == "http"
    for attempt in ("server/discover", "initialize", "GET as event stream", "404", server.url, "/mcp"):
        assert attempt in message


@pytest.mark.parametrize("status", [500, 502, 503])
def test_an_outage_names_its_status(status):
    with (
        ScriptedServer({"*": http(status, "down", content_type="text/plain")}) as server,
        pytest.raises(ConnectError, match=str(status)) as caught,
    ):
        MCPClient(server.url, limits=_few_attempts()).connect()
    assert caught.value.phase == "http"


def _few_attempts():
    from knime_mcp.tools import Limits

    return Limits(attempts=1)


def test_a_web_page_is_called_one():
    page = http(
        200, "<!DOCTYPE html><html><head><title>Welcome &amp; hello</title>", content_type="text/html"
    )
    with ScriptedServer({"*": page}) as server, pytest.raises(ConnectError, match="web page") as caught:
        MCPClient(server.url).connect()
    assert "Welcome & hello" in str(caught.value)
    assert caught.value.phase == "protocol"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_is_an_auth_error_at_once(status):
    challenge = {"WWW-Authenticate": 'Bearer error="invalid_token", error_description="expired"'}
    with (
        ScriptedServer({"*": http(status, "", headers=challenge)}) as server,
        pytest.raises(AuthError) as caught,
    ):
        MCPClient(server.url).connect()
    assert caught.value.status == status
    assert "no credentials" in str(caught.value)
    assert "expired" in str(caught.value)
    assert server.methods == ["server/discover"]


def test_a_missing_capability_is_not_a_reason_to_go_back_in_time():
    refused = rpc_error(-32021, data={"requiredCapabilities": {"elicitation": {}}}, status=400)
    with (
        ScriptedServer({**legacy(), "server/discover": refused}) as server,
        pytest.raises(ServerError, match="elicitation") as caught,
    ):
        MCPClient(server.url).connect()
    assert caught.value.code == -32021
    assert "initialize" not in server.methods


def test_a_legacy_server_may_ask_while_a_call_waits():
    asked = [
        {"jsonrpc": "2.0", "id": "p1", "method": "ping"},
        {"jsonrpc": "2.0", "id": 99, "method": "roots/list"},
        {"jsonrpc": "2.0", "id": 100, "method": "sampling/createMessage", "params": {}},
    ]
    reply = stream(*(event(message) for message in asked), reply_event(text("done")))
    with ScriptedServer(legacy(session="s", tools__call=reply)) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "done"
        until(lambda: len(server.named("response")) == len(asked))
    answers = {request.json["id"]: request.json for request in server.named("response")}
    assert answers.pop("p1") == {"jsonrpc": "2.0", "id": "p1", "result": {}}
    assert [answer["error"]["code"] for answer in answers.values()] == [-32601, -32601]
    assert all(request.headers["mcp-session-id"] == "s" for request in server.named("response"))


def test_progress_is_told_and_strangers_are_ignored():
    def reply(request):
        token = request.params["_meta"]["progressToken"]
        return stream(
            event(
                notification(
                    "notifications/progress", progressToken=token, progress=1, total=2, message="one"
                )
            ),
            event(notification("notifications/progress", progressToken=token + 1, progress=9)),
            event(notification("notifications/progress", progressToken=str(token), progress=1.5)),
            event(notification("notifications/progress", progressToken=token, progress="x")),
            event(notification("notifications/message", level="info", data="log")),
            event(notification("notifications/invented")),
            reply_event(text("done")),
        )(request)

    told = []
    with ScriptedServer(modern(tools__call=reply)) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo", on_progress=told.append).text == "done"
    assert told == [Progress(1.0, 2.0, "one"), Progress(1.5, None, None)]


def test_a_progress_callback_that_fails_does_not_end_the_call(caplog):
    def reply(request):
        token = request.params["_meta"]["progressToken"]
        return stream(
            event(notification("notifications/progress", progressToken=token, progress=1)),
            reply_event(text("done")),
        )(request)

    def fail(progress):
        raise RuntimeError("token-of-mine")

    with ScriptedServer(modern(tools__call=reply)) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo", on_progress=fail).text == "done"
    assert f"a progress callback failed: RuntimeError at {__file__}:" in caplog.text
    assert "token-of-mine" not in caplog.text


def test_arguments_are_mirrored_and_tools_with_bad_annotations_left_out():
    good = tool("good", inputSchema={"properties": {"r": {"type": "string", "x-mcp-header": "Region"}}})
    bad = tool("bad", inputSchema={"properties": {"r": {"type": "number", "x-mcp-header": "Region"}}})
    script = modern(tools__list=rpc({"tools": [good, bad, {"title": "nameless"}]}))
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert [definition.name for definition in client.list_tools()] == ["good"]
        assert [name for name, _ in client.dropped_tools] == ["bad", "(without a name)"]
        client.call_tool("good", {"r": " eu"})
    assert server.requests[-1].headers["mcp-param-region"] == "=?base64?IGV1?="


def test_annotations_mean_nothing_in_the_handshake_era():
    bad = tool("bad", inputSchema={"properties": {"r": {"type": "number", "x-mcp-header": "Region"}}})
    with ScriptedServer(legacy(tools__list=rpc({"tools": [bad]}))) as server, MCPClient(server.url) as client:
        assert [definition.name for definition in client.list_tools()] == ["bad"]


def test_a_header_mismatch_lists_the_tools_and_sends_once_more():
    definition = tool("echo", inputSchema={"properties": {"r": {"type": "string", "x-mcp-header": "Region"}}})
    script = modern(
        tools__list=rpc({"tools": [definition]}),
        tools__call=[rpc_error(-32020, status=400), rpc(text("ok"))],
    )
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo", {"r": "eu"}).text == "ok"
    assert server.methods == ["server/discover", "tools/call", "tools/list", "tools/call"]
    assert server.requests[-1].headers["mcp-param-region"] == "eu"
    with (
        ScriptedServer(modern(tools__call=rpc_error(-32020, status=400))) as server,
        MCPClient(server.url) as client,
        pytest.raises(ServerError) as caught,
    ):
        client.call_tool("echo")
    assert caught.value.code == -32020
    assert server.methods.count("tools/call") == 2


def test_a_batch_reply_is_read_where_the_revision_has_batches():
    def batch(request):
        import json

        reply = {"jsonrpc": "2.0", "id": request.json["id"], "result": text("ok")}
        return http(200, json.dumps([notification("x"), reply]))

    with (
        ScriptedServer(legacy(version="2025-03-26", tools__call=batch)) as server,
        MCPClient(server.url) as client,
    ):
        assert client.call_tool("echo").text == "ok"
    with (
        ScriptedServer(legacy(tools__call=batch)) as server,
        MCPClient(server.url) as client,
        pytest.raises(ProtocolError, match="list"),
    ):
        client.call_tool("echo")


def test_server_info_may_be_missing_or_malformed():
    script = {
        **modern(),
        "server/discover": discover(_meta={META + "serverInfo": 3}, serverInfo={"name": "old place"}),
    }
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert (client.server.name, client.server.version) == ("old place", "")
    with (
        ScriptedServer({**modern(), "server/discover": rpc({"supportedVersions": [MODERN]})}) as server,
        MCPClient(server.url) as client,
    ):
        assert client.server.name == ""


def test_notifications_may_be_answered_with_anything_good():
    for answer in (ACCEPTED, http(200, "{}"), http(204, content_type=None), stream()):
        with (
            ScriptedServer(legacy(notifications__initialized=answer)) as server,
            MCPClient(server.url) as client,
        ):
            assert client.call_tool("echo").text == "hi"
