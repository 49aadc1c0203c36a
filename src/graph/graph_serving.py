"""Serves a document over stdio or HTTP until the client leaves or a signal comes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio

from ..stdio.pipes import serve_one
from ..stdio.session import StdioSession, is_handshake

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager

    from ..stdio.pipes import Incoming, OutputPipe
    from ..web.listening import Listener
    from .graph_service import GraphService, Reload
    from .sdk_server import GraphServer, Served

_PATIENCE_SECONDS: Final = 30
_GRACE_SECONDS: Final = 3
"""Time for runs to finish after a signal over HTTP. Over stdio runs end at once: no client reads answers."""


async def serve_stdio(service: Served, *beside: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Serves one client over standard input and output; returns whether a signal ended it.

    What is `beside` runs as long.
    """
    try:
        return await serve_one(partial(_serve_client, service), *beside)
    finally:
        service.close()


async def _serve_client(service: Served, lines: tuple[Incoming, OutputPipe] | None) -> None:
    # With spans, the SDK serves, as it makes spans for messages.
    if lines is not None and not service.is_observed and is_handshake(await lines[0].first()):
        session = StdioSession(service, *lines, list_changes=True)
        service.on_change = session.tell_of_change
        await session.run()
        return
    from .sdk_server import GraphServer, sdk_streams

    async with sdk_streams(lines) as (reader, writer):
        await GraphServer(service).run(reader, writer)


async def serve_http(
    service: GraphService,
    port: int,
    *,
    host: str = "127.0.0.1",
    reload: Reload | None = None,
    on_ready: Callable[[str], None] | None = None,
    guard: HttpGuard | None = None,
) -> None:
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal comes.

    `guard` lets in only clients that it knows; it has its own address.
    """
    from ..web.listening import serve
    from .sdk_server import GraphServer

    served = GraphServer(service, on_result=None if guard is None else guard.count_call)

    def ready(urls: Sequence[str]) -> None:
        if on_ready is not None:
            on_ready(f"{urls[0]}/mcp")

    def end() -> None:
        served.end_streams()
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, service.end_runs)

    try:
        async with (
            _unguarded(served, host, port) if guard is None else guard.around(served) as listeners,
            anyio.create_task_group() as group,
        ):
            if reload is not None:
                group.start_soon(reload.run, service)
            await serve(listeners, on_ready=ready, on_end=end)
            # `reload` waits for changes without an end.
            group.cancel_scope.cancel()
    finally:
        service.close()


@asynccontextmanager
async def _unguarded(served: GraphServer, host: str, port: int) -> AsyncGenerator[list[Listener]]:
    from ..web.listening import Listener, WholeRequests

    app = WholeRequests(served.server.streamable_http_app(host=host))
    yield [Listener(app, host, port, patience=_PATIENCE_SECONDS, grace=2 * _GRACE_SECONDS)]


class HttpGuard(Protocol):
    """Stands before a server on HTTP: keys, logins, scopes, limits, metrics."""

    def around(self, served: GraphServer) -> AbstractAsyncContextManager[list[Listener]]:
        """The listeners that let clients through to the server."""
        ...

    def count_call(self, tool: str, outcome: str, seconds: float) -> None: ...
