"""Lines written by hand at the server over pipes: every one that wants an answer gets one."""

import json
import re
import subprocess

import pytest

from tests.support import commands

from .conftest import DEADLINE, META, nodes_command

HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def request(number, method="ping", **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


@pytest.fixture(scope="module")
def answers(catalogue_file):
    """What comes back to lines, after the handshake."""

    def ask(*lines):
        sent = [request(0, "initialize", **HELLO).encode(), *lines, request("last").encode()]
        done = commands.run(
            nodes_command("serve", "--catalogue", catalogue_file),
            input=b"\n".join(sent),
            capture_output=True,
            timeout=DEADLINE,
            check=True,
        )
        assert done.stderr == b""
        first, *found = map(json.loads, done.stdout.splitlines())
        assert first["result"]["protocolVersion"] == "2025-03-26"
        return [answer for answer in found if answer != {"jsonrpc": "2.0", "id": "last", "result": {}}]

    return ask


def test_lines_that_are_no_messages(answers):
    broken = [b"{nope", b'{"a": NaN}', b"[" * 100_000, b'{"a": ' + b"9" * 5_000 + b"}"]
    odd = [b"7", b"[]", b'{"id": 5, "method": "ping"}', b'{"jsonrpc": "2.0", "id": "x", "method": 7}', b"{}"]
    codes = [(answer["id"], answer["error"]["code"]) for answer in answers(*broken, *odd)]
    assert codes == [
        *[(None, -32700)] * len(broken),
        *((None, -32600), (None, -32600), (5, -32600), ("x", -32600), (None, -32600)),
    ]


def test_what_wants_no_answer_gets_none(answers):
    silent = [
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        b'{"jsonrpc": "2.0", "method": "no/such", "params": [1]}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12}}',
        b'{"jsonrpc": "2.0", "id": 3, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": ""}}',
        b"",
        b" \r",
    ]
    assert answers(*silent) == []


@pytest.mark.parametrize("number", [1.0, -7, 2**70, "", "ä"], ids=str)
def test_an_id_comes_back_as_it_was_sent(answers, number):
    assert answers(request(number).encode()) == [{"jsonrpc": "2.0", "id": number, "result": {}}]


def test_an_id_that_is_none_does_not_come_back(answers):
    lines = [
        b'{"jsonrpc": "2.0", "id": %b, "method": %b}' % (number, method)
        for number in (b"1e400", b"-1e400", b"true", b"null", b"[1]")
        for method in (b'"ping"', b"7")
    ]
    codes = [(answer["id"], answer["error"]["code"]) for answer in answers(*lines)]
    assert codes == [(None, -32600)] * len(lines)


def test_a_batch_is_answered_in_one(answers):
    search = {"name": "search_nodes", "arguments": {"query": "join", "max_results": 1}}
    batch = [
        json.loads(request(1)),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        json.loads(request(2, "tools/call", **search)),
        7,
    ]
    ((ping, found, wrong),) = answers(json.dumps(batch).encode())
    assert ping == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert found["result"]["structuredContent"]["nodes"]
    assert wrong["error"]["code"] == -32600
    assert answers(json.dumps([batch[1]]).encode()) == []


def test_a_mark_of_the_encoding_is_no_part_of_a_message(answers):
    assert answers(b"\xef\xbb\xbf" + request(1).encode()) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


LATER = META | {"io.modelcontextprotocol/protocolVersion": "2027-01-01"}
OLDER = META | {"io.modelcontextprotocol/protocolVersion": "2026-01-01"}


def test_a_client_of_2026_07_28_needs_neither_handshake_nor_the_sdk(catalogue_file):
    search = {"name": "search_nodes", "arguments": {"query": "join", "max_results": 1}}
    asked = [
        ("server/discover", {"_meta": META}),
        ("tools/list", {"_meta": META}),
        ("tools/call", search | {"_meta": META}),
        ("tools/call", {"name": "nope", "_meta": META}),
        ("ping", {"_meta": META}),
        ("initialize", HELLO),
        ("tools/list", {}),
        ("tools/list", {"_meta": OLDER}),
        ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
    ]
    program, *rest = nodes_command("serve", "--catalogue", catalogue_file)
    done = subprocess.run(
        [program, "-X", "importtime", *rest],
        input="\n".join(request(number, method, **params) for number, (method, params) in enumerate(asked)),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert not re.search(r"\| +(mcp|mcp_types|starlette|uvicorn)$", done.stderr, re.MULTILINE)
    found = sorted(map(json.loads, done.stdout.splitlines()), key=lambda answer: answer["id"])
    discovered, listed, called = (answer["result"] for answer in found[:3])
    assert discovered["supportedVersions"] == ["2026-07-28"]
    assert discovered["capabilities"] == {"tools": {"listChanged": False}}
    assert len(listed["tools"]) == 6
    assert called["structuredContent"]["nodes"][0]["name"] == "Joiner"
    for result in (discovered, listed, called):
        assert result["resultType"] == "complete"
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "knime-mcp-nodes"
    for result in (discovered, listed):
        assert (result["ttlMs"], result["cacheScope"]) == (3_600_000, "public")
    errors = [answer["error"] for answer in found[3:]]
    assert [error["code"] for error in errors] == [-32602, -32601, -32022, -32602, -32022, -32602]
    assert errors[2]["data"] == {"supported": ["2026-07-28"], "requested": "2025-03-26"}
    assert errors[4]["data"]["requested"] == "2026-01-01"


def test_a_version_of_the_future_does_not_keep_a_client_from_the_handshake(catalogue_file):
    done = commands.run(
        nodes_command("serve", "--catalogue", catalogue_file),
        input="\n".join(
            (request(1, "server/discover", _meta=LATER), request(2, "initialize", **HELLO), request(3))
        ),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    refused, welcome, pong = map(json.loads, done.stdout.splitlines())
    assert refused["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2027-01-01"}
    assert welcome["result"]["protocolVersion"] == "2025-03-26"
    assert pong["result"] == {}
