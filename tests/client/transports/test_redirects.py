import ssl

import pytest
import trustme

from knime_mcp.tools import BearerAuth, MCPClient, NetworkSettings
from knime_mcp.types.errors import ConnectError
from tests.support.scripted_server import ScriptedServer, http, modern, rpc, text

pytestmark = pytest.mark.quick


def moved(location, status=307):
    return http(status, headers={"Location": location})


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_origin_is_followed_with_method_and_body(status):
    script = modern(
        tools__call=lambda r: moved("/mcp/", status) if r.target == "/mcp" else rpc(text("ok"))(r)
    )
    script["server/discover"] = lambda r: (
        moved("/mcp/", status) if r.target == "/mcp" else modern()["server/discover"](r)
    )
    with ScriptedServer(script) as server, MCPClient(server.url, auth=BearerAuth("t")) as client:
        assert client.call_tool("echo", {"a": 1}).text == "ok"
        assert client.call_tool("echo").text == "ok"
    assert [request.target for request in server.requests] == ["/mcp", "/mcp/", "/mcp/", "/mcp/"]
    assert all(request.headers["authorization"] == "Bearer t" for request in server.requests)
    assert [request.params["arguments"] for request in server.requests[2:]] == [{"a": 1}, {}]


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_changes_the_method_is_not_followed(status):
    with (
        ScriptedServer({"*": moved("/other", status)}) as server,
        pytest.raises(ConnectError, match="/other") as caught,
    ):
        MCPClient(server.url, transport="http").connect()
    assert caught.value.phase == "http"
    assert all(request.method == "POST" and request.target == "/mcp" for request in server.requests)


def test_nothing_reaches_another_origin():
    with ScriptedServer(modern()) as other:
        target = f"{other.url}?token=s3cret-s3cret"
        with ScriptedServer({"*": moved(target)}) as server, pytest.raises(ConnectError) as caught:
            MCPClient(server.url, auth=BearerAuth("t"), headers={"X-Mine": "1"}, transport="http").connect()
    assert other.connections == 0
    assert other.url in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "location", ["http://u:pw-s3cret@127.0.0.1:{port}/x", "https://127.0.0.1:{port}/x", "ftp://127.0.0.1/"]
)
def test_targets_that_are_refused(location):
    with ScriptedServer() as server:
        server.script = {"*": moved(location.format(port=server.port))}
        with pytest.raises(ConnectError) as caught:
            MCPClient(server.url, transport="http").connect()
    assert "s3cret" not in str(caught.value)
    assert {request.target for request in server.requests} == {"/mcp"}


def https_server(script):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return ScriptedServer(script, tls=context)


def test_a_redirect_of_a_server_that_does_not_know_of_its_tls_stays_on_https():
    with https_server({}) as server:
        location = server.url.replace("https:", "http:") + "/"
        server.script = {
            key: lambda r, key=key: (
                moved(location)
                if r.target == "/mcp"
                else modern()[key](r)  # as Starlette behind a proxy does
            )
            for key in ("server/discover", "tools/call")
        }
        with MCPClient(server.url, auth=BearerAuth("t"), network=NetworkSettings(verify=False)) as client:
            assert client.call_tool("echo").text == "hi"


def test_an_https_server_does_not_lead_to_an_http_server():
    with ScriptedServer(modern()) as plain, https_server({"*": moved(plain.url)}) as server:
        client = MCPClient(server.url, transport="http", network=NetworkSettings(verify=False))
        with pytest.raises(ConnectError, match="leads to another server"):
            client.connect()
    assert plain.connections == 0


def test_redirects_in_circles_end():
    with (
        ScriptedServer({"*": lambda r: moved(r.target + "x")}) as server,
        pytest.raises(ConnectError, match="circles"),
    ):
        MCPClient(server.url, transport="http").connect()
    assert len(server.requests) < 20
