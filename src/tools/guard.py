"""The guard for every URL that a server hands us (SSRF): where it may lead, and how it is fetched.

OAuth discovery makes a client fetch addresses that a stranger chose, from inside the network that the client
stands in. So such a fetch speaks https (http on this machine only), goes to public addresses unless the MCP
server itself is in the same kind of network, connects to the very address that was checked, follows no
redirect, and ends after 64 KiB or at its clock.
https://modelcontextprotocol.io/specification/2025-11-25/basic/security_best_practices#server-side-request-forgery-ssrf
"""

import contextlib
import ipaddress
import socket
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from urllib.parse import urlsplit

import httpx

from ..types.errors import ConnectError, ResultTooLarge, origin_and_path
from .clock import IsCanceled, Wait
from .limits import Limits, Timeouts
from .network import NetworkSettings
from .server_url import is_loopback_host, origin_of
from .transports.http_channel import HttpChannel, is_usable
from .transports.sockets import Backend

BODY_BYTES: Final = 64 * 1024
GUARD_TIMEOUTS: Final = Timeouts(connect=10, idle=15, total=30)

_IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
# Never a legitimate target, not even from inside: they hand out the machine's own cloud credentials. Azure's
# is a public address, one of AWS's a unique local one, Alibaba's a shared one.
_METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "100.100.100.200",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd00:ec2::23",
        ),
    )
)
_SHARED: Final = ipaddress.ip_network("100.64.0.0/10")  # RFC 6598: carrier and overlay networks
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class Zone(Enum):
    """The kind of network that an address belongs to."""

    PUBLIC = "a public address"
    LOOPBACK = "this machine"
    PRIVATE = "a private network"
    LINK_LOCAL = "a link-local address"
    FORBIDDEN = "an address that no web server has"


def zone_of(address: str) -> Zone:
    """The zone of an IP address; an IPv4 address inside an IPv6 one is judged as what it leads to.

    Args:
        address: As text; a zone index (``%eth0``) is ignored.
    """
    found: _IPAddress = _embedded(ipaddress.ip_address(address.partition("%")[0]))
    if found in _METADATA or found.is_multicast or found.is_unspecified:
        return Zone.FORBIDDEN
    if found.is_loopback:
        return Zone.LOOPBACK
    if found.is_link_local:
        return Zone.LINK_LOCAL
    if found.version == 4 and found in _SHARED:
        return Zone.PRIVATE
    if found.is_reserved or found == ipaddress.ip_address("255.255.255.255"):
        return Zone.FORBIDDEN
    return Zone.PUBLIC if found.is_global else Zone.PRIVATE


def _embedded(address: _IPAddress) -> _IPAddress:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if inner is None and any(address in network for network in _NAT64):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


@dataclass(frozen=True, slots=True)
class Fetched:
    """A reply, read to its end.

    Attributes:
        status: The HTTP status; redirects are not followed.
        body: At most 64 KiB.
    """

    status: int
    body: bytes = field(repr=False)


