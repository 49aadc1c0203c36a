"""The stream for messages that a server of the handshake era sends unasked: a GET that stays open.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server.
Some servers send requests and progress this way, without naming the request that they belong to. There is one
reader thread per session; it ends if the server offers no such stream, or if the stream breaks repeatedly.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from ...types.errors import ConnectError, MCPError, ProtocolError, TimedOut
from ..clock import Wait
from ..limits import Limits
from ..protocol.jsonrpc import Message
from ..protocol.sse import Cursor, iter_events
from .http_channel import HttpChannel
from .http_reply import EVENTS, Reply
from .listener import Listener

_logger = logging.getLogger(__name__)
GET_STREAM: Final = (("Accept", EVENTS), ("Cache-Control", "no-store"))
SessionHeaders = tuple[tuple[str, str], ...]
"""The headers for the revision and, if the server keeps a session, its id."""


class ServerStream(Listener):
    """Listens to one session until `close` is called.

    Args:
        channel: Connections to the server.
        session: The headers that name the session.
        limits: The limit of one event.
        hear: Called with each message in the reader thread; must return quickly.
        delay: Seconds before the stream is opened, unless a call waits for it, so that a client for a single
            request opens none.
    """

    def __init__(
        self,
        channel: HttpChannel,
        session: SessionHeaders,
        limits: Limits,
        hear: Callable[[Message], None],
        *,
        delay: float = 0.0,
    ) -> None:
        super().__init__("knime-mcp-listen")
        self._channel = channel
        self._session = session
        self._limit = min(limits.event_bytes, limits.result_bytes)
        self._hear = hear
        self._delay = delay
        self._cursor = Cursor()
        self._answered = threading.Event()
        self._wanted = threading.Event()

    def wait_until_answered(self, seconds: float, wait: Wait) -> None:
        """Blocks until the server has opened or refused the stream, at most for some seconds.

        Raises:
            TimedOut: A clock of the call has run out.
            Canceled: The person asked to stop.
        """
        self._wanted.set()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._answered.wait(min(left, wait.slice())):
            pass

    def stop(self) -> None:
        """See the base class."""
        super().stop()
        self._wanted.set()

    def _run(self) -> None:
        try:
            self._wanted.wait(self._delay)
            while not self._stopped.is_set():
                seen, since = self._cursor.seen, time.monotonic()
                if not self._listen():
                    return
                self._answered.set()
                heard = self._cursor.seen > seen
                if self._gives_up(since=since, heard=heard) or self._stopped.wait(self._cursor.retry):
                    return
        except MCPError as error:
            _logger.debug("the server's stream is given up: %s", error.what)
        finally:
            self._answered.set()

    def _listen(self) -> bool:
        """Opens the stream and reads it to its end. Returns whether to try again."""
        last_id = self._cursor.last_id
        resume = (("Last-Event-ID", last_id),) if last_id else ()
        headers = (*GET_STREAM, *self._session, *resume)
        reply: Reply | None = None
        try:
            with self._waiting() as wait:
                # No login is renewed for the stream, as it may never be needed.
                reply = self._channel.exchange("GET", self._channel.url, headers, None, wait)
                if reply.is_success and reply.media_type == EVENTS:
                    self._answered.set()
                    self._read(reply)
                    return True
                # 409: the server has not yet noticed the end of the last stream.
                refusal = reply.refusal()
                return refusal.is_transient or refusal.status == 409
        except (ConnectError, TimedOut):
            return True
        finally:
            if reply is not None:
                reply.close()

    def _read(self, reply: Reply) -> None:
        for event in iter_events(reply.chunks(), limit=self._limit, goes_on=True):
            try:
                messages = self._cursor.take(event)
            except ProtocolError as error:
                _logger.warning("skipped an event of %d bytes: %s", len(event.data), error.what)
                continue
            for message in messages:
                self._hear(message)
