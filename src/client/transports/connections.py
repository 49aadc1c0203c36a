"""HTTP/1.1 connections that obey the clocks of a call, and the kept ones.

Reading from a socket blocks in the kernel, and closing it in another thread does not wake such a read. So
every read and write here waits in slices under a `Wait`. A cancel raises an exception in the waiting thread,
which closes the connection. For a stream that belongs to no call (HTTP+SSE) `shut_down` wakes the reader from
another thread.
"""

import base64
import contextlib
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import h11
import httpx

from ...system import is_ready
from ...types.errors import ConnectError
from ..clock import Wait
from ..network import Dialer, Proxy, shut_down
from ..protocol.outcomes import Moment
from .base import Delivery, client_closed

_READ_BYTES: Final = 64 * 1024
_LONGEST_HEAD: Final = 100 * 1024
_INTERIM: Final = 1_000  # responses before the reply, such as "103 Early Hints"
LONG_HEAD: Final = "more than 100 KiB of headers"
"""The fault of a reply whose headers are too long."""
_TOO_LARGE: Final = 431  # Request Header Fields Too Large, by which h11 tells this fault from others
# A short request is sent in one piece: with separate packets for head and body the server would wake twice.
_ONE_PIECE: Final = 64 * 1024
# Node and uvicorn close an idle connection after 5 s. If a request is sent at that moment, it is unknown
# whether it ran. So connections are kept for less time, and for less than the server's Keep-Alive timeout.
_KEPT_SECONDS: Final = 4.0
_BEFORE_THE_CLOSE: Final = 1.0
# Some servers and proxies close each connection right after the reply without announcing it; the next request
# on a kept connection is then lost. After such a close, no connection is kept for a while, and then only one
# until it has been used again.
_RIGHT_AFTER_SECONDS: Final = 0.5
_NONE_KEPT_SECONDS: Final = 30.0
_TIMEOUT: Final = re.compile(r"\btimeout\s*=\s*\"?(\d{1,9})", re.ASCII | re.IGNORECASE)

Headers = Sequence[tuple[bytes, bytes]]


class BrokenConnection(Exception):  # noqa: N818 - becomes a `ConnectError`
    """A connection ended, or what came on it is not HTTP: `fault` then is the defect, in h11's words."""

    def __init__(self, fault: str | None = None) -> None:
        super().__init__(fault or "the connection ended")
        self.fault = fault


