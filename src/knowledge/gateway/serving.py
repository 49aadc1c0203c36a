"""Runs the two listeners until a signal comes, and keeps slow and silent clients from staying."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ...types.errors import SettingInvalid
from .app import internal_app, public_app
from .observability import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from .gateway import Gateway
    from .settings import GatewaySettings

_UNREAD_MS: Final = 30_000
_Protocol: Any = AutoHTTPProtocol


def serve(
    gateway: Gateway,
    *,
    on_ready: Callable[[str, str | None], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serves a gateway; returns after SIGINT or SIGTERM, when running requests are answered.

    Args:
        gateway: What is served.
        on_ready: Told the URLs of the public and of the internal listener.
        stop: Ends it, too; for threads, which get no signals.

    Raises:
        SettingInvalid: The certificate cannot be used.
        OSError: An address cannot be bound.
    """
    asyncio.run(serve_until(gateway, on_ready=on_ready, stop=stop))


async def serve_until(
    gateway: Gateway,
    *,
    on_ready: Callable[[str, str | None], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serves a gateway, see `serve`."""
    settings = gateway.settings
    if settings.needs_tls_warning:
        LOGGER.warning(
            "Keys travel unencrypted: this gateway listens beyond this machine on plain HTTP. Set"
            " GATEWAY_TLS_CERTIFICATE and GATEWAY_TLS_KEY, or GATEWAY_BEHIND_PROXY behind an HTTPS proxy."
        )
    tls = _tls(settings)
    listeners = [_Listener(gateway, public_app(gateway), settings.gateway_host, settings.gateway_port, **tls)]
    if settings.gateway_internal_port >= 0:
        host, port = settings.gateway_internal_host, settings.gateway_internal_port
        listeners.append(_Listener(gateway, internal_app(gateway), host, port))
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Windows has no such handlers, other threads may not set any.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop.set)
    running = [asyncio.create_task(listener.run()) for listener in listeners]
    try:
        for listener in listeners:
            await listener.ready(running)
        if on_ready is not None:
            urls = [listener.url for listener in listeners]
            on_ready(urls[0], urls[1] if len(urls) > 1 else None)
        await stop.wait()
    finally:
        for listener in listeners:
            listener.server.should_exit = True
        await asyncio.gather(*running)


def _tls(settings: GatewaySettings) -> dict[str, Any]:
    chain, key = settings.gateway_tls_certificate, settings.gateway_tls_key
    if chain is None or key is None:
        return {}
    try:
        # Tried here: the errors of the server that reads them again name neither file.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, password="")
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise SettingInvalid(
            f"The certificate {chain} cannot be used with the key {key}: {why}",
            setting="GATEWAY_TLS_CERTIFICATE",
            fix="Both are PEM files; the key is not encrypted.",
        ) from None
    return {"ssl_certfile": chain, "ssl_keyfile": key}


class _Listener:
    def __init__(self, gateway: Gateway, app: FastAPI, host: str, port: int, **tls: Any) -> None:
        settings = gateway.settings
        # Bound here: an address in use is an error with a name, and not the end of the process.
        self._socket = bound(host, port)
        scheme = "https" if tls.get("ssl_certfile") else "http"
        name = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{name}:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            app,
            http=patient_protocol(settings.gateway_request_timeout),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.gateway_max_connections,
            timeout_graceful_shutdown=int(settings.gateway_tool_timeout) + 1,
            **tls,
        )
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self.server = _Quiet(config)

    async def run(self) -> None:
        try:
            await self.server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    async def ready(self, running: list[asyncio.Task[None]]) -> None:
        while not self.server.started:
            for task in running:
                if task.done():
                    task.result()
                    raise OSError("The listener ended before it began")
            await asyncio.sleep(0.005)


class _Quiet(uvicorn.Server):
    """Leaves signals to `serve_until`: there are two servers, and one of them would take them all."""

    def capture_signals(self) -> Any:
        return nullcontext()


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


def patient_protocol(seconds: float) -> type[Any]:
    """Uvicorn's HTTP protocol, with an end to its patience.

    uvicorn waits for ever for the rest of a request's head, and for a client that takes nothing of an answer.

    Args:
        seconds: How long a client may take for the head of a request.
    """
    return type("PatientProtocol", (_PatientProtocol,), {"seconds": seconds})


class _PatientProtocol(_Protocol):
    seconds: float
    _patience: asyncio.TimerHandle | None = None

    @property
    def _uvicorn(self) -> Any:
        return super()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._uvicorn.connection_made(transport)
        accepted = transport.get_extra_info("socket")
        if accepted is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        self._uvicorn.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._uvicorn.data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            # Not a whole head yet, or the rest of a body that nobody waits for.
            self._wait()
        else:
            self._wait_no_more()

    def on_response_complete(self) -> None:
        self._uvicorn.on_response_complete()
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
