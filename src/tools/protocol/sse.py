"""Server-sent events out of a stream of bytes, with a bound on their size.

The event rules are httpx-sse's (https://html.spec.whatwg.org/multipage/server-sent-events.html); here are the
things that it leaves to its caller: a byte order mark, UTF-8 whatever the header says, and an event that
never ends, which it would buffer for ever.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import httpx
from httpx_sse import EventSource, ServerSentEvent

from ...types.errors import ProtocolError, ResultTooLarge
from .json_text import decode
from .jsonrpc import Message, messages_of

TOO_LARGE: Final = "too large"
"""Name of the event that stands for one beyond the limit; its data lacks the middle."""

_logger = logging.getLogger(__name__)
_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b"\n\n"
_LARGE: Final = 16 * 1024
_KEPT: Final = 8192  # bytes of an event that is too large, at its beginning and its end
_LIKE_MESSAGES: Final = ("{", "[{", "[[")
_HEADERS: Final = {"content-type": "text/event-stream; charset=utf-8"}
_SHORTEST_RETRY, _LONGEST_RETRY = 0.02, 24 * 3600.0  # seconds; 0 would be a loop without a pause


@dataclass(slots=True)
class Cursor:
    """Where a stream was left, and when it may be taken up again.

    Attributes:
        last_id: Id of the last event that had a usable one, else empty.
        retry: Seconds to wait before the next attempt, as the server said.
        seen: Messages so far.
    """

    last_id: str = ""
    retry: float = 1.0
    seen: int = 0

    def take(self, event: ServerSentEvent) -> list[Message]:
        """Notes the event; its messages, none for priming events, pings and what is no message.

        More than one is a batch, which revision 2025-03-26 allows.

        Raises:
            ProtocolError: The data looks like a message and is no JSON.
        """
        if event.id:
            self.last_id = event.id if event.id.isprintable() else ""
        if event.retry is not None:
            self.retry = max(_SHORTEST_RETRY, min(event.retry, 1000 * _LONGEST_RETRY) / 1000)
        if not event.data or event.event not in {"message", ""}:
            return []
        self.seen += 1
        return read_event(event.data)


def read_event(data: str) -> list[Message]:
    """The messages of an event; none where it is none, such as a ``ping`` or a ``[DONE]`` as plain text.

    Raises:
        ProtocolError: The data looks like a message and is no JSON.
    """
    try:
        return messages_of(decode(data))
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

    A last event that lacks its blank line counts if it is whole, against the standard: servers that write the
    stream by hand forget that line.

    Args:
        chunks: Decompressed bytes, cut anywhere.
        limit: Bytes of one event at most.
        on_growth: Called when a chunk made a large event larger.
        goes_on: An event that exceeds the limit becomes one of the name `TOO_LARGE`, and others follow it.

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
    """Passes bytes on, and counts them from one blank line to the next."""

    def __init__(
        self, chunks: Iterable[bytes], limit: int, on_growth: Callable[[], None] | None, *, goes_on: bool
    ) -> None:
        self._chunks = chunks
        self._limit = limit
        self._on_growth = on_growth
        self._goes_on = goes_on
        self._size = 0  # of the event that is arriving
        self._last = b""  # the last byte of it
        self.is_cut = False

    def __iter__(self) -> Iterator[bytes]:
        chunks = _with_line_feeds(self._chunks)
        for chunk in chunks:
            data = chunk
            while not self._fits(data):
                if not self._goes_on:
                    raise too_large(self._limit)
                shortened, data = _skip(self._last + data, chunks)
                # The last name that an event gives itself holds.
                yield shortened[len(self._last) :] + f"\nevent:{TOO_LARGE}\n\n".encode()
                self._size, self._last = 0, b""
            yield data
        self.is_cut = bool(self._last)  # no blank line at the end
        yield b"\n\n"

    def _fits(self, data: bytes) -> bool:
        """Counts the bytes; False, and not counted, if the event that they go on with is too large."""
        text = self._last + data  # a blank line may be cut in two
        # One byte is found ten times as fast as two, and JSON on one line holds no line end at all.
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
    """The rest of an event without its middle, and what follows it."""
    start = text.partition(_BLANK)[0][:_KEPT]
    while (end := text.find(_BLANK)) < 0:
        following = next(more, None)
        if following is None:
            text += _BLANK
        else:
            text = text[-_KEPT:] + following
    return start + b"\ndata:" + text[:end][-_KEPT:], text[end + len(_BLANK) :]


def _with_line_feeds(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes without a byte order mark, and with a line feed for every line end.

    A carriage return ends its line at once: a line feed that belongs to it, if there is one, comes later.
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