class Guard:
    """Fetches what a server names, for one MCP server.

    Args:
        server_url: The MCP server. Its own origin is where the person wants to go, whatever its address.
        network: Trust store and proxy.
        timeouts: The clocks of one fetch.
        trusted: Origins that the person has named, such as that of a configured issuer: may be in any
            network but those of `Zone.FORBIDDEN`.
        is_canceled: Asked at least every 0.5 s while something is fetched, in the thread that wants it.
    """

    def __init__(
        self,
        server_url: str,
        *,
        network: NetworkSettings = NetworkSettings(),  # noqa: B008 - frozen
        timeouts: Timeouts = GUARD_TIMEOUTS,
        trusted: Collection[str] = (),
        is_canceled: IsCanceled | None = None,
    ) -> None:
        self.is_canceled = is_canceled
        self._server = origin_of(server_url)
        self._server_host = urlsplit(server_url).hostname or ""
        self._network = network
        self._timeouts = timeouts
        self._trusted = frozenset(origin_of(url) for url in trusted) | {self._server}

    def check(self, url: str, *, confidential: bool = True) -> None:
        """Refuse a URL for what can be seen without asking anybody.

        Args:
            url: What the server named.
            confidential: Secrets or a person's browser go there. Otherwise the MCP server's own origin is
                good enough even without TLS: nothing is sent that it does not know.

        Raises:
            ConnectError: Not https, a login in it, a host that is none, an address that is out of bounds.
        """
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
            # What is checked here and what is connected to must be the same host to both parsers.
            agreed = is_usable(url) and httpx.URL(url).raw_host.decode("ascii") == host
        except ValueError:
            agreed, host, parts = False, "", urlsplit("")
        if not agreed:
            raise self._refusal(url, "is malformed")
        if (
            not host
            or "@" in parts.netloc
            or not url.isascii()
            or any(c <= " " or c in '\\"<>\x7f' for c in url)
        ):
            raise self._refusal(url, "is malformed or names a login")
        if parts.scheme not in {"http", "https"}:
            # A browser may open anything else with any program (CVE-2025-6514).
            raise self._refusal(url, "is not a web address")
        needs_tls = confidential or origin_of(url) != self._server
        if parts.scheme == "http" and needs_tls and not is_loopback_host(host):
            raise self._refusal(url, "is not https")
        literal = _literal(host)
        if literal is not None:
            self.check_addresses(url, [literal])

    def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        confidential: bool = True,
    ) -> Fetched:
        """Send one request and read the whole reply.

        Args:
            method: ``GET`` or ``POST``.
            url: What the server named.
            headers: Complete but for those of the connection.
            body: Of a POST.
            confidential: See `check`.

        Raises:
            ConnectError: The URL is refused, there is no connection, or the reply is too large.
            TimedOut: A clock ran out.
            Canceled: `is_canceled` said so.
        """
        self.check(url, confidential=confidential)
        wait = Wait(self._timeouts, is_canceled=self.is_canceled)
        channel = self._channel(url)
        try:
            if self._network.proxy_for(url) is not None:
                self._check_before_proxy(url, wait)
            reply = channel.exchange(method, url, headers.items(), body, wait)
            return Fetched(reply.status, reply.read())
        except ResultTooLarge:
            raise ConnectError(
                f"The reply of {origin_and_path(url)} is larger than {BODY_BYTES // 1024} KiB",
                phase="auth",
                fix="No authorization server needs that much; ask whoever runs it",
            ) from None
        finally:
            channel.close()

    def _channel(self, url: str) -> HttpChannel:
        """A channel for one exchange without login and custom headers, to nothing but what was checked."""
        proxy = self._network.proxy_for(url)
        return HttpChannel(
            url,
            authorization=None,
            headers={},
            network=self._network,
            limits=Limits(result_bytes=BODY_BYTES),
            backend=Backend(
                self._network, proxy, check=lambda addresses: self.check_addresses(url, addresses)
            ),
        )

    def _check_before_proxy(self, url: str, wait: Wait) -> None:
        # The proxy resolves the name itself. What this machine's own name service says of it is checked all
        # the same; a name that only the proxy knows is the proxy's to judge.
        host = urlsplit(url).hostname or ""
        found: list[str] = []

        def look_up() -> None:
            with contextlib.suppress(OSError):
                found.extend(_addresses(host))

        wait.run(look_up)
        self.check_addresses(url, found)

    def check_addresses(self, url: str, addresses: Iterable[str]) -> None:
        """Refuse a URL for the addresses that its host leads to; called with those that are connected to.

        Raises:
            ConnectError: One of them is out of bounds.
        """
        found = {zone_of(address) for address in addresses}
        if Zone.FORBIDDEN in found and origin_of(url) != self._server:
            raise self._refusal(url, f"leads to {Zone.FORBIDDEN.value}")
        if origin_of(url) in self._trusted:
            return
        outside = found - {Zone.PUBLIC}
        if outside and not outside <= self._home():
            raise self._refusal(
                url, f"leads to {min(zone.value for zone in outside)}, where the MCP server is not"
            )

    def _home(self) -> set[Zone]:
        """The zones that the MCP server is in; none if a single one of its addresses is public."""
        literal = _literal(self._server_host)
        try:
            addresses = [literal] if literal is not None else _addresses(self._server_host)
        except OSError:
            return set()
        zones = {zone_of(address) for address in addresses}
        return set() if Zone.PUBLIC in zones else zones

    def _refusal(self, url: str, reason: str) -> ConnectError:
        return ConnectError(
            f"The server names {origin_and_path(url)[:200]}, which {reason}",
            phase="auth",
            fix="This can be an attack, so nothing was sent there. If you trust the address, name the "
            "authorization server yourself as issuer",
        )


def _literal(host: str) -> str | None:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return host


def _addresses(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from None
    return [str(entry[4][0]) for entry in found]
