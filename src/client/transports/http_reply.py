"""An HTTP reply that is read in bounded steps, or summed up as a refusal."""

import contextlib
import html
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import httpcore
import httpx

from ...types.errors import ConnectError, ProtocolError, ResultTooLarge, TimedOut
from ..clock import Wait
from ..limits import LISTENING, Limits, Timeouts
from ..protocol.answers import Refusal
from ..protocol.challenges import parse_retry_after
from ..protocol.json_text import decode
from ..protocol.jsonrpc import as_object, error_of
from ..protocol.results import format_size
from ..words import in_one_line
from .sockets import shut_down, waiting

EVENTS: Final = "text/event-stream"
_JSON: Final = "application/json"
_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t\r\n" + _BOM
_GZIP: Final = b"\x1f"
_DECODED_AT_ONCE: Final = 64 * 1024
_ERROR_BODY_BYTES: Final = 64 * 1024
_EXCERPT: Final = 120
_DRAINED_CHUNKS: Final = 16
_SETTLE_SECONDS: Final = 1.0
_REST_SECONDS: Final = 0.5
# RFC 8259 wants UTF-8, but old Java servers encode JSON like web pages.
_OLD_ENCODING: Final = re.compile(
    r"charset\s*=\s*\"?(iso-8859-\d{1,2}|windows-125\d)", re.ASCII | re.IGNORECASE
)
_TITLE: Final = re.compile(rb"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)


class Reply:
    """An HTTP reply whose body has not been read yet. Must be closed, or read to its end."""

    def __init__(self, response: httpcore.Response, wait: Wait, limits: Limits) -> None:
        self.status = response.status
        self.headers = httpx.Headers(response.headers)
        self._response = response
        self._wait = wait
        self._limits = limits
        self._buffered_body: bytes | None = None
        self._closed = False
        assert isinstance(response.stream, Iterable)
        self._stream = iter(response.stream)

    @property
    def media_type(self) -> str:
        """Media type of the body in lower case, without parameters."""
        # If a proxy repeats the header, its value is a list.
        return self.headers.get("content-type", "").partition(";")[0].partition(",")[0].strip().lower()

    @property
    def is_success(self) -> bool:
        """True for the status 2xx."""
        return 200 <= self.status < 300

    @property
    def is_message(self) -> bool:
        """True if the reply looks like an MCP server's, and not like the web page of a proxy."""
        return self.is_success and (self.status == 202 or self.media_type in {_JSON, EVENTS})

    def holds_json(self) -> bool:
        """Returns whether the body is JSON. If the media type does not tell, the body is read."""
        kind = self.media_type
        if kind in {_JSON, EVENTS} or not (kind.startswith("text/") or "json" in kind or not kind):
            return kind == _JSON
        self._buffered_body = self.read()
        return self._buffered_body.lstrip(_BLANKS)[:1] in {b"{", b"["} and b'"jsonrpc"' in self._buffered_body

    def close(self) -> None:
        """Ends the reply. If its body is incomplete, the connection is closed, which tells the server.

        A connection on which the server sent more than its reply is not used again: the surplus would be
        read as the reply to the next request.
        """
        if self._closed:  # another request may already use the connection
            return
        self._closed = True
        if _has_surplus(self._response):
            self.shut_down()
        self._response.close()

    def close_connection(self) -> None:
        """Closes the reply and its connection, whose next bytes may belong to another request."""
        if not self._closed:
            self.shut_down()
        self.close()

    def wait_forever(self) -> None:
        """Removes the clocks, as the stream outlives the call that opened it; `shut_down` ends it."""
        self._wait = Wait(LISTENING)

    def drain(self, seconds: float = _REST_SECONDS) -> bool:
        """Reads and ignores the rest of the body, so that the connection can be used again.

        Args:
            seconds: The time to wait for the end.

        Returns:
            True if the end arrived. Otherwise the connection is closed.
        """
        self._wait = Wait(Timeouts(connect=seconds, idle=seconds, total=seconds))
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
        stream = cast("Any", self._response).extensions["network_stream"]  # untyped in httpcore
        shut_down(stream.get_extra_info("socket"))

    def chunks(self) -> Iterator[bytes]:
        """The decompressed body as it arrives, of any length, in chunks of at most 64 KiB.

        Raises:
            ConnectError: The connection broke before the end.
            ProtocolError: The compression is not one of those that the request allowed.
        """
        raw = self._raw()
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        match encoding:
            case "" | "identity" | "none" | "utf-8" | "utf8":  # the last three are common mistakes
                return raw
            case "gzip" | "x-gzip" | "deflate":
                return self._under_clocks(_decompressed(raw, encoding))
            case _:
                raise ProtocolError(
                    f"The server compressed its reply as '{encoding[:40]}', which nobody asked for"
                )

    def _under_clocks(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        # A small compressed chunk may become a thousand times larger, so the clocks are checked per chunk.
        for chunk in chunks:
            self._wait.slice()
            yield chunk

    def _raw(self) -> Iterator[bytes]:
        try:
            while True:
                with waiting(self._wait):
                    chunk = next(self._stream, None)
                if chunk is None:
                    return
                yield chunk
        except (httpcore.NetworkError, httpcore.ProtocolError):
            self._wait.look()  # raises if the connection ended because of a cancel
            raise ConnectError(
                "The server closed the connection in the middle of its reply",
                phase="http",
                fix="Look into the server's log; a proxy with a short timeout is another usual cause",
            ) from None

    def read(self, limit: int | None = None) -> bytes:
        """The whole body.

        Raises:
            ResultTooLarge: The body exceeds the limit (`Limits.result_bytes` unless given).
        """
        if self._buffered_body is not None:
            return self._buffered_body
        bound = self._limits.result_bytes if limit is None else limit
        parts: list[bytes] = []
        size = 0
        for chunk in self.chunks():
            size += len(chunk)
            if size > bound:
                raise ResultTooLarge(
                    f"The server's reply is larger than {format_size(bound)}",
                    limit=bound,
                    fix="Ask the tool for less at once, or raise the limit",
                )
            parts.append(chunk)
            self._wait.reset_idle()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_json(self) -> bytes | str:
        """The whole body; as text if it is not UTF-8 but in the encoding that its media type names."""
        body = self.read()
        named = _OLD_ENCODING.search(self.headers.get("content-type", ""))
        if named is None:
            return body
        try:
            return body.decode()
        except UnicodeDecodeError:
            with contextlib.suppress(LookupError, UnicodeDecodeError):
                return body.decode(named[1])
            return body

    def buffer_refusal(self) -> None:
        """Reads the beginning of a refusal's body, for `read` and `refusal` later, and closes the reply."""
        self._wait = self._wait.narrowed(idle=_SETTLE_SECONDS)
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
        media_type = self.media_type
        message = None
        if body[:1] in {b"{", b" ", b"\n", b"\r", b"\t"}:
            with contextlib.suppress(ProtocolError):
                message = as_object(decode(body)) or None
        return Refusal(
            status=self.status,
            media_type=media_type,
            excerpt=_excerpt(body, media_type),
            error=error_of(message),
            challenge=self.headers.get("www-authenticate"),
            retry_after=parse_retry_after(self.headers.get("retry-after")),
            sent_session=sent_session,
            message=message,
        )


def _has_surplus(response: httpcore.Response) -> bool:
    # httpcore keeps bytes after the reply internally, and reads them as part of the next reply.
    connection = getattr(getattr(response.stream, "_stream", None), "_connection", None)
    state = getattr(connection, "_h11_state", None)
    return state is not None and bool(state.trailing_data[0])


def _excerpt(body: bytes, media_type: str) -> str:
    """The body in one line: the title of a web page, else the beginning of the text."""
    start = body.lstrip()[:2048]
    if media_type == "text/html" or start[:15].lower().startswith((b"<!doctype html", b"<html")):
        title = _TITLE.search(body)
        text = html.unescape(title[1].decode("utf-8", "replace")) if title else ""
    else:
        text = start.decode("utf-8", "replace")
    return in_one_line(text, _EXCERPT)


def _decompressed(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Decompresses in bounded steps, so that a small compressed chunk does not become a large one.

    Ends with the compressed data. Bytes after it are not read, as zlib would keep all of them in memory.
    """
    decoder = zlib.decompressobj(47)  # 47 detects gzip or zlib by the header
    raw_deflate_possible = encoding == "deflate"
    try:
        for chunk in chunks:
            data = chunk
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
        while out := decoder.decompress(decoder.unconsumed_tail, _DECODED_AT_ONCE):
            yield out
    except zlib.error:
        raise ProtocolError("The server's compressed reply is damaged") from None
