"""Serves web applications, each on its own socket, until a signal comes, and keeps bad requests from them."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..system import end_if_unread, is_ready, let_nobody_connect, on_ending, take_port_again

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle


_UNREAD_MS: Final = 30_000
_OPEN_DOOR: Final = 1.0
"""Seconds for which an ending listener still accepts, so that clients hear of its end with an answer."""
_CLOSED_DOOR: Final = 1.0
"""Seconds for those who came in to send their request and to have its answer."""
ENDING: Final = "knime_mcp.ending"
"""Key of a request's scope: whether its listener is about to end."""


_UVICORN: Final = ">=0.30,<0.55"
"""As in pyproject.toml; a test compares them. Raise the bound only after reading uvicorn's changes."""

_OF_SERVER: Final = ("capture_signals", "serve", "shutdown")
_OF_SHUTDOWN: Final = ("servers", "server_state", "connections")
_OF_PROTOCOL: Final = ("connection_made", "connection_lost", "data_received", "on_response_complete")
_OF_CONNECTION: Final = ("cycle", "loop", "transport")

_TWO_LENGTHS: Final = frozenset({b"content-length", b"transfer-encoding"})


_log = logging.getLogger(__name__)
_MAYBE_NO_ID: Final = re.compile(rb'"id"\s*:\s*(?:[\[{ntf]|-?[0-9]+[.eE])')
_ERROR: Final = {"code": -32600, "message": "An id is text or a whole number"}
_REFUSAL: Final = json.dumps({"jsonrpc": "2.0", "id": None, "error": _ERROR}).encode()