class HttpConnection:
    """An open connection, used for one request at a time."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)
        self._is_damaged = False  # a request was sent incompletely

    def send(self, request: h11.Request, body: bytes, wait: Wait, delivery: Delivery) -> None:
        """Raises `BrokenConnection` if it has ended; the server may still have sent a refusal before."""
        http = self._http
        try:
            head = http.send(request) or b""
            if body:
                body = http.send(h11.Data(body)) or b""
            body += http.send(h11.EndOfMessage()) or b""
        except h11.LocalProtocolError as error:
            raise BrokenConnection(str(error)) from None
        try:
            for piece in (head + body,) if len(body) <= _ONE_PIECE else (head, body):
                self._send(piece, wait)
        except OSError:
            self._is_damaged = True
            raise BrokenConnection from None
        delivery.interrupt = self.shut_down
        # From here on the server may have read the whole request.
        delivery.moment = Moment.SENT
        if delivery.on_sent is not None:
            delivery.on_sent()

    def _send(self, data: bytes, wait: Wait) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.sock.send(rest) :]
                if rest:
                    wait.reset_idle()  # the time of sending does not count as silence of the server
            except (BlockingIOError, ssl.SSLWantWriteError):
                _is_ready(self.sock, wait.slice(), writing=True)
            except ssl.SSLWantReadError:
                _is_ready(self.sock, wait.slice())

    def receive(self, wait: Wait) -> tuple[int, Headers, bytes]:
        """Status, headers and reason of the reply. Raises `BrokenConnection`, as all that reads here."""
        for _ in range(_INTERIM):
            match self._event(wait):
                case h11.Response() | h11.InformationalResponse(status_code=101) as reply:
                    return reply.status_code, reply.headers.raw_items(), reply.reason
                case _:  # another interim response
                    pass
        raise BrokenConnection(f"more than {_INTERIM:,} interim responses")

    def chunk(self, wait: Wait) -> bytes | None:
        """The next part of the reply's body; None at its end."""
        event = self._event(wait)
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def _event(self, wait: Wait) -> h11.Event | type[h11.PAUSED]:
        http = self._http
        while True:
            try:
                event = http.next_event()
            except h11.RemoteProtocolError as error:
                is_long = error.error_status_hint == _TOO_LARGE
                raise BrokenConnection(LONG_HEAD if is_long else str(error)) from None
            if event is not h11.NEED_DATA:
                return event  # pyright: ignore[reportReturnType] - not narrowed
            data = self._read(wait)
            # An end before the first byte of a reply: h11 would call it a malformed reply, and nobody could
            # tell that the request may be sent again.
            if not data and http.their_state is h11.SEND_RESPONSE:
                raise BrokenConnection
            http.receive_data(data)

    def _read(self, wait: Wait) -> bytes:
        sock = self.sock
        if not isinstance(sock, ssl.SSLSocket):  # TLS may have buffered bytes, which poll does not see
            _is_ready(sock, wait.slice())
        while True:
            try:
                return sock.recv(_READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                _is_ready(sock, wait.slice())
            except ssl.SSLWantWriteError:
                _is_ready(sock, wait.slice(), writing=True)
            except OSError:
                raise BrokenConnection from None

    def is_ready_again(self) -> bool:
        """Prepares for the next request. Returns False if the connection cannot be used again.

        Such a one is also a connection on which more came than the reply: the surplus would be read as the
        reply to the next request.
        """
        http = self._http
        surplus, has_ended = http.trailing_data
        if self._is_damaged or surplus or has_ended:
            return False
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return False
        http.start_next_cycle()
        return True

    def has_ended(self) -> bool:
        """Whether the server has closed the idle connection. It has nothing else to send on it."""
        is_held = isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0
        return is_held or _is_ready(self.sock, 0)

    def shut_down(self) -> None:
        """Ends the connection, which wakes a thread that reads from it."""
        shut_down(self.sock)

    def close(self) -> None:
        """Closes the socket. Wakes a thread that reads from it."""
        shut_down(self.sock)
        self.sock.close()


def connect(
    url: str, proxy: Proxy | None, dialer: Dialer, context: ssl.SSLContext | None, wait: Wait
) -> HttpConnection:
    """Opens a connection to a server, through the proxy if there is one."""
    target = httpx.URL(url)
    host, tls = target.raw_host.decode("ascii"), target.scheme == "https"
    port = target.port or (443 if tls else 80)
    if proxy is None:
        sock = dialer.open(host, port, wait)
    elif tls and proxy.scheme == "https":
        raise ConnectError(
            "An https:// proxy in front of an https:// server is not supported",
            phase="proxy",
            fix="Enter the proxy as http://host:port: the traffic to the server stays encrypted",
        )
    else:
        sock = dialer.open(*proxy.address, wait)
        if tls:
            authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            _open_tunnel(HttpConnection(sock), proxy, authority, wait)
        elif context is not None:
            sock = dialer.handshake(sock, context, proxy.address[0], wait)
    if tls:
        assert context is not None
        sock = dialer.handshake(sock, context, host, wait)
    return HttpConnection(sock)


def _open_tunnel(connection: HttpConnection, proxy: Proxy, authority: str, wait: Wait) -> None:
    """Asks the proxy for a tunnel (RFC 9110 §9.3.6); closes the connection if it refuses."""
    headers = [(b"Host", authority.encode()), (b"Accept", b"*/*"), *proxy_login(proxy)]
    try:
        request = h11.Request(method="CONNECT", target=authority, headers=headers)
        connection.send(request, b"", wait, Delivery())
        status, _, reason = connection.receive(wait)
        if not 200 <= status < 300:
            raise ConnectError(
                f"The proxy {proxy.describe()} refuses the connection: "
                f"{status} {reason.decode('ascii', 'ignore')}",
                phase="proxy",
                fix="Check the proxy's login and whether it may reach this server",
            )
    except BaseException:
        connection.close()
        raise


def proxy_login(proxy: Proxy) -> list[tuple[bytes, bytes]]:
    parts = httpx.URL(proxy.url)
    if not parts.username:
        return []
    login = base64.b64encode(f"{parts.username}:{parts.password}".encode())
    return [(b"Proxy-Authorization", b"Basic " + login)]


class Connections:
    """Connections, one per concurrent request. Safe for use by many threads at once.

    Their number is not limited, as a ping must be answered even while many streams are open; callers limit
    the number of concurrent calls.
    """

    def __init__(self, connect: Callable[[Wait], HttpConnection]) -> None:
        self._connect = connect
        self._all: set[HttpConnection] = set()
        # The kept ones, with the times when they became idle and when they expire.
        self._idle: deque[tuple[float, float, HttpConnection]] = deque()
        self._can_keep = True  # False after a close right after a reply, until a kept connection was used
        self._none_kept_until = 0.0
        self._closed = False
        self._lock = threading.Lock()

    def exchange(
        self, request: h11.Request, body: bytes, wait: Wait, delivery: Delivery
    ) -> tuple[HttpConnection, int, Headers]:
        """Sends a request, and returns as soon as the reply's headers have arrived.

        The connection is given back when the reply's body was read from it.
        """
        connection, idle_since = self._take(wait)
        try:
            with contextlib.suppress(BrokenConnection):  # the server may have sent a refusal before
                connection.send(request, body, wait, delivery)
            status, headers, _ = connection.receive(wait)
        except BaseException as error:
            if idle_since is not None and isinstance(error, BrokenConnection) and error.fault is None:
                delivery.moment = Moment.MISSED
                self._note_close(idle_since)
            self._drop(connection)
            raise
        if idle_since is not None:
            self._can_keep = True
        return connection, status, headers

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connections, self._all = self._all, set()
            self._idle.clear()
        for connection in connections:
            connection.close()

    def _take(self, wait: Wait) -> tuple[HttpConnection, float | None]:
        """A connection, and the time since when it was idle; None for a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise client_closed()
                if not self._idle:
                    break
                # The last one first: the others grow old and expire, so that few are kept.
                since, until, connection = self._idle.pop()
            if connection.has_ended():
                self._note_close(since)
            elif time.monotonic() < until:
                return connection, since
            self._drop(connection)
        # Without the lock, which every other call would wait for meanwhile.
        connection = self._connect(wait)
        with self._lock:
            if not self._closed:
                self._all.add(connection)
                return connection, None
        connection.close()
        raise client_closed()

    def _note_close(self, idle_since: float) -> None:
        """The server has closed a kept connection."""
        now = time.monotonic()
        if now - idle_since < _RIGHT_AFTER_SECONDS:
            self._can_keep, self._none_kept_until = False, now + _NONE_KEPT_SECONDS

    def give_back(self, connection: HttpConnection, headers: Headers) -> None:
        """Keeps a connection for another request, or closes it if its reply is incomplete."""
        now = time.monotonic()
        until = now + _kept_seconds(headers)
        can_be_kept = connection.is_ready_again()
        old: list[HttpConnection] = []
        with self._lock:
            may_keep = self._can_keep or (not self._idle and now >= self._none_kept_until)
            if may_keep and can_be_kept and not self._closed:
                self._idle.append((now, until, connection))
            else:
                old.append(connection)
            while self._idle and now >= self._idle[0][1]:
                old.append(self._idle.popleft()[2])
        for each in old:
            self._drop(each)

    def _drop(self, connection: HttpConnection) -> None:
        with self._lock:
            self._all.discard(connection)
        connection.close()


def _kept_seconds(headers: Headers) -> float:
    """The seconds for which a connection is kept after a reply."""
    for name, value in headers:
        if name.lower() == b"keep-alive" and (match := _TIMEOUT.search(value.decode("ascii", "replace"))):
            announced = float(match[1])
            return min(_KEPT_SECONDS, announced - min(_BEFORE_THE_CLOSE, announced / 2))
    return _KEPT_SECONDS


def _is_ready(sock: socket.socket, seconds: float, *, writing: bool = False) -> bool:
    """Waits until the socket can be read, or written. A failed or closed socket is ready, too."""
    return sock.fileno() < 0 or is_ready(sock, seconds, writing=writing)
