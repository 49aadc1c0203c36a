"""What to do next, where a server's own words would lead a person astray."""

import json
import sys

import pytest

from knime_mcp.tools import MCPClient, StdioServer
from knime_mcp.types.errors import AuthError, ConnectError, ServerError
from tests.support.scripted_server import ScriptedServer, http, rpc_error

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "refusal",
    [
        http(403, "Access is only allowed at localhost:8931", content_type="text/plain"),
        rpc_error(-32000, "Invalid Host header: 127.0.0.1:8931", status=403),
        rpc_error(-32000, "Forbidden: host not allowed", status=403),
    ],
)
def test_a_server_that_answers_to_another_host_name(refusal):
    with ScriptedServer({"*": refusal}) as server, pytest.raises(AuthError) as raised:
        MCPClient(server.url).connect()
    assert "host name" in raised.value.fix
    assert "localhost" in raised.value.fix
    assert "credential" not in raised.value.fix


def test_a_server_that_has_had_its_only_client():
    script = {
        "server/discover": http(500, "Internal Server Error", content_type="text/plain"),
        "initialize": rpc_error(-32600, "Invalid Request: Server already initialized", status=400),
        "GET": http(
            400,
            json.dumps({"error": {"code": -32000, "message": "Session id is required"}, "jsonrpc": "2.0"}),
        ),
    }
    with ScriptedServer(script) as server, pytest.raises(ServerError, match="already initialized") as raised:
        MCPClient(server.url).connect()
    assert "one client" in raised.value.fix


@pytest.mark.parametrize(
    "said",
    [
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x' { code: 'ERR_MODULE_NOT_FOUND' }",
        "Error: Cannot find module 'x' { code: 'MODULE_NOT_FOUND', requireStack: [] }",
    ],
)
def test_the_codes_of_node_are_no_variables(said):
    server = StdioServer("broken", [sys.executable, "-c", f"raise SystemExit({said!r})"])
    with pytest.raises(ConnectError) as raised:
        MCPClient(stdio=server).connect()
    assert "--env" not in raised.value.fix
