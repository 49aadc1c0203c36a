"""Serves a document over stdio or HTTP until the client leaves or a signal comes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ..stdio.pipes import serve_one
from ..stdio.session import StdioSession, is_handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..stdio.pipes import Incoming, Outgoing
    from .graph_service import GraphService, Reload

_PATIENCE_SECONDS: Final = 30
_GRACE_SECONDS: Final = 3
"""Time for runs to finish after a signal over HTTP. Over stdio runs end at once: no client reads answers."""


async def serve_stdio(service: GraphService, reload: Reload | None = None) -> bool:
    """Serves one client over standard input and output; returns whether a signal ended it."""
    beside = [] if reload is None else [partial(reload.run, service)]
    try:
        return await serve_one(partial(_serve_client, service), *beside)
    finally:
        service.close()


async def _serve_client(service: GraphService, lines: tuple[Incoming, Outgoing] | None) -> None:
    # With spans, the SDK serves, as it makes spans for messages.
    if lines is not None and not service.is_observed and is_handshake(await lines[0].first()):
        session = StdioSession(service, *lines, list_changes=True)
        service.on_change = session.tell_of_change
        await session.run()
        return
    from ..stdio.sdk_streams import sdk_streams
    from .sdk_server import GraphServer

    async with sdk_streams(lines) as (reader, writer):
        await GraphServer(service).run(reader, writer)


async def serve_http(
    service: GraphService,
    port: int,
    *,
    host: str = "127.0.0.1",
    reload: Reload | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal comes."""
    from ..web.listening import Listener, WholeRequests, serve
    from .sdk_server import GraphServer

    served = GraphServer(service)
    app = WholeRequests(served.server.streamable_http_app(host=host))

    def ready(urls: Sequence[str]) -> None:
        if on_ready is not None:
            on_ready(f"{urls[0]}/mcp")

    def end() -> None:
        served.end_streams()
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, service.end_runs)

    try:
        listener = Listener(app, host, port, patience=_PATIENCE_SECONDS, grace=2 * _GRACE_SECONDS)
        async with anyio.create_task_group() as group:
            if reload is not None:
                group.start_soon(reload.run, service)
            await serve([listener], on_ready=ready, on_end=end)
            group.cancel_scope.cancel()
    finally:
        service.close()
