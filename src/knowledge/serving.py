"""Serves node knowledge over stdio or streamable HTTP until it is told to end."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
from mcp.server.stdio import stdio_server

from ..web.listening import Listener, serve
from ..web.whole_requests import WholeRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from .server import NodeKnowledgeServer

PATH: Final = "/mcp"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_STOP_SECONDS: Final = 5
_PATIENCE: Final = 30.0


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
        OSError: The port is taken, or the address is not this machine's; says which.
    """
    app = served.server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, host=host
    )
    listener = Listener(WholeRequests(app), host, port, patience=_PATIENCE, grace=_STOP_SECONDS)
    await serve([listener], on_ready=lambda urls: on_ready(f"{urls[0]}{PATH}") if on_ready else None)
