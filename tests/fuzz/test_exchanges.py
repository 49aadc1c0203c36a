"""Whole exchanges: random bytes as HTTP replies to a client that connects, lists and calls."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.client.conversation import memory
from knime_mcp.tools import Limits, MCPClient, Timeouts
from knime_mcp.types.errors import MCPError
from tests.fuzz.test_protocol import JSON
from tests.support.scripted_server import Part, ScriptedServer, legacy, modern

HURRIED = Timeouts(connect=0.5, idle=0.2, total=1.0)
LIMITS = Limits(result_bytes=20_000, event_bytes=20_000, events=50, pages=5)
HEADERS = st.sampled_from(
    [
        b"Content-Type: application/json",
        b"Content-Type: text/event-stream",
        b"Content-Type: \xff",
        b"Content-Encoding: gzip",
        b"Transfer-Encoding: chunked",
        b"Content-Length: 5",
        b"Location: //x/\xff",
        b"Location: /mcp",
        b"Retry-After: 0",
        b'WWW-Authenticate: Bearer a="',
        b"Set-Cookie: \xff=;;; Max-Age=x; Domain=..",
        b"Mcp-Session-Id: \xff",
        b"Connection: upgrade",
        b"nonsense",
        b": empty",
    ]
)
STATUSES = st.sampled_from(b"200 202 204 301 307 400 401 404 429 503 100 999 x".split())
BODIES = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    JSON.map(lambda value: b"data: " + json.dumps({"id": 1, "result": value}).encode() + b"\n\n"),
)


def reply_of(status, headers, body):
    return b"\r\n".join([b"HTTP/1.1 " + status + b" X", *headers, b"", body])


REPLIES = st.one_of(
    st.binary(max_size=100), st.builds(reply_of, STATUSES, st.lists(HEADERS, max_size=5), BODIES)
)


@pytest.fixture(scope="module")
def server():
    with ScriptedServer() as found:
        yield found


@pytest.mark.parametrize("where", ["everywhere", "modern", "legacy"])
@given(reply=REPLIES)
def test_random_replies_are_results_or_errors_of_ours(server, where, reply):
    memory.clear()
    parts = [reply, Part.CLOSE]
    server.script = {
        "everywhere": {"*": parts},
        "modern": modern(tools__list=parts, tools__call=parts),
        "legacy": legacy(session="s", tools__list=parts, tools__call=parts),
    }[where]
    client = MCPClient(server.url, timeouts=HURRIED, limits=LIMITS)
    for act in (client.list_tools, lambda: client.call_tool("echo", {"a": 1}).text):
        with contextlib.suppress(MCPError):
            act()
    client.close()
