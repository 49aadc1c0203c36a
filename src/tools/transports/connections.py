"""The connections of one channel: taken for a request, given back with its reply, found without a search.

httpcore's own pool looks at all its connections twice per request, while the other threads wait, and closes
every idle one as soon as there are more than its limit, busy ones included. Here the pool only opens
connections.
"""

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

import httpcore

from ..clock import Wait
from .base import client_closed

# Node and uvicorn close an idle connection after 5 s. A request that crosses such a close is lost, and nobody
# can tell whether it ran; so connections are not kept that long here, nor as long as a server says.
_KEPT_SECONDS: Final = 4.0
_BEFORE_THE_CLOSE: Final = 1.0
_TIMEOUT: Final = re.compile(r"\btimeout\s*=\s*\"?(\d{1,9})", re.ASCII | re.IGNORECASE)


class Connections:
    """Connections, as many as there are requests at a time. Safe for use by many threads at once.

    Unlimited, because a ping must be answerable while any number of streams are open; callers bound how many
    calls they make at once.

    Args:
        pool: Opens connections; not used for requests.
    """

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool
        self._all: set[httpcore.ConnectionInterface] = set()
        self._idle: deque[tuple[float, httpcore.ConnectionInterface]] = deque()  # until when, and which
        self._closed = False
        self._lock = threading.Lock()

    def handle_request(self, request: httpcore.Request, wait: Wait) -> httpcore.Response:
        """Sends a request, and returns as soon as the reply's headers are there.

        Args:
            request: The request.
            wait: Learns whether the request has crossed the end of a connection that was kept.

        Returns:
            The reply. Its connection is given back when the reply is closed.

        Raises:
            ConnectError: They were closed.
        """
        while True:
            connection, is_kept = self._take(request.url.origin)
            try:
                response = connection.handle_request(request)
                break
            except httpcore.ConnectionNotAvailable:  # another thread has just closed it
                self._drop(connection)
            except BaseException as error:
                wait.crossed = is_kept and _is_silent_end(error)
                self._give_back(connection, 0.0)
                raise
        stream = cast("Iterable[bytes]", response.stream)
        seconds = _kept_seconds(response.headers)
        response.stream = _Body(stream, lambda: self._give_back(connection, seconds))
        return response

    def close(self) -> None:
        """Closes all connections; whoever waits for one is woken."""
        with self._lock:
            self._closed = True
            connections, self._all = self._all, set()
            self._idle.clear()
        for connection in connections:
            connection.close()

    def _take(self, origin: httpcore.Origin) -> tuple[httpcore.ConnectionInterface, bool]:
        """A connection, and whether it has served before."""
        while True:
            with self._lock:
                if self._closed:
                    raise client_closed()
                if not self._idle:
                    connection = self._pool.create_connection(origin)
                    self._all.add(connection)
                    return connection, False
                until, connection = self._idle.pop()
            is_fresh = time.monotonic() < until and not connection.has_expired()
            if is_fresh and connection.can_handle_request(origin):
                return connection, True
            self._drop(connection)

    def _give_back(self, connection: httpcore.ConnectionInterface, seconds: float) -> None:
        now = time.monotonic()
        old: list[httpcore.ConnectionInterface] = []
        with self._lock:
            if connection.is_available() and not connection.is_closed() and not self._closed:
                self._idle.append((now + seconds, connection))
            else:
                old.append(connection)
            while self._idle and now >= self._idle[0][0]:
                old.append(self._idle.popleft()[1])
        for connection in old:
            self._drop(connection)

    def _drop(self, connection: httpcore.ConnectionInterface) -> None:
        with self._lock:
            self._all.discard(connection)
        connection.close()


def _kept_seconds(headers: Sequence[tuple[bytes, bytes]]) -> float:
    """The seconds for which a connection is kept after a reply."""
    for name, value in headers:
        if name.lower() == b"keep-alive" and (said := _TIMEOUT.search(value.decode("ascii", "replace"))):
            announced = float(said[1])
            return min(_KEPT_SECONDS, announced - min(_BEFORE_THE_CLOSE, announced / 2))
    return _KEPT_SECONDS


def _is_silent_end(error: BaseException) -> bool:
    return isinstance(error, httpcore.NetworkError) or "without sending a response" in str(error)


class _Body:
    """The body of a reply; closing it gives its connection back."""

    def __init__(self, stream: Iterable[bytes], give_back: Callable[[], None]) -> None:
        self._stream = stream
        self._give_back = give_back
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        """Ends the reply; a second time does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            cast("Any", self._stream).close()  # untyped in httpcore
        finally:
            self._give_back()
