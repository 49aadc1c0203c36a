"""Server-sent events: bytes into events, as they arrive, and events into messages.

https://html.spec.whatwg.org/multipage/server-sent-events.html. httpx-sse reads the events; what stands before
it bounds what a server sends while it arrives: the bytes of an event, and the values in it.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ...types.errors import ProtocolError, ResultTooLarge
from ..limits import Limits, exceeded
from .messages import Message, ValueCounter, decode, messages_of

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b"\n\n"  # ends an event
_HAS_DATA: Final = re.compile(rb"(?:^|\n)data: ?[^\n ]")
_HAS_EFFECT: Final = re.compile(rb"(?:^|\n)(?:data|id|retry)")
_MEDIA_TYPE: Final = {"content-type": "text/event-stream; charset=utf-8"}
_LARGE_EVENT: Final = 16 * 1024
_PIECE: Final = 64 * 1024
_KEPT: Final = 8192  # bytes kept at the beginning and at the end of an event that is too large
_MOST_DROPPED: Final = 256 * 1024 * 1024  # of an event beyond a limit: it may have no end
_LIKE_MESSAGES: Final = (b"{", b"[{", b"[[")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    data: bytes = b""
    name: str = "message"
    id: str = ""  # the last one of the stream
    retry: int | None = None  # milliseconds
    refused: ResultTooLarge | None = None  # it is beyond a limit; its data lacks the middle part


def read_event(data: bytes, values: int) -> list[Message]:
    """The messages in an event's data; none for other data, such as ``ping`` or ``[DONE]`` as plain text.

    Raises `ProtocolError` if the data looks like a message, but is not JSON.
    """
    try:
        return messages_of(decode(data, values=values))
    except ProtocolError:
        if data.lstrip().startswith(_LIKE_MESSAGES):
            raise
        _logger.debug("skipped an event of %d bytes that is no message", len(data))
        return []


def iter_events(
    chunks: Iterable[bytes],
    *,
    limit: int,
    values: int = Limits().values,
    on_growth: Callable[[int], None] | None = None,
    goes_on: bool = False,
) -> Iterator[Event]:
    """The events of a stream as they arrive; raises `ResultTooLarge` for one beyond a limit.

    Against the standard, a complete last event counts without its blank line, which some servers forget.
    `on_growth` is called with the size when a chunk made a large event larger. With `goes_on`, an event
    beyond a limit is `Event.refused`, and the stream goes on if the event ends.
    """
    import httpx  # here, as HTTP takes most of the time of importing the client
    from httpx_sse import EventSource

    bounded = _BoundedEvents(_with_line_feeds(chunks), limit, values, on_growth, goes_on)
    # httpx-sse reads a response only; the true one's media type may lack the exact case or name another
    # charset, though event streams are always UTF-8.
    response = httpx.Response(200, headers=_MEDIA_TYPE, content=bounded)
    for event in EventSource(response).iter_sse():
        data = event.data.encode()
        # A stream that broke off in the middle of an event: what arrived is no message, and is resumed.
        if bounded.is_cut and not _is_whole(data):
            return
        yield Event(data, event.event or "message", event.id, event.retry, bounded.refused)


def _is_whole(data: bytes) -> bool:
    try:
        decode(data)
    except ProtocolError:
        return False
    return True


@dataclass(eq=False)
class _BoundedEvents:
    """Passes the bytes of one whole event after the other on, each within the limits."""

    chunks: Iterable[bytes]
    limit: int
    values: int
    on_growth: Callable[[int], None] | None
    goes_on: bool
    refused: ResultTooLarge | None = None  # why the event that was passed on lacks its middle part
    is_cut: bool = False  # the last event has no blank line
    # Since the last event with data, or beyond a limit: comments and empty events cost time, too.
    _lines: int = 0
    _passed: int = 0  # bytes
    _start: bytes = b""  # of the arriving event, once it is beyond a limit: only its end is kept further
    _error: ResultTooLarge | None = None  # of the arriving event
    _dropped: int = 0  # bytes of it

    def __post_init__(self) -> None:
        self._arriving = bytearray()
        self._counter = ValueCounter(self.values)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.chunks:
            looked_at = max(0, len(self._arriving) - 1)  # a blank line may be split between two chunks
            self._arriving += chunk
            self._lines += chunk.count(b"\n")
            while (end := self._arriving.find(_BLANK, looked_at)) >= 0:
                yield from self._whole_event(end + len(_BLANK))
                looked_at = 0
            self._bound(self._arriving)
            if len(self._arriving) > _LARGE_EVENT and self.on_growth is not None:
                self.on_growth(len(self._arriving))
        self.is_cut = bool(self._arriving)
        self._arriving += _BLANK
        yield from self._whole_event(len(self._arriving))

    def _whole_event(self, end: int) -> Iterator[bytes]:
        """The event in pieces: its reader makes a text of each line of a piece first, used or not."""
        event = bytes(self._arriving[:end])
        del self._arriving[:end]
        self._bound(event)
        if self._error is not None or _HAS_DATA.search(event):
            self._lines = self._passed = 0
        else:
            self._passed += len(event)
        if self._error is not None:
            event = self._start + b"\ndata:" + event[-_KEPT:]
        elif not _HAS_EFFECT.search(event):
            event = b""  # hundreds of thousands would cost their reader seconds
        self.refused, self._error, self._start = self._error, None, b""
        self._dropped = 0
        self._counter = ValueCounter(self.values)
        return (event[at : at + _PIECE] for at in range(0, len(event), _PIECE))

    def _bound(self, event: bytes | bytearray) -> None:
        """Looks at an event that may still be arriving."""
        if self._error is None:
            try:
                self._check(event)
            except ResultTooLarge as error:
                if not self.goes_on:
                    raise
                self._error, self._start = error, bytes(event[:_KEPT])
        # Nothing of its middle is used any more.
        if self._error is not None and event is self._arriving:
            self._dropped += max(0, len(event) - _KEPT)
            del self._arriving[:-_KEPT]
            if self._dropped > _MOST_DROPPED:
                raise self._error

    def _check(self, event: bytes | bytearray) -> None:
        if self._passed + len(event) > self.limit:
            what = f"The server sent an event of more than {self.limit} bytes"
            raise exceeded("event_bytes", self.limit, what)
        if self._lines > self.values:
            what = f"The server sent {self._lines:,} lines on its stream, and no whole message"
            raise exceeded("values", self.values, what)
        self._counter.check(event)


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
