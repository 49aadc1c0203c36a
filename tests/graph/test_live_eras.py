"""The era that a client opens with on standard input holds for its connection."""

import pytest

from .graphs import transform
from .live import PROGRAM, graph_file, served

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL = {"name": "t", "arguments": {"v": 1}}


@pytest.fixture
def server(tmp_path):
    with served(*PROGRAM, "-g", graph_file(tmp_path, transform("{'r': entry.v}"))) as found:
        yield found


def test_after_a_handshake_requests_of_the_other_era_are_refused(server):
    assert server.greet()["result"]["protocolVersion"] == "2025-11-25"
    assert server.ask("tools/call", **CALL)["result"]["structuredContent"] == {"r": 1}
    assert server.ask("tools/call", **CALL, _meta=MODERN)["error"]["code"] == -32600
    assert server.ask("tools/list", _meta=MODERN)["error"]["code"] == -32600
    assert server.ask("tools/call", **CALL)["result"]["structuredContent"] == {"r": 1}


def test_a_client_without_a_handshake(server):
    found = server.ask("tools/call", **CALL, _meta=MODERN)["result"]
    assert (found["structuredContent"], found["resultType"]) == ({"r": 1}, "complete")
    assert server.greet()["error"]["code"] == -32022


def test_what_is_no_request_does_not_choose(server):
    server.process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\nno json\n')
    assert server.greet()["result"]["protocolVersion"] == "2025-11-25"
    assert server.ask("tools/call", **CALL)["result"]["structuredContent"] == {"r": 1}
