"""Checks and fetches the URLs that a server names, to prevent server-side request forgery (SSRF).

OAuth discovery makes a client fetch URLs that a stranger chose, from inside the client's network. Such a
fetch therefore uses https (http on this machine only), goes to public addresses unless the MCP server itself
is in the same kind of network, connects to exactly the address that was checked, follows no redirect, and
ends after 64 KiB or when a clock runs out.
https://modelcontextprotocol.io/docs/2025-11-25/tutorials/security/security_best_practices#server-side-request-forgery-ssrf
"""

import ipaddress
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import httpx

from ...types.errors import ConnectError, ResultTooLarge
from ...types.texts import origin_and_path
from ..clock import IsCanceled, Wait, backoff
from ..limits import Limits, Timeouts
from ..network import Dialer, NetworkSettings, is_ip, is_loopback_host, is_usable, look_up, origin_of
from ..refusals import parse_retry_after
from ..transports.base import Delivery
from ..transports.http_channel import HttpChannel

BODY_BYTES: Final = 64 * 1024
GUARD_TIMEOUTS: Final = Timeouts(connect=10, idle=15, total=30)
_ATTEMPTS: Final = 5  # over some seconds
_NOTHING_SENT: Final = "No login can be there, so nothing was sent. Ask whoever runs the MCP server"

_IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
# Metadata services of clouds, which give out the machine's credentials and are never a legitimate target.
# Azure's address is public, one of AWS's is unique local, Alibaba's is shared.
_METADATA: Final = frozenset(
    ipaddress.ip_address(address)
    for address in (
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16"),
        *("fd00:ec2::254", "fd00:ec2::23"),
    )
)
_SHARED: Final = ipaddress.ip_network("100.64.0.0/10")  # RFC 6598: carrier and overlay networks
# RFC 6890 §2.2.2: for protocols such as DS-Lite; and Oracle's metadata service (192.0.0.192). No web server.
_PROTOCOLS: Final = ipaddress.ip_network("192.0.0.0/24")
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class Zone(Enum):
    PUBLIC = "a public address"
    LOOPBACK = "this machine"
    PRIVATE = "a private network"
    LINK_LOCAL = "a link-local address"
    FORBIDDEN = "an address that no web server has"


def zone_of(address: str) -> Zone:
    """The zone of an IP address. If an IPv6 address embeds an IPv4 address, that decides."""
    # A zone index (`fe80::1%eth0`) is no part of the address for Python's checks.
    ip: _IPAddress = _embedded(ipaddress.ip_address(address.partition("%")[0]))
    if ip in _METADATA or ip.is_multicast or ip.is_unspecified:
        return Zone.FORBIDDEN
    if ip.is_loopback:
        return Zone.LOOPBACK
    if ip.is_link_local:
        return Zone.LINK_LOCAL
    if ip.version == 4 and ip in _SHARED:
        return Zone.PRIVATE
    if ip in _PROTOCOLS or ip.is_reserved or ip == ipaddress.ip_address("255.255.255.255"):
        return Zone.FORBIDDEN
    # RFC 3879 has deprecated site-local addresses, and Python calls them global.
    is_private = not ip.is_global or (ip.version == 6 and ip.is_site_local)
    return Zone.PRIVATE if is_private else Zone.PUBLIC


def _embedded(address: _IPAddress) -> _IPAddress:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if inner is None and any(address in network for network in _NAT64):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


@dataclass(frozen=True, slots=True)
class Fetched:
    """A reply that was read completely, at most 64 KiB; the status may be a redirect."""

    status: int
    body: bytes = field(repr=False)
    nonce: str | None = None  # that the next proof must hold (RFC 9449 §8)
    retry_after: float | None = None  # seconds

    @property
    def is_outage(self) -> bool:
        """True if the server, or a gateway before it, is in trouble, whatever the body says."""
        return self.status in {408, 429} or self.status >= 500


