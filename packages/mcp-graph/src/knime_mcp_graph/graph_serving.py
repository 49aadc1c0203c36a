"""Serves a document over stdio or HTTP until the client leaves or a signal comes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from knime_mcp.web.listening import Listener, serve
from knime_mcp.web.tool_server import LOOPBACK, PATH, ToolServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .graph_service import GraphService, Reload

_GRACE_SECONDS: Final = 3
"""Time for runs to finish after a signal over HTTP. Over stdio runs end at once: no client reads answers."""


def serve_stdio(service: GraphService, *, reload: Reload | None = None) -> bool:
    """Serves one client over standard input and output; returns whether a signal ended it."""
    served = _server(service)
    try:
        return served.run_stdio(*([] if reload is None else [partial(reload.run, service)]))
    finally:
        service.close()


async def serve_http(
    service: GraphService,
    port: int,
    *,
    host: str = "127.0.0.1",
    reload: Reload | None = None,
    tokens: Iterable[str] | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal comes.

    With `tokens`, clients need one of them as a bearer token; without, at this machine's address, only those
    that ask for this machine are let in.
    """
    served = _server(service)
    app = served.http_app(checks_host=tokens is None and host in LOOPBACK, tokens=tokens)

    def ready(urls: Sequence[str]) -> None:
        if on_ready is not None:
            on_ready(f"{urls[0]}{PATH}")

    def end() -> None:
        served.end_streams()
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, service.end_runs)

    try:
        listener = Listener(app, host, port, grace=2 * _GRACE_SECONDS)
        async with anyio.create_task_group() as group:
            if reload is not None:
                group.start_soon(reload.run, service)
            await serve([listener], on_ready=ready, on_end=end)
            # `reload` waits for changes without an end.
            group.cancel_scope.cancel()
    finally:
        service.close()


def _server(service: GraphService) -> ToolServer:
    served = ToolServer(service, changing=True)
    service.on_change = served.tell_of_change
    return served
