"""Connections that obey the clocks of a call: the network backend under httpcore, and the kept connections.

httpcore blocks in the kernel, and closing a response or the client from another thread does not wake such a
read. So every connect, read and write here waits in slices under the current `Wait` of the thread (see
`waiting`). A cancel raises an exception in the waiting thread, which closes the connection. For a stream that
belongs to no call (HTTP+SSE) `shut_down` wakes the reader from another thread.

httpcore's own pool scans all its connections twice per request under a lock, and closes idle connections as
soon as idle and busy ones together exceed its limit. So `Connections` keeps them here, for one request at a
time each, and that pool only opens connections.
"""

import contextlib
import re
import select
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

import httpcore

from ...types.errors import ConnectError, ConnectPhase
from ..clock import Wait
from ..network import Address, NetworkSettings, Proxy, dial, is_ip
from .base import Step, Trace, client_closed

_HELD_BYTES: Final = 65_536
_LONGEST_HANDSHAKE_SECONDS: Final = 3600.0
_LOOK_UP_PAUSE_SECONDS: Final = 0.5
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


class _Current(threading.local):
    wait: Wait | None = None


_current: Final = _Current()


@contextmanager
def waiting(wait: Wait) -> Generator[None]:
    """A context in which all network operations of this thread wait under `wait`."""
    outer = _current.wait
    _current.wait = wait
    try:
        yield
    finally:
        _current.wait = outer


def is_waiting() -> bool:
    """Returns whether this thread is inside `waiting`."""
    return _current.wait is not None


def _clocks() -> Wait:
    wait = _current.wait
    assert wait is not None, "network waits are inside `waiting` only"
    return wait


class Stream(httpcore.NetworkStream):
    """A connection, plain or TLS.

    Short requests are sent in one piece, when the reply is read: with separate packets for head and body the
    server would wake twice.
    """

    def __init__(self, sock: socket.socket, backend: "Backend") -> None:
        sock.setblocking(False)
        self._sock = sock
        self._backend = backend
        self._held = bytearray()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - httpcore's
        """Waits under the current clocks."""
        with contextlib.suppress(httpcore.WriteError):  # the server may still have sent a refusal
            self._flush()
        if not isinstance(self._sock, ssl.SSLSocket):  # TLS may have buffered bytes, which poll does not see
            self._await()
        while True:
            try:
                return self._sock.recv(max_bytes)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._await()
            except ssl.SSLWantWriteError:
                self._await(writing=True)
            except OSError as error:
                raise httpcore.ReadError(describe_os_error(error)) from None

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Holds short data back until `read`."""
        self._held += buffer
        if len(self._held) > _HELD_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Sends the held data, and tells the `Wait` when all of it is sent."""
        if not self._held:
            return
        wait = _clocks()
        rest, self._held = memoryview(self._held), bytearray()
        while rest:
            try:
                rest = rest[self._sock.send(rest) :]
                if rest:
                    wait.reset_idle()  # the time of sending does not count as silence of the server
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._await(writing=True)
            except ssl.SSLWantReadError:
                self._await()
            except OSError as error:
                wait.unsent = True  # an incomplete request never ran
                raise httpcore.WriteError(describe_os_error(error)) from None
        wait.wake = self.shut_down
        wait.sent()

    def _await(self, *, writing: bool = False) -> None:
        _is_ready(self._sock, _clocks().slice(), writing=writing)

    def shut_down(self) -> None:
        """Ends the connection, which wakes a thread that is blocked in `read`."""
        shut_down(self._sock)

    def close(self) -> None:
        """Wakes a thread that is blocked in `read`."""
        shut_down(self._sock)
        self._sock.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - httpcore's signature
    ) -> httpcore.NetworkStream:
        """The handshake runs under the connect clock."""
        if isinstance(self._sock, ssl.SSLSocket):
            self.close()
            raise ConnectError(
                "An https:// proxy in front of an https:// server is not supported",
                phase="proxy",
                fix="Enter the proxy as http://host:port: the traffic to the server stays encrypted",
            )
        sock = self._backend.handshake(self._sock, ssl_context, server_hostname)
        return Stream(sock, self._backend)

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "ssl_object":
                return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
            case "socket":
                return self._sock
            case "is_readable":
                is_held = isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0
                return is_held or _is_ready(self._sock, 0)
            case _:
                return None


