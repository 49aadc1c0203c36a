"""Access to the network: URLs, trust store, CA file, proxies, and connecting to one of several addresses.

An SSL context is built only for https servers, as building it takes longer than a call, and once per process
and CA file where contexts may be shared. Errors name the trust store and the proxy in use, as these are the
usual causes of failures in companies.
"""

import functools
import ipaddress
import os
import re
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..types.errors import SettingInvalid, origin_and_path
from ..types.texts import without_surrogates

_NAME: Final = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z_][a-z0-9_-]*\.?")  # the last label is not a number
# On these systems truststore lets the operating system check certificates. Its contexts do one handshake at a
# time, so they are not shared: a server that stalls would stop the handshakes with all others.
_ASKS_THE_SYSTEM: Final = sys.platform in {"win32", "darwin"}
# The usual places of certificates, for a Python whose OpenSSL was built for another system.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Red Hat since 2026
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine, BSD
)


def checked_url(server_uri: str) -> str:
    """The URL to send requests to.

    Raises:
        SettingInvalid: The URL is empty, malformed, not http(s), or has a login. The message does not show
            the URL, as any part of a malformed URL may be a secret.
    """
    url = server_uri.strip().partition("#")[0]
    fix = "Enter the full URL, such as https://host/mcp"
    if not url:
        raise SettingInvalid("The server URL is empty", setting="server_url", fix=fix)
    try:
        parts = urlsplit(url)
        host = parts.hostname
        if parts.port == 0:  # other code would take the default port
            raise ValueError
    except ValueError:
        raise SettingInvalid(
            "The server URL has a malformed host or port", setting="server_url", fix=fix
        ) from None
    if parts.scheme not in {"http", "https"} or not host:
        raise SettingInvalid(
            "The server URL does not start with http:// or https:// and a host", setting="server_url", fix=fix
        )
    if "@" in parts.netloc:
        raise SettingInvalid(
            "The server URL holds a user name or password before '@'",
            setting="server_url",
            fix="Remove that part and give user name and password as credentials",
        )
    if any(character <= " " or character == "\x7f" for character in url):
        raise SettingInvalid(
            "The server URL holds a space or control character", setting="server_url", fix=fix
        )
    if ("[" in parts.netloc or not _is_plain(host)) and not is_usable(url):
        raise SettingInvalid("The server URL names a host that cannot exist", setting="server_url", fix=fix)
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
    """Resolves a URL that a server names.

    A server behind a proxy that adds TLS often names its own https URLs with http: these stay https.

    Args:
        url: The URL of the request.
        reference: The URL in the server's reply, absolute or relative.

    Returns:
        An absolute URL without fragment; None if no request can be sent to it.
    """
    try:
        target = urljoin(url, reference)
    except ValueError:
        return None
    target = without_surrogates(target).partition("#")[0]
    if not is_usable(target):
        return None
    import httpx  # here and below: takes most of the time of importing the client

    target = str(httpx.URL(target))
    with_tls = f"https{target.removeprefix('http')}"
    return with_tls if target.startswith("http:") and origin_of(with_tls) == origin_of(url) else target


def is_usable(url: str) -> bool:
    """Returns whether a request could be sent to a URL. Reads the host, which httpx decodes only then."""
    import httpx

    try:
        _ = httpx.URL(url).host
    except (ValueError, httpx.InvalidURL):  # idna's errors are subclasses of ValueError
        return False
    return True


def may_follow(url: str, target: str) -> bool:
    """Returns whether a redirect stays on the origin, or goes from http to https on default ports."""
    origin = origin_of(url)
    upgraded = f"https:{origin[5:-2]}443" if origin.startswith("http:") and origin.endswith(":80") else origin
    return bool(origin) and origin_of(target) in {origin, upgraded}


def is_loopback_host(host: str) -> bool:
    """Returns whether a host is a loopback name or address (RFC 6761 §6.3, RFC 8252 §7.3)."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_plain(host: str) -> bool:
    """Returns whether a host is an address or an ordinary name, which all parsers understand alike."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _NAME.fullmatch(host) is not None and "xn--" not in host
    return True


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
        """The SSL context of these settings, for one server.

        Raises:
            SettingInvalid: The CA file cannot be read or is not PEM.
        """
        return (_ssl_context if _ASKS_THE_SYSTEM else _shared_context)(self._trusted_file, self.verify)

    @property
    def _trusted_file(self) -> str | None:
        return self.ca_file or os.environ.get("SSL_CERT_FILE") or None

    def describe_trust(self) -> str:
        """The trusted certificates, in words."""
        if not self.verify:
            return "certificates are not checked"
        store = "the operating system's trust store"
        return f"{store} and {self._trusted_file}" if self._trusted_file else store

    def proxy_for(self, url: str) -> "Proxy | None":
        """The proxy for requests to a server, None for a direct connection.

        Raises:
            SettingInvalid: The proxy's URL is malformed or of a kind that is not supported.
        """
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
    """A proxy and the source of its setting.

    Attributes:
        url: The proxy's URL, user name and password included; not for display.
        source: The source of the setting, in words.
    """

    url: str
    source: str

    def __repr__(self) -> str:
        return f"Proxy({self.describe()!r})"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def scheme(self) -> Literal["http", "https"]:
        """The scheme of the proxy itself."""
        return "https" if urlsplit(self.url).scheme == "https" else "http"

    def describe(self) -> str:
        """The proxy without its password, and the source of the setting."""
        return f"{origin_and_path(self.url)} from {self.source}"


def _ssl_context(ca_file: str | None, verify: bool) -> ssl.SSLContext:
    if not verify:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    trusted = _trusting_the_system()
    if ca_file is not None:
        try:
            trusted.load_verify_locations(cafile=str(Path(ca_file).expanduser()))
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
    return trusted


_shared_context: Final = functools.cache(_ssl_context)


def _trusting_the_system() -> ssl.SSLContext:
    if _ASKS_THE_SYSTEM:
        import truststore  # imported here: takes 10 ms, and plain http does not need it

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).glob("*.0"))):
        context.set_default_verify_paths()
    elif bundle := next(filter(os.path.isfile, _BUNDLES), None):
        context.load_verify_locations(cafile=bundle)
    return context


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
