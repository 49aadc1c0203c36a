"""Serves node knowledge over stdio or streamable HTTP until it is told to end."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server.stdio import stdio_server

from ..types.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .server import NodeKnowledgeServer

PATH: Final = "/mcp"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_STOP_SECONDS: Final = 5


class ServingError(MCPError):
    """The server cannot listen where it was told to."""


async def serve_stdio(served: NodeKnowledgeServer) -> bool:
    """Serves one client over standard input and output.

    Args:
        served: What is served.

    Returns:
        Whether a signal ended it, and not the client.
    """
    signaled = False
    async with anyio.create_task_group() as group:

        async def wait_for_signal() -> None:
            nonlocal signaled
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    signaled = True
                    group.cancel_scope.cancel()

        async def wait_if_possible() -> None:
            with suppress(NotImplementedError):  # Windows has no such signals
                await wait_for_signal()

        group.start_soon(wait_if_possible)
        async with stdio_server() as (reader, writer):
            await served.server.run(reader, writer, served.server.create_initialization_options())
        group.cancel_scope.cancel()
    return signaled


async def serve_http(
    served: NodeKnowledgeServer,
    port: int,
    *,
    host: str = "127.0.0.1",
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal comes.

    Nothing is kept of a client between two requests, so a client may come back after a restart.

    Args:
        served: What is served.
        port: The port; 0 for any that is free.
        host: The address to listen on.
        on_ready: Told the URL.

    Raises:
        ServingError: The port is taken, or the address is not this machine's.
    """
    import uvicorn

    listening = _listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}{PATH}"
    app = served.server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, host=host
    )

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[Any] | None = None) -> None:
            await super().startup(sockets)
            if self.started and on_ready is not None:
                on_ready(url)

    config = uvicorn.Config(
        app,
        http="h11",  # httptools keeps spaces around header values, which is not how MCP compares them
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    await Announcing(config).serve(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # With the protocol spelled out asyncio switches Nagle's algorithm off; otherwise each reply takes 40
        # ms.
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(512)
    except OSError as error:
        raise ServingError(
            f"Nothing can listen at {host}, port {port}: {error.strerror or error}",
            fix="Choose another port, or 0 for any that is free.",
        ) from None
    return found