class Backend(httpcore.NetworkBackend):
    """Opens connections under the connect clock; its errors name the failed step and the reason.

    Args:
        network: Trust store, for error messages.
        proxy: The proxy in use, if any.
        trace: Called with each step, while it is set.
        check: Called with a host's addresses before connecting, except the proxy's; may raise to refuse.
    """

    def __init__(
        self,
        network: NetworkSettings,
        proxy: Proxy | None,
        trace: Trace | None = None,
        *,
        check: Callable[[list[str]], None] | None = None,
    ) -> None:
        self._network = network
        self._proxy = proxy
        self._check = check
        self.trace = trace

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - httpcore's signature
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        wait = _clocks()
        with wait.connecting():
            addresses = self._resolve(host, port, wait)
            started = time.monotonic()
            is_proxy = self._proxy is not None and self._proxy.address == (host, port)
            if self._check is not None and not is_proxy:
                self._check([str(address[4][0]) for address in addresses])
            phase: ConnectPhase = "proxy" if is_proxy else "tcp"
            what = f"connect to {'proxy ' if is_proxy else ''}{host}:{port}"
            try:
                sock, address = dial(addresses, wait)
            except OSError as error:
                raise self._failed(phase, what, started, error, (host, port)) from None
            self._done(phase, what, started, "{} port {}".format(*address[4]))
        return Stream(sock, self)

    def _resolve(self, host: str, port: int, wait: Wait) -> list[Address]:
        started = time.monotonic()
        outcome: list[list[Address] | OSError] = []

        def look_up() -> None:
            try:
                outcome.append(_addresses(host, port))
            except (OSError, UnicodeError) as error:
                outcome.append(error if isinstance(error, OSError) else OSError(str(error)))

        is_name = not is_ip(host)
        if is_name:
            wait.run(look_up)
        else:
            look_up()  # an address needs no name server
        addresses = outcome[0]
        if isinstance(addresses, OSError):
            raise self._failed("dns", f"look up {host}", started, addresses, (host, port))
        if is_name:
            names = sorted({str(address[4][0]) for address in addresses})
            self._done("dns", f"look up {host}", started, ", ".join(names))
        return addresses

    def handshake(self, sock: socket.socket, context: ssl.SSLContext, hostname: str | None) -> ssl.SSLSocket:
        """Starts TLS on an open connection; closes the connection on failure."""
        wait = _clocks()
        started = time.monotonic()
        outcome: list[ssl.SSLSocket | Exception] = []
        # The thread ends even if it is left behind; a little later than the clock, which is the one to speak.
        sock.settimeout(min(wait.timeouts.connect, _LONGEST_HANDSHAKE_SECONDS) + 1)

        def shake_hands() -> None:
            try:
                outcome.append(context.wrap_socket(sock, server_hostname=hostname))
            except Exception as error:  # truststore raises different errors on each operating system
                outcome.append(error)

        what = f"handshake with {hostname}"
        try:
            with wait.connecting():
                wait.run(shake_hands, abort=lambda: shut_down(sock))
        except BaseException:
            sock.close()
            raise
        result = outcome[0]
        if isinstance(result, Exception):
            sock.close()
            raise self._failed("tls", what, started, result, (hostname or "", 0))
        self._done("tls", what, started, _certificate(result))
        return result

    def _done(self, phase: ConnectPhase, what: str, started: float, detail: str) -> None:
        if self.trace is not None:
            self.trace(Step(phase, what, True, detail, time.monotonic() - started))

    def _failed(
        self, phase: ConnectPhase, what: str, started: float, error: Exception, address: tuple[str, int]
    ) -> ConnectError:
        detail = describe_os_error(error) if isinstance(error, OSError) else str(error)
        if self.trace is not None:
            self.trace(Step(phase, what, False, detail, time.monotonic() - started))
        host, port = address
        if self._proxy is not None and address == self._proxy.address:
            return ConnectError(
                f"The proxy {self._proxy.describe()} cannot be reached: {detail}",
                phase="proxy",
                fix="Check the proxy's address, or take the server out of it with no_proxy",
            )
        via = "" if self._proxy is None else f" The proxy was {self._proxy.describe()}."
        match phase:
            case "dns":
                return ConnectError(
                    f"The host name {host} cannot be resolved: {detail}",
                    phase="dns",
                    fix="Check the spelling of the host in the URL, and whether a VPN or proxy is needed",
                )
            case "tls":
                return ConnectError(
                    f"No secure connection to {host}: {detail}", phase="tls", fix=self._tls_fix(detail) + via
                )
            case _:
                return ConnectError(
                    f"{host} port {port} cannot be reached: {detail}",
                    phase="tcp",
                    fix="Check that the server runs, that host and port in the URL are right, and that no "
                    "firewall or VPN is in between." + ("" if self._proxy else " No proxy was used."),
                )

    def _tls_fix(self, detail: str) -> str:
        trust = f"Trusted were {self._network.describe_trust()}."
        if "WRONG_VERSION" in detail or "wrong version" in detail or "record layer" in detail:
            return "The server does not seem to speak TLS on this port: try http:// instead of https://."
        if "Hostname mismatch" in detail or "doesn't match" in detail or "not valid for" in detail:
            return f"The certificate is for another host: use the host name that it names. {trust}"
        if "expired" in detail:
            return f"The server's certificate has expired: its owner must renew it. {trust}"
        return (
            f"{trust} If your company or a test server uses its own certificate authority, give its PEM file "
            "as CA file, or set SSL_CERT_FILE to it."
        )


