"""Serves a document over stdio or HTTP until it is told to end, and takes over changes of its file."""

from __future__ import annotations

import logging
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from .pipes import stdio_streams

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..api import McpGraphApi
    from .server import GraphServer

_log = logging.getLogger(__name__)


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
                with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                    async for _ in signals:
                        signaled = True
                        group.cancel_scope.cancel()

            with suppress(NotImplementedError):  # Windows has no such signals
                group.start_soon(wait_for_signal)
            if reload is not None:
                group.start_soon(reload.run, served)
            async with stdio_streams() as (reader, writer):
                await served.server.run(reader, writer, served.initialization())
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
    """
    import uvicorn

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[object] | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            await super().startup(sockets)  # pyright: ignore[reportArgumentType]
            if self.started and on_ready is not None:
                number = self.servers[0].sockets[0].getsockname()[1]
                name = f"[{host}]" if ":" in host else host
                on_ready(f"http://{name}:{number}/mcp")

    app = served.server.streamable_http_app(host=host)
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=3
    )
    try:
        async with anyio.create_task_group() as group:
            if reload is not None:
                group.start_soon(reload.run, served)
            await Announcing(config).serve()
            group.cancel_scope.cancel()
    finally:
        served.close()


class Reload:
    """Takes over changes of a document's file. One with errors is not taken over; the log says what they are.

    Args:
        files: The document, and others that it is made from.
        load: Loads them anew.
    """

    def __init__(self, files: list[Path], load: Callable[[], McpGraphApi]) -> None:
        self._files = {file.resolve() for file in files}
        self._load = load

    async def run(self, served: GraphServer) -> None:
        """Looks at the files until it is canceled.

        Args:
            served: Gets each new version.
        """
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType] - of an event's type

        folders = {file.parent for file in self._files}
        # Editors replace files: what is watched is the folder.
        changes = awatch(
            *folders,
            watch_filter=lambda _, path: anyio.Path(path).name in {file.name for file in self._files},
            recursive=False,
            debounce=100,
            step=25,
        )
        async for _ in changes:
            try:
                api = await anyio.to_thread.run_sync(self._load)
            except Exception as error:
                _log.error("The changed document is not taken over: %s", error)
                continue
            await served.replace(api)
            _log.info("The changed document is served now")
