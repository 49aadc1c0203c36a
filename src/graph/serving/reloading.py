"""Serves a document over stdio or HTTP until it is told to end, and takes over changes of its file."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio

from .pipes import stdio_streams

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator
    from pathlib import Path

    from ..api import McpGraphApi
    from .server import GraphServer

_log = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS: Final = 0.25
_GRACE_SECONDS: Final = 3
"""How long runs may go on after a signal. Over HTTP; over stdio, who sends one has no use for answers."""


async def serve_stdio(served: GraphServer, reload: Reload | None = None) -> bool:
    """Serves one client over standard input and output.

    Args:
        served: What is served; closed at the end.
        reload: Takes over changes of the document; None: nobody looks.

    Returns:
        Whether a signal ended it, and not the client.
    """
    signaled = False
    try:
        async with anyio.create_task_group() as group:

            async def wait_for_signal() -> None:
                nonlocal signaled
                with anyio.open_signal_receiver(*_SIGNALS) as signals:
                    async for _ in signals:
                        signaled = True
                        group.cancel_scope.cancel()

            with suppress(NotImplementedError):  # Windows has no such signals
                group.start_soon(wait_for_signal)
            if reload is not None:
                group.start_soon(reload.run, served)
            async with stdio_streams() as (reader, writer):
                await served.run(reader, writer)
            group.cancel_scope.cancel()
    finally:
        served.close()
    return signaled


async def serve_http(
    served: GraphServer,
    port: int,
    *,
    host: str = "127.0.0.1",
    reload: Reload | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal comes.

    Args:
        served: What is served; closed at the end.
        port: The port; 0 for any that is free.
        host: The address to listen on.
        reload: Takes over changes of the document; None: nobody looks.
        on_ready: Told the URL.

    Raises:
        OSError: The address cannot be bound; says which.
    """
    import uvicorn

    from ...web.listening import bound
    from ...web.whole_requests import WholeRequests

    # Bound here: uvicorn would end the process.
    listening = bound(host, port)

    class Announcing(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None]:
            # The original raises the signal once more at the end, before anything of ours is closed.
            before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        async def startup(self, sockets: list[object] | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            await super().startup(sockets)  # pyright: ignore[reportArgumentType]
            if self.started and on_ready is not None:
                number = self.servers[0].sockets[0].getsockname()[1]
                name = f"[{host}]" if ":" in host else host
                on_ready(f"http://{name}:{number}/mcp")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Streams that are cut off now are no errors.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            served.end_streams()
            ending = asyncio.get_running_loop().call_later(_GRACE_SECONDS, served.end_runs)
            await super().shutdown(sockets)
            ending.cancel()

    app = WholeRequests(served.server.streamable_http_app(host=host))
    config = uvicorn.Config(
        app,
        http="h11",  # httptools keeps spaces around header values, which is not how MCP compares them
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2 * _GRACE_SECONDS,
    )
    try:
        async with anyio.create_task_group() as group:
            if reload is not None:
                group.start_soon(reload.run, served)
            await Announcing(config).serve([listening])
            group.cancel_scope.cancel()
    finally:
        served.close()


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

    async def run(self, served: GraphServer) -> None:
        """Looks at the files until it is canceled.

        Args:
            served: Gets each new version.
        """
        before = self._loaded
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            now = await anyio.to_thread.run_sync(self._state, abandon_on_cancel=True)
            # Who writes a file may not be done yet: what is taken over has stayed the same for a while.
            if now == before != self._loaded:
                self._loaded = now
                await self._take_over(served)
            before = now

    async def _take_over(self, served: GraphServer) -> None:
        try:
            api = await anyio.to_thread.run_sync(self._load)
        except Exception as error:
            _log.error("The changed document is not taken over: %s", error)
            return
        await served.replace(api)
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
