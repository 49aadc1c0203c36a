"""Servers that crash and come back while a client is connected."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import MCPError
from tests.support import peers
from tests.support.peers import Server, running

pytestmark = pytest.mark.peer


def _add(client: MCPClient) -> str:
    return client.call_tool("add", {"a": 1, "b": 2}).text


def _survives(server: Server, paths: list[str]) -> None:
    """Clients go on after a restart, and say what is wrong while the server is away."""
    with running(server):
        clients = [MCPClient(server.url(path)) for path in paths]
        try:
            assert [_add(client) for client in clients] == ["3"] * len(paths)
            server.restart()
            assert [_add(client) for client in clients] == ["3"] * len(paths)
            server.kill()
            for client, path in zip(clients, paths, strict=True):
                with pytest.raises(MCPError) as raised:
                    _add(client)
                assert raised.value.server == server.url(path)
                assert raised.value.fix
            server.start()
            assert [_add(client) for client in clients] == ["3"] * len(paths)
            assert [len(client.list_tools()) for client in clients] == [10] * len(paths)
        finally:
            for client in clients:
                client.close()


def test_a_handshake_server_is_restarted() -> None:
    _survives(peers.mcp1(), ["/stateful", "/stateless", "/json", "/sse"])


def test_a_modern_server_is_restarted() -> None:
    _survives(peers.mcp2(), ["/stateful", "/stateless-json", "/sse"])


def test_server_everything_is_restarted() -> None:
    # It answers an unknown session with 400 and code -32000, not with 404 as the specification has it.
    with running(peers.everything("streamableHttp")) as server, MCPClient(server.url("/mcp")) as client:
        assert client.call_tool("echo", {"message": "before"}).text == "Echo: before"
        server.restart()
        assert client.call_tool("echo", {"message": "after"}).text == "Echo: after"


def test_a_server_that_dies_during_calls_fails_these_calls_only() -> None:
    with running(peers.mcp1()) as server, ThreadPoolExecutor(2) as threads:
        clients = [MCPClient(server.url(path)) for path in ("/stateful", "/sse")]
        begun = [threading.Event() for _ in clients]
        calls = [
            threads.submit(
                client.call_tool,
                "countdown",
                {"steps": 2000},
                on_progress=lambda progress, event=event: event.set(),
            )
            for client, event in zip(clients, begun, strict=True)
        ]
        assert all(event.wait(30) for event in begun)
        server.kill()
        for call in calls:
            error = call.exception(20)
            assert isinstance(error, MCPError)
            assert error.tool == "countdown"
        server.start()
        assert [_add(client) for client in clients] == ["3", "3"]
        for client in clients:
            client.close()
