"""Sessions on standard input, message by message: with a handshake, and of 2026-07-28 without one."""

import json

import pytest

from tests.support.waiting import until

from .graphs import call, transform
from .live import PROGRAM, graph_file, served, waiting_file

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


def hello(version):
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


@pytest.mark.parametrize(
    ("asked", "given"),
    [("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2099-01-01", "2025-11-25")],
)
def test_the_revision_is_agreed_on(server, asked, given):
    found = server.ask("initialize", **hello(asked))["result"]
    assert found == {
        "protocolVersion": given,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "s", "title": "s", "version": "1"},
    }
    assert server.ask("ping", "text")["id"] == "text"
    assert server.ask("tools/call", **CALL)["result"]["structuredContent"] == {"r": 1}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/list", {}, -32601),
        ("tools/call", {"arguments": {}}, -32602),
        ("tools/call", {"name": "t", "arguments": [1]}, -32602),
        ("tools/call", {"name": "t", "_meta": 5}, -32602),
        ("initialize", {}, -32602),
    ],
)
def test_what_cannot_be_answered_is_refused_and_the_session_goes_on(server, method, params, code):
    server.greet()
    assert server.ask(method, 7, **params)["error"]["code"] == code
    assert server.ask("tools/call", **CALL)["result"]["structuredContent"] == {"r": 1}


def test_before_a_handshake_that_is_refused_and_one_that_is_not(server):
    assert server.ask("initialize", protocolVersion=5)["error"]["code"] == -32602
    assert "error" in server.ask("tools/list")
    assert "result" in server.ask("ping")
    server.greet()
    assert [tool["name"] for tool in server.ask("tools/list")["result"]["tools"]] == ["t"]


def test_after_what_is_no_request_the_session_goes_on(server):
    server.greet()
    lines = [
        "no json",
        "[]",
        '{"jsonrpc": "2.0", "id": 1, "result": {}}',
        '{"id": 1, "method": "ping"}',
        "[" * 5000,
    ]
    notes = [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}]
    server.process.stdin.write("\n".join([*lines, *map(json.dumps, notes)]) + "\n")
    answer = server.ask("tools/call", 2, **CALL)
    while answer["id"] != 2:
        assert answer["error"]["code"] in {-32700, -32600}
        answer = json.loads(server.process.stdout.readline())
    assert answer["result"]["structuredContent"] == {"r": 1}


def test_a_call_that_is_canceled_is_not_answered(tmp_path):
    file, begun, _ = waiting_file(tmp_path)
    with served(*PROGRAM, "-g", file) as server:
        server.greet()
        server.send("tools/call", 2, name="t", arguments={})
        until(begun.exists)
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
        server.process.stdin.write(json.dumps(note) + "\n")
        assert server.ask("ping", 3) == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_progress_comes_before_the_answer(tmp_path):
    file = graph_file(tmp_path, call("progress"))
    with served(*PROGRAM, "-g", file) as server:
        server.greet()
        told = server.ask("tools/call", 2, name="t", arguments={}, _meta={"progressToken": "token"})
        assert told["method"] == "notifications/progress"
        assert told["params"] == {"progressToken": "token", "progress": 1.0, "message": "entry"}


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
