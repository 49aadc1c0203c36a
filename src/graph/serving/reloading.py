"""Serves a document over stdio or HTTP until it is told to end, and takes over changes of its file."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ...stdio.serving import serve_one
from ...stdio.session import StdioSession, is_handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ...stdio.pipes import Incoming, Outgoing
    from ..api import McpGraphApi
    from .service import GraphService

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.25
_PATIENCE_SECONDS: Final = 30
_GRACE_SECONDS: Final = 3
"""How long runs may go on after a signal. Over HTTP; over stdio, who sends one has no use for answers."""


async def serve_stdio(service: GraphService, reload: Reload | None = None) -> bool:
    """Serves one client over standard input and output.

    Args:
        service: What is served; closed at the end.
        reload: Takes over changes of the document; None: nobody looks.

    Returns:
        Whether a signal ended it, and not the client.
    """
    beside = [] if reload is None else [partial(reload.run, service)]
    try:
        return await serve_one(partial(_serve_client, service), *beside)
    finally:
        service.close()


async def _serve_client(service: GraphService, lines: tuple[Incoming, Outgoing] | None) -> None:
    # Spans of messages are the SDK's.
    if lines is not None and not service.is_observed and is_handshake(await lines[0].first()):
        session = StdioSession(service, *lines, list_changes=True)
        service.on_change = session.tell_of_change
        await session.run()
        return
    from ...stdio.sdk_streams import sdk_streams
    from .server import GraphServer

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
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal comes.

    Args:
        service: What is served; closed at the end.
        port: The port; 0 for any that is free.
        host: The address to listen on.
        reload: Takes over changes of the document; None: nobody looks.
        on_ready: Told the URL.

    Raises:
        OSError: The address cannot be bound; says which.
    """
    from ...web.listening import Listener, serve
    from ...web.whole_requests import WholeRequests
    from .server import GraphServer

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


class Reload:
    """Takes over changes of a document's file. One with errors is not taken over; the log says what they are.

    Looks at the files now and then: that works on every file system, and ends at once.

    Args:
        files: The document, and others that it is made from, as they are now.
        load: Loads them anew.
    """

    def __init__(self, files: list[Path], load: Callable[[], McpGraphApi]) -> None:
        self._files = files
        self._load = load
        self._loaded = self._state()

    async def run(self, service: GraphService) -> None:
        """Looks at the files until it is canceled.

        Args:
            service: Gets each new version.
        """
        before = self._loaded
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            now = await anyio.to_thread.run_sync(self._state, abandon_on_cancel=True)
            # Who writes a file may not be done yet: what is taken over has stayed the same for a while.
            if now == before != self._loaded:
                self._loaded = now
                await self._take_over(service)
            before = now

    async def _take_over(self, service: GraphService) -> None:
        try:
            api = await anyio.to_thread.run_sync(self._load)
        except Exception as error:
            _log.error("The changed document is not taken over: %s", error)
            return
        await service.replace(api)
        _log.info("The changed document is served now")

    def _state(self) -> list[tuple[int, ...] | None]:
        """What is different after a change: times, sizes and, where files are replaced, numbers."""
        return [_stamp(file) for file in self._files]


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
