"""Serves node knowledge over stdio or streamable HTTP, until the client leaves or a signal arrives.

The SDK is loaded only if it is needed, as loading it takes longer than the rest of the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...stdio.serving import serve_one
from ...stdio.session import StdioSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...stdio.pipes import Incoming, Outgoing
    from .tools import ServedTools

PATH: Final = "/mcp"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_STOP_SECONDS: Final = 5
_PATIENCE: Final = 30.0


async def serve_stdio(tools: ServedTools) -> bool:
    """Serves one client over standard input and output.

    Args:
        tools: The tools.

    Returns:
        Whether a signal ended the session, and not the client.
    """

    async def serve_client(lines: tuple[Incoming, Outgoing] | None) -> None:
        if lines is not None:
            await StdioSession(tools, *lines).run()
            return
        from mcp.server.stdio import stdio_server

        from .sdk_server import sdk_server

        server = sdk_server(tools)
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    return await serve_one(serve_client)


async def serve_http(
    tools: ServedTools,
    port: int,
    *,
    host: str = "127.0.0.1",
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal arrives.

    The server keeps no state between requests, so clients can continue after a restart.

    Args:
        tools: The tools.
        port: The port; 0 for any free port.
        host: The address to listen on.
        on_ready: Called with the URL.

    Raises:
        OSError: The port is in use, or the address does not belong to this machine; the error says which.
    """
    from ...web.listening import Listener, serve
    from ...web.whole_requests import WholeRequests
    from .sdk_server import sdk_server

    app = sdk_server(tools).streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, host=host
    )
    listener = Listener(WholeRequests(app), host, port, patience=_PATIENCE, grace=_STOP_SECONDS)
    await serve([listener], on_ready=lambda urls: on_ready(f"{urls[0]}{PATH}") if on_ready else None)
