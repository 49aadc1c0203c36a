"""The kept connections of one channel, used for one request at a time.

httpcore's own pool scans all its connections twice per request under a lock, and closes idle connections as
soon as idle and busy ones together exceed its limit. Here that pool only opens connections.
"""

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import httpcore

from ..clock import Wait
from .base import client_closed

# Node and uvicorn close an idle connection after 5 s. If a request is sent at that moment, it is unknown
# whether it ran. So connections are kept for less time, and for less than the server's Keep-Alive timeout.
_KEPT_SECONDS: Final = 4.0
_BEFORE_THE_CLOSE: Final = 1.0
# Some servers and proxies close each connection right after the reply without announcing it; the next request
# on a kept connection is then lost. After such a close, no connection is kept for a while, and then only one
# until it has been used again.
_RIGHT_AFTER_SECONDS: Final = 0.5
_NONE_KEPT_SECONDS: Final = 30.0
_TIMEOUT: Final = re.compile(r"\btimeout\s*=\s*\"?(\d{1,9})", re.ASCII | re.IGNORECASE)


class _Idle(NamedTuple):
    """A kept connection, with the times when it became idle and when it expires."""

    since: float
    until: float
    connection: httpcore.ConnectionInterface


class Connections:
    """Connections, one per concurrent request. Safe for use by many threads at once.

    Their number is not limited, as a ping must be answered even while many streams are open; callers limit
    the number of concurrent calls.

    Args:
        pool: Opens connections; sends no requests.
    """

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool
        self._all: set[httpcore.ConnectionInterface] = set()
        self._idle: deque[_Idle] = deque()
        self._can_keep = True  # False after a close right after a reply, until a kept connection was used
        self._none_kept_until = 0.0
        self._closed = False
        self._lock = threading.Lock()

    def handle_request(self, request: httpcore.Request, wait: Wait) -> httpcore.Response:
        """Sends a request, and returns as soon as the reply's headers have arrived.

        Args:
            request: The request.
            wait: Its `crossed` is set if the server may have closed a kept connection before the request.

        Returns:
            The reply. Its connection is kept when the reply is closed.

        Raises:
            ConnectError: `close` was called.
        """
        while True:
            connection, idle_since = self._take(request.url.origin)
            try:
                response = connection.handle_request(request)
                break
            except httpcore.ConnectionNotAvailable:  # another thread has just closed the connection
                self._drop(connection)
            except BaseException as error:
                wait.crossed = idle_since is not None and _is_silent_end(error)
                if wait.crossed and idle_since is not None:
                    self._note_close(idle_since)
                self._give_back(connection, 0.0)
                raise
        if idle_since is not None:
            self._can_keep = True
        stream = cast("Iterable[bytes]", response.stream)
        seconds = _kept_seconds(response.headers)
        response.stream = _Body(stream, lambda: self._give_back(connection, seconds))
        return response

    def close(self) -> None:
        """Closes all connections and wakes the threads that wait for a reply."""
        with self._lock:
            self._closed = True
            connections, self._all = self._all, set()
            self._idle.clear()
        for connection in connections:
            connection.close()

    def _take(self, origin: httpcore.Origin) -> tuple[httpcore.ConnectionInterface, float | None]:
        """A connection, and the time since when it was idle; None for a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise client_closed()
                if not self._idle:
                    connection = self._pool.create_connection(origin)
                    self._all.add(connection)
                    return connection, None
                since, until, connection = self._idle.pop()
            if connection.has_expired():
                self._note_close(since)
            elif time.monotonic() < until and connection.can_handle_request(origin):
                return connection, since
            self._drop(connection)

    def _note_close(self, idle_since: float) -> None:
        """Takes note that the server has closed a kept connection."""
        now = time.monotonic()
        if now - idle_since < _RIGHT_AFTER_SECONDS:
            self._can_keep, self._none_kept_until = False, now + _NONE_KEPT_SECONDS

    def _give_back(self, connection: httpcore.ConnectionInterface, seconds: float) -> None:
        now = time.monotonic()
        old: list[httpcore.ConnectionInterface] = []
        with self._lock:
            may_keep = self._can_keep or (not self._idle and now >= self._none_kept_until)
            if may_keep and connection.is_available() and not connection.is_closed() and not self._closed:
                self._idle.append(_Idle(now, now + seconds, connection))
            else:
                old.append(connection)
            while self._idle and now >= self._idle[0].until:
                old.append(self._idle.popleft().connection)
        for connection in old:
            self._drop(connection)

    def _drop(self, connection: httpcore.ConnectionInterface) -> None:
        with self._lock:
            self._all.discard(connection)
        connection.close()


def _kept_seconds(headers: Sequence[tuple[bytes, bytes]]) -> float:
    """The seconds for which a connection is kept after a reply."""
    for name, value in headers:
        if name.lower() == b"keep-alive" and (match := _TIMEOUT.search(value.decode("ascii", "replace"))):
            announced = float(match[1])
            return min(_KEPT_SECONDS, announced - min(_BEFORE_THE_CLOSE, announced / 2))
    return _KEPT_SECONDS


def _is_silent_end(error: BaseException) -> bool:
    return isinstance(error, httpcore.NetworkError) or "without sending a response" in str(error)


class _Body:
    """The body of a reply; closing it releases the connection."""

    def __init__(self, stream: Iterable[bytes], give_back: Callable[[], None]) -> None:
        self._stream = stream
        self._give_back = give_back
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        """Ends the reply; further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            cast("Any", self._stream).close()  # untyped in httpcore
        finally:
            self._give_back()
