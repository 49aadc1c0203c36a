"""Server-sent events out of a stream of bytes, with a bound on their size.

The event rules are httpx-sse's (https://html.spec.whatwg.org/multipage/server-sent-events.html); here are the
things that it leaves to its caller: a byte order mark, UTF-8 whatever the header says, and an event that
never ends, which it would buffer for ever.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

import httpx
from httpx_sse import EventSource, ServerSentEvent

from ...types.errors import ResultTooLarge
from .jsonrpc import Message, decode

_BOM: Final = b"\xef\xbb\xbf"
_LARGE: Final = 16 * 1024
_HEADERS: Final = {"content-type": "text/event-stream; charset=utf-8"}
_LONGEST_RETRY_MS: Final = 24 * 3600 * 1000


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

    def take(self, event: ServerSentEvent) -> Message | None:
        """Note the event; its message, None for priming events, pings and what is no message.

        Raises:
            ProtocolError: The data is no JSON.
        """
        if event.id:
            self.last_id = event.id if all(" " <= c <= "~" for c in event.id) else ""
        if event.retry is not None:
            self.retry = min(max(0, event.retry), _LONGEST_RETRY_MS) / 1000
        if not event.data or event.event not in {"message", ""}:
            return None
        self.seen += 1
        value = decode(event.data)
        return cast("Message", value) if isinstance(value, dict) else None


def iter_events(
    chunks: Iterable[bytes], *, limit: int, on_growth: Callable[[], None] | None = None
) -> Iterator[ServerSentEvent]:
    """The events of a stream as they arrive.

    Args:
        chunks: Decompressed bytes, cut anywhere.
        limit: Bytes of one event at most.
        on_growth: Told when a chunk made a large event larger: something is arriving.

    Raises:
        ResultTooLarge: An event exceeds the limit.
    """
    response = httpx.Response(200, headers=_HEADERS, stream=_Bounded(chunks, limit, on_growth))
    return EventSource(response).iter_sse()


class _Bounded(httpx.SyncByteStream):
    """Passes bytes on, and counts them from one blank line to the next."""

    def __init__(self, chunks: Iterable[bytes], limit: int, on_growth: Callable[[], None] | None) -> None:
        self._chunks = chunks
        self._limit = limit
        self._on_growth = on_growth

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        tail = b""
        start: bytes | None = b""
        for chunk in self._chunks:
            data = chunk
            if start is not None:
                start += data
                if len(start) < len(_BOM) and _BOM.startswith(start):
                    continue
                data, start = start.removeprefix(_BOM), None
            text = tail + data  # a blank line may be cut in two
            first, last = _blank_lines(text)
            if size + (len(text) - len(tail) if first is None else first - len(tail)) > self._limit:
                raise ResultTooLarge(
                    f"The server sent an event of more than {self._limit} bytes",
                    limit=self._limit,
                    fix="Ask the tool for less at once, or raise the limit",
                )
            size = size + len(data) if last is None else len(text) - last
            tail = text[-3:] if last is None else text[max(last, len(text) - 3) :]
            if size > _LARGE and self._on_growth is not None:
                self._on_growth()
            yield data
        if start:
            yield start


def _blank_lines(text: bytes) -> tuple[int | None, int | None]:
    """Ends of the first and last blank line, None if there is none."""
    firsts: list[int] = []
    lasts: list[int] = []
    for blank in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        found = text.find(blank)
        if found >= 0:
            firsts.append(found + len(blank))
            lasts.append(text.rfind(blank) + len(blank))
    return (min(firsts), max(lasts)) if firsts else (None, None)
