"""Server-sent events: bytes into events, as they arrive, and events into messages.

https://html.spec.whatwg.org/multipage/server-sent-events.html. Events are read here, and not by a library, so
that what a server sends is bounded before it is held: the bytes of an event, and the values in its data.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ...types.errors import ProtocolError, ResultTooLarge
from ..limits import Limits, exceeded
from .messages import Message, ValueCounter, decode, messages_of

_BOM: Final = b"\xef\xbb\xbf"
_DATA: Final = b"data:"
_LARGE_EVENT: Final = 16 * 1024
_KEPT: Final = 8192  # bytes kept at the beginning and at the end of an event that is too large
_LIKE_MESSAGES: Final = (b"{", b"[{", b"[[")
_MOST_DIGITS: Final = 15
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
    beyond a limit is `Event.refused`, and the stream goes on.
    """
    events = _Events(limit, values, goes_on=goes_on)
    for chunk in _with_line_feeds(chunks):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            event = events.end_of_line(line)
            if event is not None:
                yield event
        events.add(rest)
        if events.size > _LARGE_EVENT and on_growth is not None:
            on_growth(events.size)
    events.end_of_line(b"")
    last = events.end_of_line(b"")
    if last is not None and _is_whole(last.data):
        yield last


def _is_whole(data: bytes) -> bool:
    try:
        decode(data)
    except ProtocolError:
        return False
    return True


class _Events:
    """Takes the lines of a stream apart, of which the last one may still be arriving."""

    def __init__(self, limit: int, values: int, *, goes_on: bool) -> None:
        self._limit = limit
        self._values = values
        self._goes_on = goes_on
        self._last_id = ""
        self._line = bytearray()  # the arriving line, unless it is one of data
        # Since the last event with data, as comments and empty events cost time, too.
        self._lines = 0
        self._passed = 0  # bytes
        self._begin()

    def _begin(self) -> None:
        self.size = 0  # bytes of the arriving event
        self._data = bytearray()
        self._is_data = False  # the arriving line is one of data
        self._has_data = False
        self._has_fields = False
        self._name = ""
        self._retry: int | None = None
        self._counter = ValueCounter(self._values)
        self._refused: ResultTooLarge | None = None
        self._start = b""  # of a refused event, of which only the end is kept further

    def add(self, part: bytes) -> None:
        """Takes a part of the arriving line."""
        self.size += len(part)
        if not self._is_data:
            self._line += part
            if self._line.startswith(_DATA) and len(self._line) > len(_DATA):
                self._begin_data(self._line[len(_DATA) :].removeprefix(b" "))
                self._line.clear()
        else:
            self._data += part
        self._bound()

    def _begin_data(self, start: bytearray) -> None:
        if self._has_data:
            self._data += b"\n"
        self._data += start
        self._is_data = self._has_data = self._has_fields = True

    def _bound(self) -> None:
        if self._refused is None:
            try:
                if self._passed + self.size > self._limit:
                    what = f"The server sent an event of more than {self._limit} bytes"
                    raise exceeded("event_bytes", self._limit, what)
                if self._lines > self._values:
                    what = f"The server sent {self._lines:,} lines on its stream, and no whole message"
                    raise exceeded("values", self._values, what)
                self._counter.check(self._data)
            except ResultTooLarge as error:
                if not self._goes_on:
                    raise
                self._refused, self._start = error, bytes(self._data[:_KEPT])
        if self._refused is not None:
            del self._data[:-_KEPT], self._line[:-_KEPT]

    def end_of_line(self, rest: bytes) -> Event | None:
        """Takes the end of a line; the event, if the line is blank."""
        self._lines += 1
        self.add(rest)
        if self._is_data:
            self._is_data = False
        elif self._line:
            self._field(bytes(self._line))
            self._line.clear()
        else:
            event = self._event() if self._has_fields else None
            if self._data:
                self._lines = self._passed = 0
            else:
                self._passed += self.size
            self._begin()
            return event
        self.size += 1
        return None

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        match name:
            case b"data":
                self._begin_data(bytearray())
                self._is_data = False
            case b"event":
                self._name = text
            case b"id" if "\0" not in text:
                self._last_id = text
            case b"retry" if text.isdecimal() and text.isascii():
                self._retry = int(text[:_MOST_DIGITS])
            case _:
                return
        self._has_fields = True

    def _event(self) -> Event:
        data = bytes(self._data) if self._refused is None else self._start + b"\n" + self._data
        return Event(data, self._name or "message", self._last_id, self._retry, self._refused)


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
