"""``graph serve`` and ``nodes serve`` behind keys: other clients are not let in, and those with a key are."""

import socket
import sys

import httpx
import pytest

from knime_mcp.knowledge.gateway.api_keys import KeyStore, Scope
from knime_mcp.knowledge.sources.catalogue_build import build_catalogue
from knime_mcp.tools import BearerAuth, MCPClient
from knime_mcp.types.errors import MCPError
from tests.graph.graphs import transform
from tests.graph.live import COMMAND, graph_file, served
from tests.support import commands

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return tmp_path_factory.mktemp("keys") / "keys.sqlite"


@pytest.fixture(scope="module")
def key(keys):
    def make(*scopes, **more):
        with KeyStore(keys) as store:
            return store.create("team", scopes or Scope, **more)[0]

    return make


@pytest.fixture(scope="module")
def internal():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def client(key):
    return httpx.Client(headers=HEADERS | {"X-API-Key": key}, verify=False, timeout=60)


@pytest.fixture(params=["graph", "nodes"], scope="module")
def server(request, tmp_path_factory, keys, internal):
    """URL, tool and arguments of a server that asks for keys."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    options = ("--http", "0", "--keys-file", keys)
    if request.param == "graph":
        document = graph_file(tmp_path, transform("{'r': entry.v}"))
        command, tool, arguments = ("graph", "serve", document), "t", {"v": 1}
    else:
        build_catalogue(tmp_path / "nodes.sqlite")
        command = ("nodes", "serve", "--catalogue", tmp_path / "nodes.sqlite")
        tool, arguments = "search_nodes", {"query": "send mail"}
    with served(*COMMAND, *command, *options, GATEWAY_INTERNAL_PORT=str(internal)) as running:
        yield running.url, tool, arguments


def test_only_clients_with_a_key_list_and_call(server, key, internal):
    url, tool, arguments = server
    with pytest.raises(MCPError):
        MCPClient(url).connect()
    with MCPClient(url, auth=BearerAuth(key())) as ours:
        assert tool in [found.name for found in ours.list_tools()]
        assert not ours.call_tool(tool, arguments).is_error
    with client(key(Scope.TOOLS_READ)) as reading:
        refused = reading.post(url, json=CALL | {"params": {"name": tool, "arguments": arguments}})
    assert (refused.status_code, refused.json()["details"]["missing_scope"]) == (403, "tools:execute")
    assert httpx.get(url.replace("/mcp", "/api/v1/public/health"), verify=False).json()["status"] == "healthy"
    assert httpx.get(url.replace("/mcp", "/metrics"), verify=False).status_code == 404
    counted = httpx.get(f"http://127.0.0.1:{internal}/metrics", verify=False).text
    assert f'tool_calls_total{{outcome="ok",tool="{tool}"}}' in counted
    assert 'refused_total{reason="key"}' in counted


def test_limits_count(server, key):
    url, _, _ = server
    ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nothing"}}
    with client(key(rate_limit=1)) as limited:
        assert [limited.post(url, json=ping).status_code for _ in range(2)][1] == 429
    with client(key()) as large:
        assert large.post(url, json=ping | {"id": "x" * 2_000_000}).status_code == 413


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_every_revision_passes(server, key, revision):
    url, tool, arguments = server
    with MCPClient(url, auth=BearerAuth(key()), protocol_version=revision) as ours:
        assert not ours.call_tool(tool, arguments).is_error


def test_a_session_belongs_to_the_key_that_began_it(tmp_path, keys, key):
    document = graph_file(tmp_path, transform("{'r': entry.v}"))
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    with (
        served(*COMMAND, "graph", "serve", document, "--http", "0", "--keys-file", keys) as running,
        client(key()) as mine,
        client(key()) as theirs,
    ):
        session = {"Mcp-Session-Id": mine.post(running.url, json=message).headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert theirs.post(running.url, json=listing, headers=session).status_code == 404
        assert theirs.delete(running.url, headers=session).status_code == 404
        assert mine.post(running.url, json=listing, headers=session).status_code == 200


@pytest.mark.parametrize(
    "options", [("--keys-file", "k"), ("--http", "0", "--keys-file", "k", "--unprotected")]
)
@pytest.mark.parametrize("command", [("graph", "serve", "g.yaml"), ("nodes", "serve")])
def test_keys_where_nobody_is_asked_are_an_error(tmp_path, command, options):
    done = commands.run(
        [sys.executable, "-m", "knime_mcp.cli.app", *command, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "--keys-file does not go with" in done.stderr
