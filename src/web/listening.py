"""Serves web applications with uvicorn, each on its own socket, until a signal comes.

uvicorn has no time limits for slow clients: on a network, a proxy stands before it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from typing import TYPE_CHECKING, Any

import uvicorn

from ..system import on_ending, take_port_again

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Listener:
    """A web application on a bound socket; port 0 is any that is free.

    `grace` is the seconds that running requests have at the end. Raises `OSError` if the address cannot be
    bound, and names it.
    """

    def __init__(self, app: Any, host: str, port: int, *, grace: int, **options: Any) -> None:
        # Bound here, so that an address in use raises an OSError; uvicorn would end the process.
        self._socket = bound(host, port)
        scheme = "https" if options.get("ssl_certfile") else "http"
        name = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{name}:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http="h11",  # httptools keeps spaces around the values of headers
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                timeout_graceful_shutdown=grace,
                **options,
            )
        )

    async def run(self) -> None:
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    async def ready(self, running: Sequence[asyncio.Task[None]]) -> None:
        """Waits until requests are answered."""
        while not self._server.started:
            for task in running:
                if task.done():
                    task.result()
                    raise OSError("The listener ended before it began")
            await asyncio.sleep(0.005)

    def end(self) -> None:
        """Lets `run` end when the last request is answered."""
        self._server.should_exit = True


async def serve(
    listeners: Sequence[Listener],
    *,
    on_ready: Callable[[Sequence[str]], None] | None = None,
    on_end: Callable[[], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM comes, and returns when running requests are answered.

    `stop` also ends the serving; for threads, which get no signals.
    """
    stop = stop or asyncio.Event()
    log = logging.getLogger("uvicorn.error")
    log.setLevel(logging.ERROR)
    running = [asyncio.create_task(listener.run()) for listener in listeners]
    try:
        for listener in listeners:
            await listener.ready(running)
        # After uvicorn's own handlers, of which several listeners would have only one.
        ignore_signals = on_ending(asyncio.get_running_loop(), stop.set)
        gc.freeze()  # long-lived objects; collecting them would delay requests
        if on_ready is not None:
            on_ready([listener.url for listener in listeners])
        await stop.wait()
        # A second signal ends the process at once.
        ignore_signals()
    finally:
        log.setLevel(logging.CRITICAL)  # requests that are cut off now are not errors
        if on_end is not None:
            on_end()
        for listener in listeners:
            listener.end()
        await asyncio.gather(*running)


def bound(host: str, port: int) -> socket.socket:
    """A socket that is bound, but does not listen yet. An `OSError` names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given; without it an answer waits 40 ms.
    bound_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        take_port_again(bound_socket)
        bound_socket.bind((host, port))
    except OSError as error:
        bound_socket.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    bound_socket.setblocking(False)
    return bound_socket
