"""Servers on the Python SDKs: every transport, both eras, sessions, concurrency, cancel."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from knime_mcp.client.protocol.tools import ImageContent
from knime_mcp.tools import ABSENT, MCPClient, Progress
from knime_mcp.types.errors import Canceled, TimedOut
from tests.support.peers import Server
from tests.support.waiting import until

pytestmark = pytest.mark.peer

DEADLINE = 30.0
TOOLS = ["add", "echo", "describe", "order", "pixel", "divide", "countdown", "wait", "waiting", "headers"]


class Peer(NamedTuple):
    server: str  # fixture
    path: str
    version: str  # that is negotiated
    session: bool  # whether the server keeps one

    @property
    def transport(self) -> str:
        return "sse" if self.path == "/sse" else "http"


PEERS = [
    Peer("mcp2", "/stateful", "2026-07-28", session=False),
    Peer("mcp2", "/stateless", "2026-07-28", session=False),
    Peer("mcp2", "/json", "2026-07-28", session=False),
    Peer("mcp2", "/stateless-json", "2026-07-28", session=False),
    Peer("mcp2", "/sse", "2026-07-28", session=False),
    Peer("mcp1", "/stateful", "2025-11-25", session=True),
    Peer("mcp1", "/stateless", "2025-11-25", session=False),
    Peer("mcp1", "/json", "2025-11-25", session=True),
    Peer("mcp1", "/stateless-json", "2025-11-25", session=False),
    Peer("mcp1", "/sse", "2025-11-25", session=False),
    Peer("fastmcp4", "/stateful", "2026-07-28", session=False),
    Peer("fastmcp4", "/stateless", "2026-07-28", session=False),
    Peer("fastmcp4", "/sse", "2026-07-28", session=False),
    Peer("fastmcp3", "/stateful", "2025-11-25", session=True),
    Peer("fastmcp3", "/stateless", "2025-11-25", session=False),
    Peer("fastmcp3", "/sse", "2025-11-25", session=False),
]
# One server per era and transport, for what does not depend on the maker of the server.
SAMPLE = [Peer("mcp2", "/stateful", "2026-07-28", False), PEERS[4], PEERS[5], PEERS[9]]


def _name(peer: Peer) -> str:
    return f"{peer.server}{peer.path}"


@pytest.fixture(params=PEERS, ids=_name)
def peer(request: pytest.FixtureRequest) -> Peer:
    return request.param


@pytest.fixture
def url(request: pytest.FixtureRequest, peer: Peer) -> str:
    server: Server = request.getfixturevalue(peer.server)
    return server.url(peer.path)


@pytest.mark.requirement("T10")
def test_transport_and_revision_are_found(peer: Peer, url: str) -> None:
    with MCPClient(url) as client:
        info = client.server
    assert (info.transport, info.protocol_version) == (peer.transport, peer.version)
    assert (info.name, info.instructions) == ("workshop", "Tools for tests.")


@pytest.mark.requirement("T9", "T27", "T28")
def test_connect_list_call(peer: Peer, url: str) -> None:
    client = MCPClient()
    client.connect(url)
    try:
        tools = {tool.name: tool for tool in client.list_tools()}
        assert list(tools) == TOOLS
        assert tools["add"].description == "Adds two whole numbers."
        assert tools["add"].input_schema["properties"]["a"]["type"] == "integer"
        assert tools["headers"].input_schema.get("properties", {}) == {}
        assert client.call_tool("add", {"a": 19, "b": 23}).structured_content == {"result": 42}
    finally:
        client.close()


def test_results_of_every_kind(peer: Peer, url: str) -> None:
    with MCPClient(url) as client:
        assert client.call_tool("echo", {"text": "zwölf 🎉 ", "times": 2}).text == "zwölf 🎉 zwölf 🎉 "
        described = client.call_tool("describe", {"values": [-1, 2.5, 4], "which": "positive"})
        assert described.structured_content == {"count": 2, "mean": 3.25, "largest": 4.0}
        order = {
            "customer": "Ada",
            "items": [{"article": "crate", "amount": 2, "parts": [{"article": "nail", "amount": 40}]}],
            "priority": "high",
            "note": None,
        }
        assert client.call_tool("order", {"order": order}).text == "Ada (high): 2 crate; None"
        image = client.call_tool("pixel")
        assert isinstance(image.content[0], ImageContent)
        assert image.content[0].data.startswith(b"\x89PNG")
        assert image.structured_content is ABSENT


def test_failures_of_a_tool_are_results(peer: Peer, url: str) -> None:
    with MCPClient(url) as client:
        divided = client.call_tool("divide", {"a": 1, "b": 0})
        assert divided.is_error
        assert "divide" in divided.text
        assert client.call_tool("divide", {"a": 1, "b": 4}).structured_content == {"result": 0.25}


def test_progress_is_reported_in_order(peer: Peer, url: str) -> None:
    seen: list[Progress] = []
    with MCPClient(url) as client:
        assert client.call_tool("countdown", {"steps": 5}, on_progress=seen.append).text == "counted 5 steps"
    # A server that answers with one JSON object has nowhere to put notifications.
    if "json" in peer.path:
        assert seen == []
    else:
        reported = [(progress.progress, progress.total) for progress in seen]
        assert reported == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)][: len(reported)]
        assert len(reported) >= 4


def test_headers_and_sessions(peer: Peer, url: str) -> None:
    with MCPClient(url) as one, MCPClient(url) as other:
        first, second, foreign = (
            client.call_tool("headers").structured_content for client in (one, one, other)
        )
    assert first == second
    if peer.transport == "http":
        assert first["mcp-protocol-version"] == peer.version
        assert ("mcp-session-id" in first) == peer.session
        assert (first != foreign) == peer.session
    if peer.version == "2026-07-28" and peer.transport == "http":
        assert (first["mcp-method"], first["mcp-name"]) == ("tools/call", "headers")


def test_closing_ends_the_session(mcp1: Server) -> None:
    url = mcp1.url("/stateful")
    with MCPClient(url) as client:
        session = client.call_tool("headers").structured_content["mcp-session-id"]
    headers = {"Accept": "application/json, text/event-stream", "Mcp-Session-Id": session}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert httpx.post(url, json=ping, headers=headers).status_code == 404


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("path", ["/stateful", "/stateless-json", "/sse"])
def test_every_revision_can_be_asked_for(mcp2: Server, version: str, path: str) -> None:
    with MCPClient(mcp2.url(path), protocol_version=version) as client:
        assert client.server.protocol_version == version
        assert [tool.name for tool in client.list_tools()] == TOOLS
        assert (
            client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"result": 3}
            or version < "2025-06"
        )
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_an_older_revision_with_an_older_server(mcp1: Server, version: str) -> None:
    with MCPClient(mcp1.url("/stateful"), protocol_version=version) as client:
        assert client.server.protocol_version == version
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


@pytest.mark.parametrize("peer", PEERS, ids=_name)
def test_the_transport_can_be_fixed(peer: Peer, url: str) -> None:
    with MCPClient(url, transport="sse" if peer.transport == "sse" else "http") as client:
        assert client.server.transport == peer.transport
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"


def test_eight_threads_share_one_client(peer: Peer, url: str) -> None:
    with MCPClient(url) as client, ThreadPoolExecutor(8) as threads:

        def work(number: int) -> list[Any]:
            seen: list[float] = []
            added = client.call_tool("add", {"a": number, "b": 1000}).structured_content
            echoed = client.call_tool("echo", {"text": f"<{number}>"}).text
            counted = client.call_tool(
                "countdown",
                {"steps": number % 3 + 1},
                on_progress=lambda progress: seen.append(progress.progress),
            )
            return [
                added,
                echoed,
                counted.text,
                seen == sorted(set(seen)) and max(seen, default=0) <= number % 3 + 1,
            ]

        done = list(threads.map(work, range(16)))
    assert done == [
        [{"result": number + 1000}, f"<{number}>", f"counted {number % 3 + 1} steps", True]
        for number in range(16)
    ]


@pytest.mark.parametrize("peer", SAMPLE, ids=_name)
def test_calls_overlap_and_cancel_reaches_the_server(peer: Peer, url: str) -> None:
    stop = threading.Event()
    with MCPClient(url) as client, ThreadPoolExecutor(7) as threads:

        def waits(what: str) -> int:
            return int(client.call_tool("waiting").structured_content[what])

        before = waits("canceled")
        calls = [
            threads.submit(client.call_tool, "wait", {"seconds": 60}, is_canceled=stop.is_set)
            for _ in range(7)
        ]
        try:
            until(lambda: waits("running") == 7, "seven calls at once")
        finally:
            stop.set()
        for call in calls:
            assert isinstance(call.exception(DEADLINE), Canceled)
        until(lambda: waits("canceled") == before + 7, "seven calls canceled at the server")
        assert waits("running") == 0


@pytest.mark.parametrize("peer", SAMPLE, ids=_name)
def test_the_total_clock_ends_a_call_and_the_client_goes_on(peer: Peer, url: str) -> None:
    with MCPClient(url) as client:
        with pytest.raises(TimedOut) as raised:
            client.call_tool("wait", {"seconds": 60}, timeout=0.3)
        assert (raised.value.kind, raised.value.tool) == ("total", "wait")
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"
        until(
            lambda: client.call_tool("waiting").structured_content["running"] == 0,
            "the server stopped waiting",
        )
