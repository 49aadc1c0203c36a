"""Server-sent events out of a stream of bytes, with a bound on their size.

httpx-sse parses the events (https://html.spec.whatwg.org/multipage/server-sent-events.html). This module adds
what httpx-sse does not do: it removes a byte order mark, always decodes as UTF-8, and limits an event that
never ends.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import httpx
from httpx_sse import EventSource, ServerSentEvent

from ...types.errors import ProtocolError, ResultTooLarge
from ..limits import Limits
from .jsonrpc import Message, decode, messages_of

TOO_LARGE: Final = "too large"
"""The name of an event that replaces one beyond the limit; its data lacks the middle part."""

_logger = logging.getLogger(__name__)
_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b"\n\n"
_LARGE: Final = 16 * 1024
_KEPT: Final = 8192  # bytes kept at the beginning and at the end of an event that is too large
_LIKE_MESSAGES: Final = ("{", "[{", "[[")
_HEADERS: Final = {"content-type": "text/event-stream; charset=utf-8"}
_SHORTEST_RETRY, _LONGEST_RETRY = 0.02, 24 * 3600.0  # seconds; with 0 the client would not pause at all


@dataclass(slots=True)
class Cursor:
    """The position in a stream, for resuming it.

    Attributes:
        last_id: Id of the last event with a usable id, else empty.
        retry: The server's pause before the stream is resumed, in seconds.
        seen: The number of messages so far.
        values: The limit on the values of one message.
    """

    last_id: str = ""
    retry: float = 1.0
    seen: int = 0
    values: int = Limits().values

    def take(self, event: ServerSentEvent) -> list[Message]:
        """Notes the position and returns the event's messages.

        Priming events, pings and events of other names have none; a batch, which revision 2025-03-26 allows,
        has several.

        Raises:
            ProtocolError: The data looks like a message, but is not JSON.
        """
        if event.id:
            self.last_id = event.id if event.id.isprintable() else ""
        if event.retry is not None:
            self.retry = max(_SHORTEST_RETRY, min(event.retry, 1000 * _LONGEST_RETRY) / 1000)
        if not event.data or event.event not in {"message", ""}:
            return []
        self.seen += 1
        return read_event(event.data, self.values)


def read_event(data: str, values: int) -> list[Message]:
    """The messages in an event's data; none for other data, such as ``ping`` or ``[DONE]`` as plain text.

    Raises:
        ProtocolError: The data looks like a message, but is not JSON.
    """
    try:
        return messages_of(decode(data, values=values))
    except ProtocolError:
        if data.lstrip().startswith(_LIKE_MESSAGES):
            raise
        _logger.debug("skipped an event of %d characters that is no message", len(data))
        return []


def iter_events(
    chunks: Iterable[bytes],
    *,
    limit: int,
    on_growth: Callable[[], None] | None = None,
    goes_on: bool = False,
) -> Iterator[ServerSentEvent]:
    """The events of a stream as they arrive.

    Against the standard, a complete last event counts without its blank line, which some servers forget.

    Args:
        chunks: Decompressed bytes in chunks of any size.
        limit: Bytes of one event at most.
        on_growth: Called when a chunk made a large event larger.
        goes_on: True to replace an event beyond the limit by one named `TOO_LARGE` and to continue.

    Raises:
        ResultTooLarge: An event exceeds the limit.
    """
    bounded = _Bounded(chunks, limit, on_growth, goes_on=goes_on)
    response = httpx.Response(200, headers=_HEADERS, stream=bounded)
    for event in EventSource(response).iter_sse():
        if bounded.is_cut and not _is_whole(event.data):
            return
        yield event


def too_large(limit: int) -> ResultTooLarge:
    """The error for an event beyond the limit."""
    return ResultTooLarge(
        f"The server sent an event of more than {limit} bytes",
        limit=limit,
        fix="Ask the tool for less at once, or raise the limit",
    )


def _is_whole(data: str) -> bool:
    try:
        decode(data)
    except ProtocolError:
        return False
    return True


class _Bounded(httpx.SyncByteStream):
    """Passes bytes on, and counts the bytes of each event."""

    def __init__(
        self, chunks: Iterable[bytes], limit: int, on_growth: Callable[[], None] | None, *, goes_on: bool
    ) -> None:
        self._chunks = chunks
        self._limit = limit
        self._on_growth = on_growth
        self._goes_on = goes_on
        self._size = 0  # bytes of the arriving event
        self._last = b""  # the last byte of the arriving event
        self.is_cut = False

    def __iter__(self) -> Iterator[bytes]:
        chunks = _with_line_feeds(self._chunks)
        for chunk in chunks:
            data = chunk
            while not self._fits(data):
                if not self._goes_on:
                    raise too_large(self._limit)
                shortened, data = _skip(self._last + data, chunks)
                # If an event has several event fields, the last one counts.
                yield shortened[len(self._last) :] + f"\nevent:{TOO_LARGE}\n\n".encode()
                self._size, self._last = 0, b""
            yield data
        self.is_cut = bool(self._last)  # no blank line at the end
        yield b"\n\n"

    def _fits(self, data: bytes) -> bool:
        """Counts the bytes. If they make the arriving event too large, returns False and counts nothing."""
        text = self._last + data  # a blank line may be split between two chunks
        # Searching one byte is ten times as fast as two, and JSON on one line has no line end.
        first = text.find(_BLANK) if b"\n" in data else -1
        last = text.rfind(_BLANK) + len(_BLANK) if first >= 0 else 0
        if self._size + (len(data) if first < 0 else first + len(_BLANK) - len(self._last)) > self._limit:
            return False
        self._size = self._size + len(data) if first < 0 else len(text) - last
        self._last = text[-1:] if first < 0 else text[max(last, len(text) - 1) :]
        if self._size > _LARGE and self._on_growth is not None:
            self._on_growth()
        return True


def _skip(text: bytes, more: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The rest of an event without its middle part, and the bytes after the event."""
    start = text.partition(_BLANK)[0][:_KEPT]
    while (end := text.find(_BLANK)) < 0:
        following = next(more, None)
        if following is None:
            text += _BLANK
        else:
            text = text[-_KEPT:] + following
    return start + b"\ndata:" + text[:end][-_KEPT:], text[end + len(_BLANK) :]


def _with_line_feeds(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Removes a byte order mark, and writes every line end as a line feed.

    A carriage return becomes a line feed at once; a line feed that follows in a later chunk is dropped.
    """
    start: bytes | None = b""
    after_return = False
    for chunk in chunks:
        data = chunk
        if start is not None:
            start += data
            if len(start) < len(_BOM) and _BOM.startswith(start):
                continue
            data, start = start.removeprefix(_BOM), None
        if after_return and data:
            data, after_return = data.removeprefix(b"\n"), False
        if b"\r" in data:
            after_return = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if data:
            yield data
    if start:
        yield start
