"""Opens TCP and TLS connections under the clocks of a call; errors name the failed step and the reason."""

import contextlib
import errno
import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, cast

from ...types.errors import ConnectError, ConnectPhase
from ..clock import Wait
from ..network import NetworkSettings, Proxy
from .base import Step, Trace

_LONGEST_HANDSHAKE_SECONDS: Final = 3600.0
_LOOK_UP_PAUSE_SECONDS: Final = 0.5
Address = tuple[Any, ...]
"""An address as returned by `socket.getaddrinfo`."""
_RACE_SECONDS: Final = 0.25  # RFC 8305 §5: head start of an address before the next address is tried
_KEEP_ALIVE_SECONDS: Final = 60


class Dialer:
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

    def open(self, host: str, port: int, wait: Wait) -> socket.socket:
        """A TCP connection to the server, or to the proxy.

        Raises:
            ConnectError: There is no connection; the error names the failed step.
        """
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
        return sock

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

    def handshake(
        self, sock: socket.socket, context: ssl.SSLContext, hostname: str, wait: Wait
    ) -> ssl.SSLSocket:
        """Starts TLS on an open connection; closes the connection on failure."""
        context.set_alpn_protocols(["http/1.1"])
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
            raise self._failed("tls", what, started, result, (hostname, 0))
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


def dial(addresses: list[Address], wait: Wait) -> tuple[socket.socket, Address]:
    """Connects to the first address of a host that answers; each has a head start over the next (RFC 8305).

    Returns:
        A connected socket, and its address.

    Raises:
        OSError: No address can be reached; the error of the last address.
    """
    waiting_for = list(addresses)
    last_error: OSError = OSError("no address")
    with selectors.DefaultSelector() as selector:
        try:
            next_start = 0.0
            while waiting_for or selector.get_map():
                now = time.monotonic()
                if waiting_for and (now >= next_start or not selector.get_map()):
                    address = waiting_for.pop(0)
                    try:
                        selector.register(_begin(address), selectors.EVENT_WRITE, address)
                        next_start = now + _RACE_SECONDS
                    except OSError as error:
                        last_error = error
                    continue
                pause = wait.slice()
                for key, _ in selector.select(min(pause, next_start - now) if waiting_for else pause):
                    sock = cast("socket.socket", key.fileobj)
                    selector.unregister(sock)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if code == 0:
                        return sock, key.data
                    last_error = OSError(code, os.strerror(code))
                    sock.close()
            raise last_error
        finally:
            for key in list(selector.get_map().values()):
                cast("socket.socket", key.fileobj).close()


def _begin(address: Address) -> socket.socket:
    family, kind, protocol, _, target = address
    sock = socket.socket(family, kind, protocol)
    try:
        _set_options(sock)  # before connecting, as a connection that was reset at once takes no options
        sock.setblocking(False)
        code = sock.connect_ex(target)
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Keep-alive packets, as routers drop connections without traffic after minutes.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):  # names differ between systems
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), _KEEP_ALIVE_SECONDS)


def is_ip(host: str) -> bool:
    """Returns whether a host is an address and not a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
