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
_TITLE: Final = re.compile(rb"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)


class Reply:
    """An HTTP reply whose body has not been read yet. Close it, or read it to its end."""

    def __init__(self, response: httpcore.Response, wait: Wait, limits: Limits) -> None:
        self.status = response.status
        self.headers = httpx.Headers(response.headers)
        self._response = response
        self._wait = wait
        self._limits = limits
        self._settled: bytes | None = None
        self._closed = False
        assert isinstance(response.stream, Iterable)
        self._stream = iter(response.stream)

    @property
    def media_type(self) -> str:
        """Type of the body in lower case, without parameters."""
        # A proxy that adds the header once more makes a list of it.
        return self.headers.get("content-type", "").partition(";")[0].partition(",")[0].strip().lower()

    @property
    def is_success(self) -> bool:
        """2xx."""
        return 200 <= self.status < 300

    @property
    def is_message(self) -> bool:
        """Whether the reply is an MCP server's, and not a web page from something in between."""
        return self.is_success and (self.status == 202 or self.media_type in {_JSON, EVENTS})

    def holds_json(self) -> bool:
        """Returns whether the body is one JSON message. Some servers do not say so: then it is read."""
        kind = self.media_type
        if kind in {_JSON, EVENTS} or not (kind.startswith("text/") or "json" in kind or not kind):
            return kind == _JSON
        self._settled = self.read()
        return self._settled.lstrip(_BLANKS)[:1] in {b"{", b"["} and b'"jsonrpc"' in self._settled

    def close(self) -> None:
        """Gives the connection up; for a stream that is not over, this is how the server learns of it.

        A connection on which the server sent more than its reply is not used again: the surplus would be
        taken for the reply to the next request.
        """
        if self._closed:  # somebody else may be using the connection by now
            return
        self._closed = True
        if _has_surplus(self._response):
            self.shut_down()
        self._response.close()

    def abandon(self) -> None:
        """Gives up the reply and its connection, where the next bytes may belong to another request."""
        if not self._closed:
            self.shut_down()
        self.close()

    def wait_forever(self) -> None:
        """The stream outlives the call that opened it; `shut_down` ends it."""
        self._wait = Wait(LISTENING)

    def drain(self, seconds: float = _REST_SECONDS) -> bool:
        """Reads a body that does not matter, or what is left of it, so that the connection can be used again.

        Args:
            seconds: How long to wait for the end.

        Returns:
            Whether the end came. If not, the reply is closed, and its connection with it.
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
        """Wakes the thread that reads this reply, from another one."""
        stream = cast("Any", self._response).extensions["network_stream"]  # untyped in httpcore
        shut_down(stream.get_extra_info("socket"))

    def chunks(self) -> Iterator[bytes]:
        """The decompressed body as it arrives, unbounded in length; decompressed in chunks of at most 64 KiB.

        Raises:
            ConnectError: The connection broke before the end.
            ProtocolError: A compression that we did not ask for.
        """
        raw = self._raw()
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        match encoding:
            case "" | "identity" | "none" | "utf-8" | "utf8":  # the last three are what people mistake it for
                return raw
            case "gzip" | "x-gzip" | "deflate":
                return self._under_clocks(_decompressed(raw, encoding))
            case _:
                raise ProtocolError(
                    f"The server compressed its reply as '{encoding[:40]}', which nobody asked for"
                )

    def _under_clocks(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        # What is received at once may be a thousand times as much afterwards.
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
            self._wait.look()  # it may be us who ended it
            raise ConnectError(
                "The server closed the connection in the middle of its reply",
                phase="http",
                fix="Look into the server's log; a proxy with a short timeout is another usual cause",
            ) from None

    def read(self, limit: int | None = None) -> bytes:
        """The whole body.

        Raises:
            ResultTooLarge: It exceeds the limit (`Limits.result_bytes` unless given).
        """
        if self._settled is not None:
            return self._settled
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

    def settle(self) -> None:
        """Closes the connection of a refusal at once; `read` and `refusal` work afterwards, too."""
        self._wait = self._wait.narrowed(idle=_SETTLE_SECONDS)
        try:
            self._settled = self._words()
        except TimedOut:
            self._settled = b""

    def _words(self) -> bytes:
        """The beginning of a refusal's body, enough for an error message."""
        try:
            if self.media_type != EVENTS:
                return self.read(_ERROR_BODY_BYTES)
        except (ResultTooLarge, ConnectError, ProtocolError):
            pass  # the status says enough
        finally:
            self.close()
        return b""

    def refusal(self, *, sent_session: bool = False) -> Refusal:
        """The reply as a refusal, with as much of its body as helps; closes it."""
        body = self._words().removeprefix(_BOM)
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
    # httpcore keeps to itself what it has read beyond the reply, and goes on with it.
    connection = getattr(getattr(response.stream, "_stream", None), "_connection", None)
    state = getattr(connection, "_h11_state", None)
    return state is not None and bool(state.trailing_data[0])


def _excerpt(body: bytes, media_type: str) -> str:
    """A line that describes the body: the title of a page, else its beginning."""
    start = body.lstrip()[:2048]
    if media_type == "text/html" or start[:15].lower().startswith((b"<!doctype html", b"<html")):
        title = _TITLE.search(body)
        text = html.unescape(title[1].decode("utf-8", "replace")) if title else ""
    else:
        text = start.decode("utf-8", "replace")
    return in_one_line(text, _EXCERPT)


def _decompressed(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Decompresses in bounded steps: a small bomb must not become a large chunk.

    Ends with the compressed data. What follows is not read, as zlib would hold all of it.
    """
    decoder = zlib.decompressobj(47)  # gzip or zlib, by its header
    raw_deflate_possible = encoding == "deflate"
    try:
        for chunk in chunks:
            data = chunk
            while data:
                if decoder.eof:
                    if not data.startswith(_GZIP):
                        return
                    decoder = zlib.decompressobj(47)  # RFC 1952 §2.2: one member after the other
                try:
                    out = decoder.decompress(data, _DECODED_AT_ONCE)
                except zlib.error:
                    if not raw_deflate_possible:
                        raise
                    # RFC 9110 §8.4.1.2: some servers send deflate without its zlib wrapper.
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