def _addresses(host: str, port: int) -> list[Address]:
    """Looks a host up; a second time after a temporary failure, such as a name server that was busy."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno != socket.EAI_AGAIN:
            raise
        time.sleep(_LOOK_UP_PAUSE_SECONDS)
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return cast("list[Address]", entries)


def shut_down(sock: socket.socket) -> None:
    """Shuts a socket down, which wakes the threads that are blocked on it. May be called in any thread."""
    with contextlib.suppress(OSError):  # the connection has already ended
        # SSLSocket.shutdown drops its TLS object first: a concurrent write would then send plain text.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def describe_os_error(error: OSError) -> str:
    """The text of an operating system's error, without its number and Python's additions."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate was not accepted ({error.verify_message or error.reason})"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or error)
    return error.strerror or str(error) or type(error).__name__


def _certificate(sock: ssl.SSLSocket) -> str:
    """TLS version, issuer and expiry of the certificate, as far as Python can read them on this platform."""
    facts = [sock.version() or "TLS"]
    certificate = cast("dict[str, Any]", sock.getpeercert() or {})
    issuer = {key: value for part in certificate.get("issuer", ()) for key, value in part}
    if issuer:
        facts.append("issuer " + str(issuer.get("commonName") or issuer.get("organizationName") or "unnamed"))
    if "notAfter" in certificate:
        facts.append(f"valid until {certificate['notAfter']}")
    return ", ".join(facts)


def _is_ready(sock: socket.socket, seconds: float, *, writing: bool = False) -> bool:
    """Waits until the socket can be read, or written. A failed or closed socket is ready, too."""
    if sock.fileno() < 0:
        return True
    # poll where it exists, as select cannot watch descriptors beyond 1023.
    if sys.platform == "win32":
        return any(select.select([] if writing else [sock], [sock] if writing else [], [sock], seconds))
    poll = select.poll()
    poll.register(sock, select.POLLOUT if writing else select.POLLIN)
    return bool(poll.poll(1000 * seconds))


class _Idle(NamedTuple):
    """A kept connection, with the times when it became idle and when it expires."""

    since: float
    until: float
    connection: httpcore.ConnectionInterface


