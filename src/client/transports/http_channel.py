"""An HTTP connection pool to one origin: requests out, bounded replies in.

Both HTTP transports send through this module. It keeps the security rules of a client: credentials and custom
headers go to the server's own origin only, redirects are followed only where nothing can leak or change, and
no reply exceeds its limit, compressed or not.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpcore
import httpx

from ...types.canonical import without_surrogates
from ...types.errors import AuthError, ConnectError, SettingInvalid, origin_and_path
from ...version import VERSION
from ..auth import Authorization, check_header_name, check_header_value
from ..clock import Wait
from ..limits import Limits
from ..network import NetworkSettings, Proxy
from ..server_url import origin_of
from .base import Step, Trace, client_closed
from .connections import Connections
from .http_reply import Reply
from .sockets import Backend, is_waiting, waiting

_MOST_COOKIES: Final = 50  # RFC 6265 §6.1; all of them are sent with every request
_LONGEST_SHOWN: Final = 200
_OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)


class HttpChannel:
    """Sends requests to one server.

    Args:
        url: The server's URL, secrets in its query included.
        authorization: The caller's authorization.
        headers: Custom headers for every request.
        network: Trust store and proxy.
        limits: Limits of sizes and redirects.
        trace: Called with each step of opening connections, until `stop_tracing`.
        backend: Opens connections; by default a backend that does not check addresses.

    Raises:
        SettingInvalid: A custom header cannot be sent, or the URL or a setting of the network is not valid.
    """

    def __init__(
        self,
        url: str,
        *,
        authorization: Authorization | None,
        headers: Mapping[str, str],
        network: NetworkSettings,
        limits: Limits,
        trace: Trace | None = None,
        backend: Backend | None = None,
    ) -> None:
        if not is_usable(url):
            raise SettingInvalid(
                "The server URL names a host that cannot exist, or is far too long",
                setting="server_url",
                fix="Enter the full URL, such as https://host/mcp",
            )
        self.url = url
        self._entered = url
        self._limits = limits
        self._authorization = authorization
        self._base: list[tuple[str, str]] = [
            ("Accept-Encoding", "gzip, deflate"),
            ("Connection", "keep-alive"),
            *_custom(headers),
        ]
        if not any(name.lower() == "user-agent" for name in headers):
            self._base.append(("User-Agent", f"knime-mcp/{VERSION}"))
        self._cookies = httpx.Cookies()  # load balancers tie a session to its machine by a cookie
        self._has_cookies = False
        self._network = network
        self._proxy = network.proxy_for(url)
        if self._proxy is not None and not is_usable(self._proxy.url):
            raise SettingInvalid(
                f"The proxy named by {self._proxy.source} has a host that cannot exist",
                setting="proxy",
                fix="Enter it as http://host:port",
            )
        self._backend = Backend(network, self._proxy, trace) if backend is None else backend
        self._connections: dict[bool, Connections] = {}  # by whether they use TLS
        self._lock = threading.Lock()
        self._closed = False

    def stop_tracing(self) -> None:
        """Ends the trace, as connecting is over."""
        self._backend.trace = None

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            self._closed = True
            all_connections, self._connections = list(self._connections.values()), {}
        for connections in all_connections:
            connections.close()

    def send(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes | None,
        wait: Wait,
        *,
        may_log_in: bool = True,
    ) -> Reply:
        """Sends a request and returns as soon as the reply's headers have arrived.

        Follows redirects according to `_redirected`. Repeats the request as long as the authorization can
        renew itself after 401 or 403 (a login may be followed by a step-up), at most `Limits.attempts` times,
        and only with `may_log_in`.

        Raises:
            ConnectError: No connection, no complete reply, or a redirect that must not be followed.
            AuthError: No new login could be obtained.
        """
        target = url
        redirects = 0
        logins = self._limits.attempts if may_log_in else 0
        while True:
            reply = self.exchange(method, target, headers, body, wait)
            if reply.status in {301, 302, 303, 307, 308}:
                location = reply.headers.get("location")
                reply.close()
                redirects += 1
                target = self._redirected(method, target, reply.status, location, redirects)
                continue
            if reply.status in {401, 403} and logins and self._renewed(reply, wait):
                logins -= 1
                wait.reset_idle()  # the time of a login does not count as silence of the server
                continue
            if target != self.url == url and reply.is_message:
                self.url = target  # later requests go there directly, as an MCP server answered there
            elif not reply.is_success:
                self.url = self._entered  # the original URL may redirect to another place by now
            return reply

    def _renewed(self, reply: Reply, wait: Wait) -> bool:
        """Returns whether the authorization was renewed. If not, the reply can still be read as a refusal."""
        if self._authorization is None:
            return False
        reply.buffer_refusal()  # frees the connection, as a login by a person may take long
        started = time.monotonic()
        try:
            challenge = reply.headers.get("www-authenticate")
            return self._authorization.challenged(reply.status, challenge, wait.is_over)
        except AuthError as error:
            if self._backend.trace is not None:
                seconds = time.monotonic() - started
                self._backend.trace(Step("auth", "log in", False, error.what, seconds))
            raise

    def exchange(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes | None, wait: Wait
    ) -> Reply:
        """Sends one request and returns its reply, without following redirects or renewing a login.

        Raises:
            ConnectError: No connection, or no reply.
        """
        sent = [*self._base, *headers]
        if self._authorization is not None:
            sent.extend(self._authorization.headers(wait.is_over).items())
        request = httpx.Request(method, url, headers=httpx.Headers(sent, encoding="utf-8"), content=body)
        if self._has_cookies:
            request.headers.encoding = "utf-8"  # with ASCII, httpx raises for cookies of other characters
            with self._lock:
                self._cookies.set_cookie_header(request)
        core = httpcore.Request(
            method,
            httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.content,
        )
        wait.unsent, wait.crossed = True, False
        try:
            with waiting(wait):
                response = self._open_connections(url).handle_request(core, wait)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError) as error:
            wait.look()  # raises if the connection ended because of a cancel
            raise self._no_reply(error) from None
        reply = Reply(response, wait, self._limits)
        if "set-cookie" in reply.headers:
            self._keep_cookies(httpx.Response(reply.status, headers=reply.headers, request=request))
        return reply

    def _keep_cookies(self, response: httpx.Response) -> None:
        with self._lock:  # cookies cannot be counted while another thread adds some
            if len(self._cookies.jar) < _MOST_COOKIES:
                self._cookies.extract_cookies(response)
            self._has_cookies = True

    def _no_reply(self, error: Exception) -> ConnectError:
        if self._closed:
            return client_closed()
        if isinstance(error, httpcore.ProxyError):
            assert self._proxy is not None
            return ConnectError(
                f"The proxy {self._proxy.describe()} refuses the connection: {error}",
                phase="proxy",
                fix="Check the proxy's login and whether it may reach this server",
            )
        if isinstance(error, httpcore.RemoteProtocolError) and "disconnected" not in str(error):
            reason = str(error).partition(":")[0]  # not the server's text after the colon
            return ConnectError(
                f"The server does not speak HTTP here, or its reply is malformed ({reason})",
                phase="http",
                fix="Check the port in the URL, and whether it is https:// instead of http://",
            )
        return ConnectError(
            "The server closed the connection before it replied",
            phase="http",
            fix="Try again; look into the server's log, and check that http:// or https:// is right",
        )

    def _open_connections(self, url: str) -> Connections:
        tls = url.startswith("https:")
        connections = self._connections.get(tls)
        if connections is not None:
            return connections
        with self._lock:
            if self._closed:
                raise client_closed()
            if tls not in self._connections:
                self._connections[tls] = Connections(
                    _pool(self._network, self._proxy, self._backend, tls=tls)
                )
            return self._connections[tls]

    def _redirected(self, method: str, url: str, status: int, location: str | None, count: int) -> str:
        """The target of a redirect, if it may be followed.

        Same scheme, host and port, or http to https on the default ports; method and body unchanged; no
        login in the target. Other redirects could send credentials or arguments to another server.
        """
        if not location:
            raise ConnectError(f"The server redirects ({status}) without saying where", phase="http")
        target = resolved(url, location)
        if target is None:
            raise ConnectError(
                f"The server redirects ({status}) to something that is no usable URL",
                phase="http",
                fix="Check the URL of the server",
            )
        shown = origin_and_path(target)[:_LONGEST_SHOWN]
        if count > self._limits.redirects:
            raise ConnectError(
                f"The server redirects in circles, last to {shown}",
                phase="http",
                fix="Check the URL of the server",
            )
        if method != "GET" and status not in {307, 308}:
            reason = f"answers {status}, which would turn the request into another one"
        elif "@" in urlsplit(target).netloc:
            reason = "names a login in the target"
        elif not _may_follow(url, target):
            reason = "leads to another server, which must get neither credentials nor arguments"
        else:
            return target
        raise ConnectError(
            f"The server redirects to {shown} and {reason}",
            phase="http",
            fix=f"If you trust it, enter {shown} as server URL",
        )


def _pool(
    network: NetworkSettings, proxy: Proxy | None, backend: Backend, *, tls: bool
) -> httpcore.ConnectionPool:
    context = network.ssl_context() if tls or (proxy is not None and proxy.scheme == "https") else None
    if proxy is None:
        return httpcore.ConnectionPool(ssl_context=context, network_backend=backend)
    parts = httpx.URL(proxy.url)
    login = (parts.username.encode(), parts.password.encode()) if parts.username else None
    return httpcore.HTTPProxy(
        proxy_url=httpcore.URL(
            scheme=parts.raw_scheme, host=parts.raw_host, port=proxy.address[1], target=b"/"
        ),
        proxy_auth=login,
        ssl_context=context,
        proxy_ssl_context=context if proxy.scheme == "https" else None,
        network_backend=backend,
    )


def _custom(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    for name, value in headers.items():
        check_header_name("extra_headers", name)
        check_header_value("extra_headers", f"the value of header {name}", value)
        if name.lower() in _OURS:
            raise SettingInvalid(
                f"The header {name} is the protocol's own and cannot be set",
                setting="extra_headers",
                fix="Remove it",
            )
    return list(headers.items())


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
    target = str(httpx.URL(target))
    with_tls = f"https{target.removeprefix('http')}"
    return with_tls if target.startswith("http:") and origin_of(with_tls) == origin_of(url) else target


def is_usable(url: str) -> bool:
    """Returns whether a request could be sent to a URL. Reads the host, which httpx decodes only then."""
    try:
        _ = httpx.URL(url).host
    except (ValueError, httpx.InvalidURL):  # idna's errors are subclasses of ValueError
        return False
    return True


def _may_follow(url: str, target: str) -> bool:
    """Returns whether a redirect stays on the origin, or goes from http to https on default ports."""
    origin = origin_of(url)
    upgraded = f"https:{origin[5:-2]}443" if origin.startswith("http:") and origin.endswith(":80") else origin
    return bool(origin) and origin_of(target) in {origin, upgraded}


def _hide_own_traffic(_record: logging.LogRecord) -> bool:
    return not is_waiting()


# httpcore logs response headers at DEBUG, with session ids and cookies.
for _name in ("httpcore.connection", "httpcore.http11", "httpcore.proxy"):
    logging.getLogger(_name).addFilter(_hide_own_traffic)
