"""Servers that send more than the one reply they owe: no row ever gets what was meant for another one."""

import gzip
import json

import pytest

from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import ConnectError
from tests.faults.rows import ROWS, WAYS, batch, good_reply, script_for
from tests.support.scripted_server import Part, ScriptedServer, http, modern, rpc, text, tool


def twice(way):
    def reply(request):
        parts = good_reply(way)(request)
        return [b"".join(parts) * 2]

    return reply


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_that_is_sent_twice_reaches_no_other_row(way):
    rows, _ = batch(script_for(way, twice(way)), bad=range(ROWS), in_flight=1)
    assert all(row.good for row in rows)


@pytest.mark.parametrize("surplus", [b"\r\n", b"\n}", b"HTTP/1.1 200 OK\r\nContent-Le", b"x" * 100_000])
def test_what_follows_a_reply_costs_its_connection_alone(surplus):
    def reply(request):
        return [*good_reply("modern-json")(request), surplus]

    def at_once(request):
        return [b"".join(reply(request))]

    rows, _ = batch(script_for("modern-json", at_once), bad=range(ROWS), in_flight=1)
    assert all(row.good for row in rows)


def compressed(pack, *after):
    """A reply as a packer packs it, chunked, with what follows."""

    def reply(request):
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("packed")}).encode()
        head = b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        return [
            head + b"Transfer-Encoding: chunked\r\n\r\n",
            *(
                b"%x\r\n%s\r\n" % (len(part), part) if isinstance(part, bytes) else part
                for part in (*pack(body), *after)
            ),
        ]

    return reply


def one_member(body):
    return [gzip.compress(body)]


def two_members(body):
    return [gzip.compress(body[:20]) + gzip.compress(body[20:])]


def members_in_chunks(body):
    return [gzip.compress(bytes([byte])) for byte in body]


@pytest.mark.parametrize(
    ("pack", "after"),
    [
        (two_members, [b""]),
        (members_in_chunks, [b""]),
        (one_member, [b"\0" * 512, Part.STALL]),
        (one_member, [*[b"\0" * 100_000] * 100, Part.STALL]),
    ],
    ids=["two-members", "many-members", "padding", "endless"],
)
def test_a_compressed_reply_is_over_with_its_last_member(pack, after):
    rows, _ = batch(script_for("modern-json", compressed(pack, *after)))
    assert {row.outcome.text for row in rows if not row.good} == {"packed"}


def not_mine(request):
    return rpc(text("not mine", resultType="complete"))(_Numbered(request.json["id"] - 1))


@pytest.mark.parametrize("way", ["modern-json", "legacy-json"])
def test_the_reply_to_another_request_is_no_result(way):
    rows, _ = batch(script_for(way, not_mine), in_flight=1)
    for row in rows:
        if row.good:
            continue
        assert isinstance(row.outcome, ConnectError)
        assert "another request" in str(row.outcome)
    assert [row.number for row in rows if not row.good] == [2, 5]


def test_what_may_run_twice_is_asked_again_after_the_reply_to_another_request():
    script = modern()
    for method, good in (
        ("tools/list", rpc({"tools": [tool(annotations={"readOnlyHint": True})]})),
        ("tools/call", rpc(text("mine"))),
    ):
        script[method] = [not_mine, good]
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.list_tools()
        assert client.call_tool("echo").text == "mine"


@pytest.mark.parametrize("form", ["null", '"server-error"', None])
def test_errors_may_lack_the_id_that_the_server_could_not_read(form):
    member = "" if form is None else f'"id": {form}, '
    body = f'{{"jsonrpc": "2.0", {member}"error": {{"code": -32603, "message": "oops"}}}}'
    rows, _ = batch(script_for("modern-json", http(200, body)), in_flight=1)
    assert ["oops" in str(row.outcome) for row in rows if not row.good] == [True, True]


class _Numbered:
    """A request as far as a reply looks at it."""

    def __init__(self, number):
        self.json = {"id": number}
