"""The network: URLs, trust store, CA file and proxies, and opening TCP and TLS connections under the clocks.

An SSL context is built only for https servers, as building it takes longer than a call, and once per process
and CA file where contexts may be shared. Errors name the trust store and the proxy in use, as these are the
usual causes of failures in companies.
"""

import contextlib
import errno
import functools
import ipaddress
import os
import re
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..system import SYSTEM_CHECKS_CERTIFICATES, keep_connection_alive
from ..types.errors import ConnectError, ConnectPhase, SettingInvalid
from ..types.routing import check_url
from ..types.texts import origin_and_path, without_surrogates
from .clock import Wait
from .transports.base import Step, Trace

_LONGEST_URL: Final = 65_536  # that httpx takes
_NAME: Final = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z_][a-z0-9_-]*\.?")  # the last label is not a number
# The usual places of certificates, for a Python whose OpenSSL was built for another system.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Red Hat since 2026
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine, BSD
)
_LONGEST_HANDSHAKE_SECONDS: Final = 3600.0
_LOOK_UP_PAUSE_SECONDS: Final = 0.5
_RACE_SECONDS: Final = 0.25  # RFC 8305 §5: head start of an address before the next address is tried
_KEEP_ALIVE_SECONDS: Final = 60
Address = tuple[Any, ...]  # as returned by `socket.getaddrinfo`


def checked_url(server_uri: str) -> str:
    """The URL to send requests to.

    Raises `SettingInvalid`, without the URL, as any part of a malformed URL may be a secret.
    """
    url = server_uri.strip().partition("#")[0]
    parts = check_url(url)
    # httpx, the only full check, takes most of the time of importing the client: plain names do without it.
    is_plain = "[" not in parts.netloc and _is_plain(parts.hostname or "")
    is_long = len(url) > _LONGEST_URL
    if is_long or not (is_plain or is_usable(url)):
        raise SettingInvalid(
            f"The server URL {'is far too long' if is_long else 'names a host that cannot exist'}",
            setting="server_url",
            fix="Enter the full URL, such as https://host/mcp",
        )
    return parts.scheme + url[len(parts.scheme) :]  # in lower case, as other code compares it


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL in normalized form; empty for a URL without an origin."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname else ""
    except ValueError:
        return ""


def resolved(url: str, reference: str) -> str | None:
    """A URL that a server names, absolute and without fragment; None if no request can be sent to it.

    A server's own https URLs stay https, see `with_tls`.
    """
    try:
        target = urljoin(url, reference)
    except ValueError:
        return None
    target = without_surrogates(target).partition("#")[0]
    if not is_usable(target):
        return None
    import httpx  # here and below: takes most of the time of importing the client

    return with_tls(str(httpx.URL(target)), url)


def with_tls(target: str, url: str) -> str:
    """A target with https, if it differs from the origin of a URL in that alone: a proxy adds TLS."""
    upgraded = f"https{target.removeprefix('http')}"
    return upgraded if target.startswith("http:") and origin_of(upgraded) == origin_of(url) else target


def is_usable(url: str) -> bool:
    """Whether a request could be sent to a URL. Reads the host, which httpx decodes only then."""
    import httpx

    try:
        _ = httpx.URL(url).host
    except (ValueError, httpx.InvalidURL):  # idna's errors are subclasses of ValueError
        return False
    return True


def may_follow(url: str, target: str) -> bool:
    """Whether a redirect stays on the origin, or goes from http to https on default ports."""
    origin = origin_of(url)
    upgraded = f"https:{origin[5:-2]}443" if origin.startswith("http:") and origin.endswith(":80") else origin
    return bool(origin) and origin_of(target) in {origin, upgraded}


