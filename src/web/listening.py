"""Serves web applications, each on a socket of its own, until a signal comes."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_UNREAD_MS: Final = 30_000


class Listener:
    """A web application on a socket that is bound already.

    Args:
        app: The application.
        host: The address to listen on.
        port: The port; 0 for any that is free.
        patience: Seconds that a client may take for the head of a request.
        grace: Seconds that requests may take that run when the end is told.
        **options: Further ones of `uvicorn.Config`.

    Attributes:
        url: Where it listens.

    Raises:
        OSError: The address cannot be bound; says which.
    """

    def __init__(
        self, app: Any, host: str, port: int, *, patience: float, grace: int, **options: Any
    ) -> None:
        # Bound here: an address in use is an error with a name, and not the end of the process.
        self._socket = bound(host, port)
        scheme = "https" if options.get("ssl_certfile") else "http"
        name = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{name}:{self._socket.getsockname()[1]}"
        self._server = _Quiet(
            uvicorn.Config(
                app,
                # Not httptools: it keeps spaces around the values of headers.
                http=type("PatientProtocol", (_PatientProtocol,), {"seconds": patience}),
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                timeout_graceful_shutdown=grace,
                **options,
            )
        )

    async def run(self) -> None:
        """Serves until `end`."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    async def ready(self, running: Sequence[asyncio.Task[None]]) -> None:
        """Returns once requests are answered.

        Args:
            running: What runs this listener and the others.

        Raises:
            OSError: One of them ended before.
        """
        while not self._server.started:
            for task in running:
                if task.done():
                    task.result()
                    raise OSError("The listener ended before it began")
            await asyncio.sleep(0.005)

    def end(self) -> None:
        """Accepts no more requests, and ends when the last one is answered."""
        self._server.should_exit = True


class _Quiet(uvicorn.Server):
    """Leaves signals to `serve`: there may be two servers, and one of them would take them all."""

    def capture_signals(self) -> Any:
        return nullcontext()


async def serve(
    listeners: Sequence[Listener],
    *,
    on_ready: Callable[[Sequence[str]], None] | None = None,
    on_end: Callable[[], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM comes, and returns when running requests are answered.

    Args:
        listeners: What is served.
        on_ready: Told their URLs.
        on_end: Told that the end has come; requests still run then.
        stop: Ends it, too; for threads, which get no signals.
    """
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        # Windows has no such handlers, other threads may not set any.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop.set)
    log = logging.getLogger("uvicorn.error")
    log.setLevel(logging.ERROR)
    running = [asyncio.create_task(listener.run()) for listener in listeners]
    try:
        for listener in listeners:
            await listener.ready(running)
        gc.freeze()  # what is there by now stays; looking for garbage in it would hold up requests
        if on_ready is not None:
            on_ready([listener.url for listener in listeners])
        await stop.wait()
    finally:
        # A second signal ends the process at once.
        for number in _SIGNALS:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)
        log.setLevel(logging.CRITICAL)  # what is cut off now is no error
        if on_end is not None:
            on_end()
        for listener in listeners:
            listener.end()
        await asyncio.gather(*running)


def bound(host: str, port: int) -> socket.socket:
    """A socket that is bound, but does not listen yet.

    Raises:
        OSError: The address cannot be bound; says which.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches TCP_NODELAY on only where the protocol is named; without it an answer waits 40 ms.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    found.setblocking(False)
    return found


class _PatientProtocol(H11Protocol):
    """Uvicorn's HTTP protocol, with an end to its patience.

    uvicorn waits for ever for the rest of a request's head, and for a client that takes nothing of an answer.
    """

    seconds: float
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        accepted = transport.get_extra_info("socket")
        if accepted is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete:
            # Not a whole head yet, or the rest of a body that nobody waits for.
            self._wait()
        else:
            self._wait_no_more()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_no_more()

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()