@dataclass(eq=False)
class Guard:
    """Fetches URLs that one MCP server names.

    That server's origin may have any address, as the person has chosen it. So may `trusted` origins, which
    the person has named (a configured issuer), except in `Zone.FORBIDDEN`. `is_canceled` is called at least
    every 0.5 s during a fetch.
    """

    server_url: str
    network: NetworkSettings = field(default_factory=NetworkSettings)
    timeouts: Timeouts = GUARD_TIMEOUTS
    trusted: Collection[str] = ()
    is_canceled: IsCanceled | None = None

    def __post_init__(self) -> None:
        self._server = origin_of(self.server_url)
        self._trusted = frozenset(map(origin_of, self.trusted)) | {self._server}

    def check(self, url: str, *, confidential: bool = True) -> None:
        """Refuses a URL for defects that are visible without a name look-up.

        That is: not https, a login or an invalid host in it, an address that is not allowed. Unless secrets
        or a person's browser are sent there (`confidential`), the MCP server's own origin is allowed even
        without TLS, as it learns nothing new.
        """
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
            # httpx, which connects, must read the same host from the URL as this check.
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
            # A browser may open other schemes with any program (CVE-2025-6514).
            raise self._refusal(url, "is not a web address")
        needs_tls = confidential or origin_of(url) != self._server
        if parts.scheme == "http" and needs_tls and not is_loopback_host(host):
            fix = "Secrets could be read on their way there. Ask whoever runs it for its https address"
            raise self._refusal(url, "is not https", fix)
        if is_ip(host.partition("%")[0]):
            self.check_addresses(url, [host])

    def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        confidential: bool = True,
    ) -> Fetched:
        self.check(url, confidential=confidential)
        wait = Wait(self.timeouts, is_canceled=self.is_canceled)
        proxy = self.network.proxy_for(url)
        channel = HttpChannel(
            url,
            authorization=None,
            headers={},
            network=self.network,
            limits=Limits(result_bytes=BODY_BYTES),
            dialer=Dialer(self.network, proxy, check=partial(self.check_addresses, url)),
        )
        try:
            if proxy is not None:
                # The proxy resolves the name itself. The addresses that this machine finds are checked all
                # the same; a name that this machine cannot resolve is left to the proxy.
                found = wait.run(lambda: _addresses(urlsplit(url).hostname or ""))
                self.check_addresses(url, [] if isinstance(found, Exception) else found)
            # `exchange` and not `send`, which would follow redirects to addresses that nobody has checked.
            reply = channel.exchange(method, url, headers.items(), body, wait, Delivery())
            retry_after = parse_retry_after(reply.headers.get("retry-after"))
            return Fetched(reply.status, reply.read(), reply.headers.get("dpop-nonce"), retry_after)
        except ResultTooLarge:
            raise ConnectError(
                f"The reply of {origin_and_path(url)} is larger than {BODY_BYTES // 1024} KiB",
                phase="auth",
                fix="No authorization server needs that much; ask whoever runs it",
            ) from None
        finally:
            channel.close()

    def persist(self, send: Callable[[], Fetched]) -> Fetched:
        """Sends again while the server is away or in trouble, within the clocks and a few attempts."""
        wait = Wait(self.timeouts, is_canceled=self.is_canceled)
        for attempt in range(1, _ATTEMPTS):
            try:
                reply = send()
            except ConnectError as error:
                # Once, and only if nothing was sent: a token that was may be used up.
                pause = backoff(attempt)
                if attempt > 1 or error.phase not in {"dns", "tcp"} or not wait.allows(pause):
                    raise
                wait.sleep(pause)
                continue
            pause = backoff(attempt, reply.retry_after)
            if not reply.is_outage or not wait.allows(pause):
                return reply
            wait.sleep(pause)
        return send()

    def check_addresses(self, url: str, addresses: Iterable[str]) -> None:
        """Refuses a URL for the addresses of its host; called with the addresses to connect to."""
        zones = {zone_of(address) for address in addresses}
        # Before the trusted ones: nobody names a cloud's metadata service as issuer on purpose.
        if Zone.FORBIDDEN in zones and origin_of(url) != self._server:
            raise self._refusal(url, f"leads to {Zone.FORBIDDEN.value}")
        if origin_of(url) in self._trusted:
            return
        # All addresses count, as any of them may be the one that is dialed.
        outside = zones - {Zone.PUBLIC}
        if outside and not outside <= self._home():
            zone = min(zone.value for zone in outside)
            fix = (
                "This can be an attack on that network, so nothing was sent there. If you trust the address, "
                "name the authorization server yourself (--issuer, in nodes 'Connection options')"
            )
            raise self._refusal(url, f"leads to {zone}, where the MCP server is not", fix)

    def _home(self) -> set[Zone]:
        """The zones of the MCP server's addresses; empty if any of these is public."""
        host = urlsplit(self.server_url).hostname or ""
        wait = Wait(self.timeouts, is_canceled=self.is_canceled)  # the name service may be silent
        addresses = wait.run(lambda: _addresses(host))
        if isinstance(addresses, Exception):
            return set()
        zones = {zone_of(address) for address in addresses}
        return set() if Zone.PUBLIC in zones else zones

    def _refusal(self, url: str, reason: str, fix: str = _NOTHING_SENT) -> ConnectError:
        what = f"The server names {origin_and_path(url)[:200]}, which {reason}"
        return ConnectError(what, phase="auth", fix=fix)


def _addresses(host: str) -> list[str]:
    return [host] if is_ip(host.partition("%")[0]) else [str(entry[4][0]) for entry in look_up(host, None)]