class Connections:
    """Connections, one per concurrent request. Safe for use by many threads at once.

    Their number is not limited, as a ping must be answered even while many streams are open; callers limit
    the number of concurrent calls.

    Args:
        pool: Opens connections; sends no requests.
    """

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool
        self._all: set[httpcore.ConnectionInterface] = set()
        self._idle: deque[_Idle] = deque()
        self._can_keep = True  # False after a close right after a reply, until a kept connection was used
        self._none_kept_until = 0.0
        self._closed = False
        self._lock = threading.Lock()

    def handle_request(self, request: httpcore.Request, wait: Wait) -> httpcore.Response:
        """Sends a request, and returns as soon as the reply's headers have arrived.

        Args:
            request: The request.
            wait: Its `crossed` is set if the server may have closed a kept connection before the request.

        Returns:
            The reply. Its connection is kept when the reply is closed.

        Raises:
            ConnectError: `close` was called.
        """
        while True:
            connection, idle_since = self._take(request.url.origin)
            try:
                response = connection.handle_request(request)
                break
            except httpcore.ConnectionNotAvailable:  # another thread has just closed the connection
                self._drop(connection)
            except BaseException as error:
                wait.crossed = idle_since is not None and _is_silent_end(error)
                if wait.crossed and idle_since is not None:
                    self._note_close(idle_since)
                self._give_back(connection, 0.0)
                raise
        if idle_since is not None:
            self._can_keep = True
        stream = cast("Iterable[bytes]", response.stream)
        seconds = _kept_seconds(response.headers)
        response.stream = _Body(stream, lambda: self._give_back(connection, seconds))
        return response

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connections, self._all = self._all, set()
            self._idle.clear()
        for connection in connections:
            connection.close()

    def _take(self, origin: httpcore.Origin) -> tuple[httpcore.ConnectionInterface, float | None]:
        """A connection, and the time since when it was idle; None for a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise client_closed()
                if not self._idle:
                    connection = self._pool.create_connection(origin)
                    self._all.add(connection)
                    return connection, None
                since, until, connection = self._idle.pop()
            if connection.has_expired():
                self._note_close(since)
            elif time.monotonic() < until and connection.can_handle_request(origin):
                return connection, since
            self._drop(connection)

    def _note_close(self, idle_since: float) -> None:
        now = time.monotonic()
        if now - idle_since < _RIGHT_AFTER_SECONDS:
            self._can_keep, self._none_kept_until = False, now + _NONE_KEPT_SECONDS

    def _give_back(self, connection: httpcore.ConnectionInterface, seconds: float) -> None:
        now = time.monotonic()
        old: list[httpcore.ConnectionInterface] = []
        with self._lock:
            may_keep = self._can_keep or (not self._idle and now >= self._none_kept_until)
            if may_keep and connection.is_available() and not connection.is_closed() and not self._closed:
                self._idle.append(_Idle(now, now + seconds, connection))
            else:
                old.append(connection)
            while self._idle and now >= self._idle[0].until:
                old.append(self._idle.popleft().connection)
        for connection in old:
            self._drop(connection)

    def _drop(self, connection: httpcore.ConnectionInterface) -> None:
        with self._lock:
            self._all.discard(connection)
        connection.close()


def _kept_seconds(headers: Sequence[tuple[bytes, bytes]]) -> float:
    """The seconds for which a connection is kept after a reply."""
    for name, value in headers:
        if name.lower() == b"keep-alive" and (match := _TIMEOUT.search(value.decode("ascii", "replace"))):
            announced = float(match[1])
            return min(_KEPT_SECONDS, announced - min(_BEFORE_THE_CLOSE, announced / 2))
    return _KEPT_SECONDS


def _is_silent_end(error: BaseException) -> bool:
    return isinstance(error, httpcore.NetworkError) or "without sending a response" in str(error)


class _Body:
    """The body of a reply; closing it releases the connection."""

    def __init__(self, stream: Iterable[bytes], give_back: Callable[[], None]) -> None:
        self._stream = stream
        self._give_back = give_back
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        """Ends the reply; further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            cast("Any", self._stream).close()  # untyped in httpcore
        finally:
            self._give_back()
