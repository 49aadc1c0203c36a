"""Requests over HTTP to one origin, and bounded replies.

Both HTTP transports send through this module. It keeps the security rules of a client: credentials and custom
headers go to the server's own origin only, redirects are followed only where nothing can leak or change, and
no reply exceeds its limit, compressed or not.
"""

import contextlib
import functools
import html
import io
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import h11
import httpx

from ...types.errors import AuthError, ConnectError, ProtocolError, ResultTooLarge, SettingInvalid, TimedOut
from ...types.routing import check_header_name
from ...types.texts import in_one_line, origin_and_path
from ...version import VERSION
from ..authorization import Authorization, ProvesPossession, check_header_value
from ..clock import Wait
from ..limits import Limits, Timeouts, exceeded
from ..network import Dialer, NetworkSettings, is_usable, may_follow, resolved
from ..protocol.messages import Refusal, ValueCounter, as_object, decode, error_of
from ..protocol.outcomes import Moment
from ..protocol.tools import format_size
from ..refusals import parse_retry_after
from .base import Delivery, Step, Trace, client_closed
from .connections import (
    LONG_HEAD,
    BrokenConnection,
    Connections,
    HttpConnection,
    connect,
    proxy_login,
)

_MOST_COOKIES: Final = 50  # RFC 6265 §6.1; all of them are sent with every request
_LONGEST_SHOWN: Final = 200
_OURS: Final = frozenset(
    (
        *("accept", "connection", "content-length", "content-type", "cookie", "host"),
        *("last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"),
        *("te", "transfer-encoding", "upgrade"),
    )
)
EVENTS: Final = "text/event-stream"
_JSON: Final = "application/json"
_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t\r\n" + _BOM
_CUT_OFF: Final = "peer closed connection"  # in h11's words
_GZIP: Final = b"\x1f"
_DECODED_AT_ONCE: Final = 64 * 1024
_ERROR_BODY_BYTES: Final = 64 * 1024
_EXCERPT: Final = 120
# Reading the rest of a body saves a new connection, but only as long as it is short and comes at once.
_DRAINED_CHUNKS: Final = 16
_REST_SECONDS: Final = 0.5
_SETTLE_SECONDS: Final = 1.0  # of silence in the body of a refusal, whose status says enough
# RFC 8259 wants UTF-8, but old servers encode JSON like web pages.
_OLD_ENCODING: Final = re.compile(
    r"charset\s*=\s*[\"']?(iso-8859-\d{1,2}|latin-?1|(?:windows-|cp)(?:125\d|9\d\d)|gbk|gb2312|gb18030|big5"
    r"|shift[_-]jis|euc-(?:jp|kr|cn)|koi8-[ru])\b",
    re.ASCII | re.IGNORECASE,
)
_TITLE: Final = re.compile(rb"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)


class HttpChannel:
    """Sends requests to one server.

    Its steps of opening connections are traced until `stop_tracing`. The default dialer does not check
    addresses.
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
        dialer: Dialer | None = None,
    ) -> None:
        self.url = url
        self._entered = url
        self._parsed = functools.lru_cache(maxsize=4)(httpx.URL)  # as slow as all else in making a request
        self._limits = limits
        self._authorization = authorization
        self._proving = authorization if isinstance(authorization, ProvesPossession) else None
        _check(headers)
        own = {name.lower() for name in headers}
        # Only what is decompressed here in bounded steps; httpx would also offer brotli and zstd where it
        # finds them. Users may set another, for servers that compress wrongly.
        encoding = [] if "accept-encoding" in own else [("Accept-Encoding", "gzip, deflate")]
        agent = [] if "user-agent" in own else [("User-Agent", f"knime-mcp/{VERSION}")]
        self._base: list[tuple[str, str]] = [*encoding, *headers.items(), *agent]
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
        self._dialer = Dialer(network, self._proxy, trace) if dialer is None else dialer
        self._connections: dict[bool, Connections] = {}  # by whether they use TLS
        self._lock = threading.Lock()
        self._closed = False
        self._turn = threading.Lock()  # of the one large reply that is read and decoded

    def stop_tracing(self) -> None:
        self._dialer.trace = None

    def close(self) -> None:
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
        delivery: Delivery | None = None,
        may_log_in: bool = True,
    ) -> "Reply":
        """Sends a request and returns as soon as the reply's headers have arrived.

        Follows redirects according to `_redirected`. Repeats the request as long as the authorization can
        renew itself after 401 or 403 (a login may be followed by a step-up), at most `Limits.attempts` times,
        and only with `may_log_in`.
        """
        target = url
        redirects = 0
        logins = self._limits.attempts if may_log_in else 0
        delivery = delivery or Delivery()
        while True:
            reply = self.exchange(method, target, headers, body, wait, delivery)
            # httpx's own redirects would keep custom headers for another host, and turn POST into GET.
            if reply.status in {301, 302, 303, 307, 308}:
                location = reply.headers.get("location")
                reply.close()
                if reply.status in {307, 308}:
                    delivery.moment = Moment.REFUSED
                redirects += 1
                target = self._redirected(method, target, reply.status, location, redirects)
                continue
            if reply.status in {401, 403}:
                delivery.moment = Moment.REFUSED
                if logins and self._renewed(reply, wait):
                    logins -= 1
                    wait.reset_idle()  # the time of a login does not count as silence of the server
                    continue
            if target != self.url == url and reply.is_message:
                self.url = target  # later requests go there directly, as an MCP server answered there
            elif not reply.is_success:
                self.url = self._entered  # the original URL may redirect to another place by now
            return reply

    def _renewed(self, reply: "Reply", wait: Wait) -> bool:
        """Whether the authorization was renewed. If not, the reply can still be read as a refusal."""
        if self._authorization is None:
            return False
        reply.buffer_refusal()  # frees the connection, as a login by a person may take long
        started = time.monotonic()
        try:
            challenge = reply.headers.get("www-authenticate")
            return self._authorization.challenged(reply.status, challenge, wait.is_over)
        except AuthError as error:
            if self._dialer.trace is not None:
                seconds = time.monotonic() - started
                self._dialer.trace(Step("auth", "log in", False, error.what, seconds))
            raise

    def exchange(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes | None,
        wait: Wait,
        delivery: Delivery,
    ) -> "Reply":
        """Sends one request and returns its reply, without following redirects or renewing a login."""
        delivery.moment = Moment.UNSENT
        sent = [*self._base, *headers]
        if self._authorization is not None:
            sent.extend(self._authorization.headers(wait.is_over).items())
        if self._proving is not None:
            sent.extend(self._proving.proof(method, url, body).items())
        target_url = self._parsed(url)
        fields = httpx.Headers(sent, encoding="utf-8")
        request = httpx.Request(method, target_url, headers=fields, content=body)
        if self._has_cookies:
            request.headers.encoding = "utf-8"  # with ASCII, httpx raises for cookies of other characters
            with self._lock:
                self._cookies.set_cookie_header(request)
        target, raw = request.url.raw_path, request.headers.raw
        if self._proxy is not None and request.url.scheme == "http":  # RFC 9112 §3.2.2: absolute form
            target, raw = str(request.url).encode(), [*proxy_login(self._proxy), *raw]
        connections = self._open_connections(url)
        try:
            connection, status, received = connections.exchange(
                h11.Request(method=method, target=target, headers=raw), body or b"", wait, delivery
            )
        except (BrokenConnection, h11.LocalProtocolError) as error:
            wait.look()  # raises if the connection ended because of a cancel
            raise self._no_reply(error) from None
        release = functools.partial(connections.give_back, connection, received)
        taken = httpx.Headers(list(received))
        reply = Reply(connection, status, taken, wait, self._limits, release, self._turn)
        if self._proving is not None and (nonce := reply.headers.get("dpop-nonce")):
            self._proving.take_nonce(nonce)
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
        fault = error.fault if isinstance(error, BrokenConnection) else str(error)
        what = "The server closed the connection before it replied"
        fix = "Look into the server's log, and check that http:// or https:// is right"
        if fault == LONG_HEAD:
            what = f"The server sent {fault}"
            fix = "Ask whoever runs the server, or a proxy in front of it, to send fewer or shorter ones"
        elif fault is not None:
            reason = fault.partition(":")[0]  # not the server's text after the colon
            what = f"The server does not speak HTTP here, or its reply is malformed ({reason})"
            fix = "Check the port in the URL, and whether it is https:// instead of http://"
        return ConnectError(what, phase="http", fix=fix)

    def _open_connections(self, url: str) -> Connections:
        tls = url.startswith("https:")
        connections = self._connections.get(tls)
        if connections is not None:
            return connections
        with self._lock:
            if self._closed:
                raise client_closed()
            if tls not in self._connections:
                is_needed = tls or (self._proxy is not None and self._proxy.scheme == "https")
                context = self._network.ssl_context() if is_needed else None
                self._connections[tls] = Connections(
                    functools.partial(connect, url, self._proxy, self._dialer, context)
                )
            return self._connections[tls]

    def _redirected(self, method: str, url: str, status: int, location: str | None, count: int) -> str:
        """The target of a redirect, if it may be followed.

        Same scheme, host and port, or http to https on the default ports; method and body unchanged; no
        login in the target. Other redirects could send credentials or arguments to another server.
        """
        target = resolved(url, location) if location else None
        shown = origin_and_path(target or "")[:_LONGEST_SHOWN]
        if target is None or count > self._limits.redirects:
            where = "to something that is no usable URL" if location else "without saying where"
            where = f"({status}) {where}" if target is None else f"in circles, last to {shown}"
            raise ConnectError(
                f"The server redirects {where}", phase="http", fix="Check the URL of the server"
            )
        # RFC 9110 §15.4: after 301, 302 and 303 clients may change the method to GET.
        if method != "GET" and status not in {307, 308}:
            reason = f"answers {status}, which would turn the request into another one"
        # The login would be sent to the server, and stand in logs and errors.
        elif "@" in urlsplit(target).netloc:
            reason = "names a login in the target"
        elif not may_follow(url, target):
            reason = "leads to another server, which must get neither credentials nor arguments"
        else:
            return target
        raise ConnectError(
            f"The server redirects to {shown} and {reason}",
            phase="http",
            fix=f"If you trust it, enter {shown} as server URL",
        )


@dataclass(eq=False)
class Reply:
    """An HTTP reply whose body has not been read yet. Must be closed, or read to its end."""

    connection: HttpConnection
    status: int
    headers: httpx.Headers
    wait: Wait
    limits: Limits
    release: Callable[[], None]
    turn: threading.Lock
    _has_turn: bool = False
    _is_whole: bool = False  # whether all is there, whatever the length says
    _wire: int = 0  # bytes that arrived, compressed or not
    _buffered_body: bytes | None = None
    _closed: bool = False

    @functools.cached_property
    def media_type(self) -> str:
        """Media type of the body in lower case, without parameters."""
        # If a proxy repeats the header, its value is a list.
        return self.headers.get("content-type", "").partition(";")[0].partition(",")[0].strip().lower()

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_message(self) -> bool:
        """Whether the reply looks like an MCP server's, and not like the web page of a proxy."""
        return self.is_success and (self.status == 202 or self.media_type in {_JSON, EVENTS})

    def holds_json(self) -> bool:
        """Whether the body is JSON. If the media type does not tell, the body is read."""
        kind = self.media_type
        if kind in {_JSON, EVENTS} or not (kind.startswith("text/") or "json" in kind or not kind):
            return kind == _JSON
        self._buffered_body = self.read()
        return self._buffered_body.lstrip(_BLANKS)[:1] in {b"{", b"["} and b'"jsonrpc"' in self._buffered_body

    def close(self) -> None:
        """Ends the reply. If its body is incomplete, the connection is closed, which tells the server."""
        self.end_turn()
        if not self._closed:  # afterwards another request may use the connection
            self._closed = True
            self.release()

    def growing(self, size: int) -> None:
        """Restarts the idle clock; a large reply waits until no other one is read, so that they share memory.

        The server is not silent meanwhile, so only the total clock and cancel end that wait.
        """
        self.wait.reset_idle()
        if size > self.limits.large_bytes and not self._has_turn:
            while not self.turn.acquire(timeout=self.wait.slice()):
                self.wait.reset_idle()
            self._has_turn = True

    def end_turn(self) -> None:
        """The next large reply may be read, as this one, or this event of it, is decoded."""
        if self._has_turn:
            self._has_turn = False
            self.turn.release()

    def close_connection(self) -> None:
        """Closes the reply and its connection, whose next bytes may belong to another request."""
        if not self._closed:
            self.shut_down()
        self.close()

    def drain(self, seconds: float = _REST_SECONDS) -> bool:
        """Reads and ignores the rest of the body, so that the connection can be used again."""
        self.wait = Wait(Timeouts(connect=seconds, idle=seconds, total=seconds))
        try:
            for _ in zip(self._raw(), range(_DRAINED_CHUNKS), strict=False):
                pass
        except (TimedOut, ConnectError):
            return False
        finally:
            self.close()
        return True

    def shut_down(self) -> None:
        """Ends the connection, which wakes the thread that reads this reply. For other threads."""
        self.connection.shut_down()

    def chunks(self) -> Iterator[bytes]:
        """The decompressed body as it arrives, of any length, in chunks of at most 64 KiB."""
        raw = self._raw()
        match encoding := self.headers.get("content-encoding", "identity").strip().lower():
            case "" | "identity" | "none" | "utf-8" | "utf8":  # the last three are common mistakes
                return raw
            case "gzip" | "x-gzip" | "deflate":
                return self._under_clocks(_decompressed(raw, encoding, self._at_end))
            case _:
                raise ProtocolError(
                    f"The server compressed its reply as '{encoding[:40]}', which this client does not read",
                    fix="Set the header Accept-Encoding to identity",
                )

    def _at_end(self, is_whole: bool) -> None:
        """Notes whether the compressed data have come to their end; other data may follow."""
        # Servers that compress may leave the length of the text. An event stream may be silent for long.
        self._is_whole = is_whole and "content-length" in self.headers and self.media_type != EVENTS

    def _under_clocks(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        # A small compressed chunk may become a thousand times larger, so the clocks are checked per chunk.
        for chunk in chunks:
            self.wait.slice()
            yield chunk

    def _raw(self) -> Iterator[bytes]:
        try:
            while True:
                wait = self.wait.narrowed(idle=_REST_SECONDS) if self._is_whole else self.wait
                if (chunk := self.connection.chunk(wait)) is None:
                    return
                self._wire += len(chunk)
                yield chunk
        except (BrokenConnection, TimedOut) as error:
            if self._is_whole:
                self.wait.slice()
                return
            if isinstance(error, TimedOut):
                raise
            self.wait.look()  # raises if the connection ended because of a cancel
            reason = (error.fault or _CUT_OFF).partition(":")[0]  # not the server's text after the colon
            what = f"The server's reply is malformed in its middle ({reason})"
            fix = "Ask whoever runs the server, or a proxy in front of it"
            if reason.startswith(_CUT_OFF):
                what = "The server closed the connection in the middle of its reply"
                fix = "Look into the server's log; a proxy with a short timeout is another usual cause"
            raise ConnectError(what, phase="http", fix=fix) from None

    def read(self, limit: int | None = None) -> bytes:
        if self._buffered_body is not None:
            return self._buffered_body
        bound = self.limits.result_bytes if limit is None else limit
        body = io.BytesIO()  # gives its bytes away without a copy, which joining a list does not
        size = 0
        values = ValueCounter(self.limits.values)
        for chunk in self.chunks():
            size += len(chunk)
            if size > bound:
                raise exceeded("result_bytes", bound, f"{self._how_large()} larger than {format_size(bound)}")
            body.write(chunk)
            values.check(body.getbuffer())
            self.growing(size)
        return body.getvalue()

    def _how_large(self) -> str:
        if "content-encoding" in self.headers:
            return f"The server's reply ({format_size(self._wire)} on the wire, compressed) is"
        length = self.headers.get("content-length", "")
        said = f" ({format_size(int(length))})" if length.isdecimal() and len(length) < 16 else ""
        return f"The server's reply{said} is"

    def read_json(self) -> bytes:
        """The whole body in UTF-8, if need be from the encoding that its media type names."""
        body = self.read()
        named = _OLD_ENCODING.search(self.headers.get("content-type", ""))
        if named is None:
            return body
        try:
            body.decode()
        except UnicodeDecodeError:
            with contextlib.suppress(LookupError, UnicodeDecodeError):
                return body.decode(named[1]).encode()
        return body

    def buffer_refusal(self) -> None:
        """Reads the beginning of a refusal's body, for `read` and `refusal` later, and closes the reply."""
        self.wait = self.wait.narrowed(idle=_SETTLE_SECONDS)
        try:
            self._buffered_body = self._error_body()
        except TimedOut:
            self._buffered_body = b""

    def _error_body(self) -> bytes:
        """The beginning of a refusal's body, enough for an error message."""
        try:
            if self.media_type != EVENTS:
                return self.read(_ERROR_BODY_BYTES)
        except (ResultTooLarge, ConnectError, ProtocolError):
            pass  # the status is enough for an error message
        finally:
            self.close()
        return b""

    def refusal(self, *, sent_session: bool = False) -> Refusal:
        """The reply as a refusal, with the beginning of its body. Closes the reply."""
        body = self._error_body().removeprefix(_BOM)
        message = None
        if body[:1] in {b"{", b" ", b"\n", b"\r", b"\t"}:
            with contextlib.suppress(ProtocolError):
                message = as_object(decode(body)) or None
        return Refusal(
            status=self.status,
            media_type=self.media_type,
            excerpt=_excerpt(body, self.media_type),
            error=error_of(message),
            challenge=self.headers.get("www-authenticate"),
            retry_after=parse_retry_after(self.headers.get("retry-after")),
            sent_session=sent_session,
            message=message,
        )


def _check(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        check_header_name(name, "headers")
        check_header_value("headers", f"the value of header {name}", value)
        if name.lower() in _OURS:
            raise SettingInvalid(
                f"The header {name} is the protocol's own and cannot be set",
                setting="headers",
                fix="Remove it",
            )


def _excerpt(body: bytes, media_type: str) -> str:
    """The body in one line: the title of a web page, else the beginning of the text."""
    start = body.lstrip()[:2048]
    if media_type == "text/html" or start[:15].lower().startswith((b"<!doctype html", b"<html")):
        title = _TITLE.search(body)
        text = html.unescape(title[1].decode("utf-8", "replace")) if title else ""
    else:
        text = start.decode("utf-8", "replace")
    return in_one_line(text, _EXCERPT)


def _decompressed(chunks: Iterable[bytes], encoding: str, at_end: Callable[[bool], None]) -> Iterator[bytes]:
    """Decompresses in bounded steps, so that a small compressed chunk does not become a large one.

    Tells `at_end` before each further chunk whether the data so far are complete. Ends with the compressed
    data. Bytes after it are not read, as zlib would keep all of them in memory. What is not compressed at
    all, despite its header, stays as it is.
    """
    decoder = zlib.decompressobj(47)  # 47 detects gzip or zlib by the header
    raw_deflate_possible = encoding == "deflate"
    is_plain: bool | None = None
    try:
        for chunk in chunks:
            data = chunk
            if is_plain is None and data:
                is_plain = encoding != "deflate" and not data.startswith(_GZIP)
            if is_plain:
                yield data
                continue
            while data:
                if decoder.eof:
                    if not data.startswith(_GZIP):
                        return
                    decoder = zlib.decompressobj(47)  # RFC 1952 §2.2: gzip members may follow each other
                try:
                    out = decoder.decompress(data, _DECODED_AT_ONCE)
                except zlib.error:
                    if not raw_deflate_possible:
                        raise
                    # RFC 9110 §8.4.1.2: some servers send deflate without the zlib format around it.
                    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
                    out = decoder.decompress(data, _DECODED_AT_ONCE)
                raw_deflate_possible = False
                if out:
                    yield out
                data = decoder.unused_data or decoder.unconsumed_tail
            at_end(decoder.eof)
        # What the bound has held back; `flush` would give all of it at once.
        while out := decoder.decompress(decoder.unconsumed_tail, _DECODED_AT_ONCE):
            yield out
    except zlib.error:
        raise ProtocolError("The server's compressed reply is damaged") from None