class Listener:
    """A web application on a bound socket; port 0 is any that is free.

    `patience` is the seconds that a client may take for the head of a request. Raises `OSError` if the
    address cannot be bound, and names it.
    """

    def __init__(
        self, app: Any, host: str, port: int, *, patience: float, grace: int, **options: Any
    ) -> None:
        check_uvicorn()
        # Bound here, so that an address in use raises an OSError; uvicorn would end the process.
        self._socket = bound(host, port)
        scheme = "https" if options.get("ssl_certfile") else "http"
        name = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{name}:{self._socket.getsockname()[1]}"
        self._door = _Door(app)
        self._server = _Quiet(
            uvicorn.Config(
                self._door,
                # Not httptools, which keeps spaces around the values of headers.
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

    async def end(self) -> None:
        """Lets clients go; `run` ends when the last request is answered.

        Each answer says that its connection ends. A connection that were closed first would reset a request
        that its client has just sent.
        """
        if not self._server.started:
            self._server.should_exit = True
            return
        self._door.ending = True
        await self._emptied(_OPEN_DOOR)
        let_nobody_connect(self._socket)
        await self._all_accepted()
        for server in self._server.servers:
            server.close()
        await self._emptied(_CLOSED_DOOR)
        self._server.should_exit = True

    async def _all_accepted(self) -> None:
        """Waits until nobody stands in the queue, as closing a socket resets those whom it has not accepted.

        asyncio makes a connection of what it accepted two rounds of its loop later, and drops it unanswered
        and unclosed if its server is closed until then.
        """
        rounds = 0
        while rounds < 4:
            waiting = is_ready(self._socket, 0)
            rounds = 0 if waiting else rounds + 1
            await asyncio.sleep(0)

    async def _emptied(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._server.server_state.connections and loop.time() < end:
            await asyncio.sleep(0.01)


class _Door:
    """ASGI middleware that ends the connection of an answer: with its listener, or after a doubtful request.

    A request with both Content-Length and Transfer-Encoding may be an attempt to smuggle another one past a
    proxy: https://www.rfc-editor.org/rfc/rfc9112#section-6.1-15
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.ending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[ENDING] = self.ending
        doubtful = {name for name, _ in scope["headers"]} >= _TWO_LENGTHS

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and (self.ending or doubtful):
                headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != b"connection"]
                message = {**message, "headers": [*headers, (b"connection", b"close")]}
            await send(message)

        await self._app(scope, receive, closing)


class _Quiet(uvicorn.Server):
    """Leaves signals to `serve`, as with two servers only one would receive them."""

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

    `stop` also ends the serving; for threads, which get no signals.
    """
    stop = stop or asyncio.Event()
    ignore_signals = on_ending(asyncio.get_running_loop(), stop.set)
    log = logging.getLogger("uvicorn.error")
    log.setLevel(logging.ERROR)
    running = [asyncio.create_task(listener.run()) for listener in listeners]
    try:
        for listener in listeners:
            await listener.ready(running)
        gc.freeze()  # long-lived objects; collecting them would delay requests
        if on_ready is not None:
            on_ready([listener.url for listener in listeners])
        await stop.wait()
    finally:
        # A second signal ends the process at once.
        ignore_signals()
        log.setLevel(logging.CRITICAL)  # requests that are cut off now are not errors
        if on_end is not None:
            on_end()
        await asyncio.gather(*(listener.end() for listener in listeners))
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


def check_uvicorn(
    server: type[Any] = uvicorn.Server, protocol: type[Any] = H11Protocol, version: str = uvicorn.__version__
) -> None:
    """Checks that uvicorn still has what `_Quiet` and `_PatientProtocol` change and use.

    These are no documented interfaces, so pyproject.toml bounds uvicorn's version, too. A change that went
    unnoticed would take away the time limit for slow clients without a sign.
    """
    set_at_first = protocol.__init__.__code__.co_names
    missing = [f"Server.{name}" for name in _OF_SERVER if not hasattr(server, name)]
    if not missing:
        used = server.shutdown.__code__.co_names
        missing += [f"Server().{name}" for name in _OF_SHUTDOWN if name not in used]
    missing += [f"H11Protocol.{name}" for name in _OF_PROTOCOL if not hasattr(protocol, name)]
    missing += [f"H11Protocol().{name}" for name in _OF_CONNECTION if name not in set_at_first]
    if missing:
        raise ImportError(
            f"uvicorn {version} does not fit this version of knime-mcp: it has no {', '.join(missing)}. The"
            f" time limit for slow clients needs that. Install one that fits: pip install 'uvicorn{_UVICORN}'"
        )


class _PatientProtocol(H11Protocol):
    """Uvicorn's HTTP protocol with a time limit.

    uvicorn waits without limit for the rest of a request's head, and for clients that do not read an answer.
    """

    seconds: float
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        accepted = transport.get_extra_info("socket")
        if accepted is not None:
            end_if_unread(accepted, _UNREAD_MS)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete:
            # An incomplete head, or the rest of a body after the answer.
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


class WholeRequests:
    """ASGI middleware that passes on a request when its body is complete; clients may leave before.

    A request whose id is null, true or 1.5, for example, is refused: the SDK treats it as a notification. The
    application limits the size of bodies.
    """

    def __init__(self, app: ASGIApp) -> None:
        from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE

        self._app = app
        self._largest = DEFAULT_MAX_REQUEST_BODY_SIZE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parts: list[Message] = []
        size = 0
        while not parts or (parts[-1].get("more_body") and size <= self._largest):
            parts.append(await receive())
            if parts[-1]["type"] == "http.disconnect":
                _log.info("A client left before its request was complete")
                return
            size += len(parts[-1].get("body", b""))
        if _has_no_id(b"".join(part.get("body", b"") for part in parts)):
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSAL})
            return
        begun = iter(parts)

        async def again() -> Message:
            return next(begun, None) or await receive()

        await self._app(scope, again, send)


def _has_no_id(body: bytes) -> bool:
    """Whether a body is a request whose id is invalid."""
    if _MAYBE_NO_ID.search(body) is None:
        return False
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return False  # the SDK reports it
    message = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    number = message.get("id", "")
    return "method" in message and (isinstance(number, bool) or not isinstance(number, str | int))