def is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback_host(host: str) -> bool:
    """Whether a host is a loopback name or address (RFC 6761 §6.3, RFC 8252 §7.3)."""
    if is_ip(host):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _is_plain(host: str) -> bool:
    """Whether a host is an address or an ordinary name, which all parsers understand alike."""
    return is_ip(host) or (_NAME.fullmatch(host) is not None and "xn--" not in host)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """The settings for reaching servers.

    Attributes:
        ca_file: PEM file of certificate authorities to trust *in addition to* the operating system's; None
            for the file that ``SSL_CERT_FILE`` names, if any.
        proxy: ``http://host:port`` for every server, None for the settings of environment and system, "" for
            no proxy.
        verify: False accepts any certificate; for a test server on this machine only.
    """

    ca_file: str | None = None
    proxy: str | None = field(default=None, repr=False)
    verify: bool = True

    def ssl_context(self) -> ssl.SSLContext:
        # A context of truststore does one handshake at a time, so it is not shared: a server that stalls
        # would stop the handshakes with all others.
        return (_ssl_context if SYSTEM_CHECKS_CERTIFICATES else _shared_context)(
            self._trusted_file, self.verify
        )

    @property
    def _trusted_file(self) -> str | None:
        return self.ca_file or os.environ.get("SSL_CERT_FILE") or None

    def describe_trust(self) -> str:
        if not self.verify:
            return "certificates are not checked"
        store = "the operating system's trust store"
        return f"{store} and {self._trusted_file}" if self._trusted_file else store

    def proxy_for(self, url: str) -> "Proxy | None":
        """The proxy for requests to a server, None for a direct connection."""
        if self.proxy is not None:
            return _proxy(self.proxy, "the settings") if self.proxy else None
        parts = urlsplit(url)
        host = parts.hostname or ""
        known = getproxies()
        proxy_url = known.get(parts.scheme) or known.get("all")
        # A proxy cannot reach this machine's loopback, even if the environment does not exclude it.
        if not proxy_url or is_loopback_host(host) or _bypassed(url, known):
            return None
        return _proxy(proxy_url, f"{parts.scheme}_proxy of the environment or system")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy, and the source of its setting in words."""

    url: str  # user name and password included; not for display
    source: str

    def __repr__(self) -> str:
        return f"Proxy({self.describe()!r})"

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def scheme(self) -> Literal["http", "https"]:
        return "https" if urlsplit(self.url).scheme == "https" else "http"

    def describe(self) -> str:
        """The proxy without its password, and the source of the setting."""
        return f"{origin_and_path(self.url)} from {self.source}"


def _ssl_context(ca_file: str | None, verify: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        # In this order: Python refuses `CERT_NONE` while host names are checked.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    paths = ssl.get_default_verify_paths()
    if SYSTEM_CHECKS_CERTIFICATES:
        import truststore  # imported here: takes 10 ms, and plain http does not need it

        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # An empty folder of certificates is what a foreign OpenSSL often has:
    # it would trust nobody, and say "self-signed".
    elif paths.cafile or (paths.capath and any(Path(paths.capath).glob("*.0"))):
        context.set_default_verify_paths()
    elif bundle := next(filter(os.path.isfile, _BUNDLES), None):
        context.load_verify_locations(cafile=bundle)
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=str(Path(ca_file).expanduser()))
        except OSError as error:  # includes ssl.SSLError, raised for a file that is not PEM
            reason = (
                "is not a PEM file of certificates" if isinstance(error, ssl.SSLError) else "cannot be read"
            )
            raise SettingInvalid(
                f"The CA file {ca_file} {reason}",
                setting="ca_file",
                fix="Ask your IT department for the company's root certificate in PEM form (a text file that "
                "starts with -----BEGIN CERTIFICATE-----)",
            ) from None
    return context


_shared_context: Final = functools.cache(_ssl_context)


def _proxy(url: str, source: str) -> Proxy:
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise SettingInvalid(
            f"The proxy named by {source} is not an http:// or https:// URL",
            setting="proxy",
            fix="Enter it as http://host:port. SOCKS proxies are not supported",
        )
    return Proxy(full, source)


def _bypassed(url: str, known: dict[str, str]) -> bool:
    # urllib reads the exceptions in the registry (Windows) and the system settings (macOS), but does not
    # understand the address ranges that companies write in no_proxy.
    rules = known.get("no", "").lower().replace(",", " ").split()
    host, _, port = origin_of(url).partition("://")[2].rpartition(":")
    names = (host, f"{host}:{port}")
    if "*" in rules or any(_matches(name, rule.lstrip("*.")) for name in names for rule in rules):
        return True
    return bool(proxy_bypass(host))


def _matches(name: str, rule: str) -> bool:
    if name == rule or name.endswith("." + rule):
        return True
    try:
        return ipaddress.ip_address(name) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False


@dataclass(slots=True, eq=False)
class Dialer:
    """Opens connections under the connect clock; its errors name the failed step and the reason.

    `trace` is called with each step, while it is set. `check` is called with a host's addresses before
    connecting, except the proxy's, and may raise to refuse.
    """

    network: NetworkSettings
    proxy: Proxy | None
    trace: Trace | None = None
    check: Callable[[list[str]], None] | None = None

    def open(self, host: str, port: int, wait: Wait) -> socket.socket:
        """A TCP connection to the server, or to the proxy."""
        with wait.connecting():
            addresses = self._resolve(host, port, wait)
            started = time.monotonic()
            is_proxy = self.proxy is not None and self.proxy.address == (host, port)
            if self.check is not None and not is_proxy:
                # The very addresses that are dialed: a second look-up could give others (DNS rebinding).
                self.check([str(address[4][0]) for address in addresses])
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
        # In a thread, as a name server may take long.
        addresses = wait.run(functools.partial(look_up, host, port))
        if isinstance(addresses, Exception):
            raise self._failed("dns", f"look up {host}", started, addresses, (host, port))
        if not is_ip(host):
            names = sorted({str(address[4][0]) for address in addresses})
            self._done("dns", f"look up {host}", started, ", ".join(names))
        return addresses

    def handshake(
        self, sock: socket.socket, context: ssl.SSLContext, hostname: str, wait: Wait
    ) -> ssl.SSLSocket:
        """Starts TLS on an open connection; closes the connection on failure."""
        context.set_alpn_protocols(["http/1.1"])
        started = time.monotonic()
        # The thread ends even if it is left behind; a little later than the clock, which is the one to speak.
        sock.settimeout(min(wait.timeouts.connect, _LONGEST_HANDSHAKE_SECONDS) + 1)
        shake_hands = functools.partial(context.wrap_socket, sock, server_hostname=hostname)
        what = f"handshake with {hostname}"
        try:
            with wait.connecting():
                result = wait.run(shake_hands, abort=lambda: shut_down(sock))
        except BaseException:
            sock.close()
            raise
        if isinstance(result, Exception):  # truststore raises different errors on each operating system
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
        if self.proxy is not None and address == self.proxy.address:
            return ConnectError(
                f"The proxy {self.proxy.describe()} cannot be reached: {detail}",
                phase="proxy",
                fix="Check the proxy's address, or take the server out of it with no_proxy",
            )
        match phase:
            case "dns":
                what = f"The host name {host} cannot be resolved"
                fix = "Check the spelling of the host in the URL, and whether a VPN or proxy is needed"
            case "tls":
                what, fix = f"No secure connection to {host}", self._tls_fix(detail)
                fix += "" if self.proxy is None else f" The proxy was {self.proxy.describe()}."
            case _:
                what = f"{host} port {port} cannot be reached"
                fix = "Check that the server runs, that host and port in the URL are right, and that no "
                fix += "firewall or VPN is in between." + ("" if self.proxy else " No proxy was used.")
        return ConnectError(f"{what}: {detail}", phase=phase, fix=fix)

    def _tls_fix(self, detail: str) -> str:
        trust = f"Trusted were {self.network.describe_trust()}."
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


def look_up(host: str, port: int | None) -> list[Address]:
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

    Raises the `OSError` of the last one.
    """
    waiting_for = list(addresses)
    last_error: OSError = OSError("no address")
    with selectors.DefaultSelector() as selector:
        try:
            next_start = 0.0
            while waiting_for or selector.get_map():
                now = time.monotonic()
                # The next address begins when its time has come,
                # or at once if no other attempt is under way.
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
                    # A socket is ready for writing also when its connection has failed; only this tells.
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
        # Before connecting, as a connection that was reset at once takes no options. Else a request in two
        # pieces waits some 40 ms for the acknowledgement of the first (Nagle's algorithm).
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A firewall in between may forget a quiet connection without a word;
        # probes keep it, or show that it is gone.
        keep_connection_alive(sock, _KEEP_ALIVE_SECONDS)
        sock.setblocking(False)
        code = sock.connect_ex(target)
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock
