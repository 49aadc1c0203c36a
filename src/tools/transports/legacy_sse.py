"""HTTP+SSE, the transport of revision 2024-11-05: requests are posted, replies come over one long stream.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse. One reader thread per
connection hands each reply to the call that waits for it. A stream that ends takes all of them with it: there
is no resumption.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from typing import Final

from httpx_sse import ServerSentEvent

from ...types.errors import ConnectError, MCPError, ProtocolError, SessionLost
from ..clock import Wait
from ..limits import Limits
from ..protocol.answers import Answer, Refusal, Response
from ..protocol.sse import iter_events, read_event
from .answering import Answers
from .base import Call, Inbox, TransportKind, client_closed
from .http_channel import HttpChannel, resolved, same_origin
from .http_reply import EVENTS, Reply
from .pending import Pending, PendingCalls

_logger = logging.getLogger(__name__)
_POST: Final = (("Content-Type", "application/json"),)
_GET: Final = (("Accept", EVENTS), ("Cache-Control", "no-store"))


class LegacySse:
    """The transport of old servers. Made by `open`.

    Args:
        channel: Connections to the server; not closed with the transport.
        limits: Sizes and numbers.
        inbox: Takes what arrives while no call is waiting.
    """

    kind: TransportKind = "sse"

    def __init__(self, channel: HttpChannel, limits: Limits, inbox: Inbox) -> None:
        self._channel = channel
        self._limits = limits
        self._answers = Answers(self.notify)
        self._calls = PendingCalls(inbox, self._answers.put)
        self._endpoint = ""
        self._reply: Reply | None = None

    def open(self, wait: Wait) -> Refusal | None:
        """Open the stream and wait, under the connect clock, for the address to post to.

        Returns:
            None when the stream stands, or the server's refusal.

        Raises:
            MCPError: No connection, no address in time, or an address on another origin.
        """
        with wait.connecting():
            reply = self._channel.send("GET", self._channel.url, _GET, None, wait)
            if not reply.is_success or reply.media_type != EVENTS:
                return reply.refusal()
            try:
                events = iter_events(
                    reply.chunks(),
                    limit=min(self._limits.event_bytes, self._limits.result_bytes),
                    on_growth=self._calls.heard,
                )
                for event in events:
                    if event.event == "endpoint":
                        self._endpoint = self._checked_endpoint(event.data)
                        break
                else:
                    raise ConnectError(
                        "The server's event stream ended before it said where to post", phase="protocol"
                    )
            except BaseException:
                reply.close()
                raise
        self._reply = reply
        reply.wait_forever()
        threading.Thread(target=self._read, args=(events,), name="knime-mcp-sse", daemon=True).start()
        return None

    def _checked_endpoint(self, data: str) -> str:
        endpoint = resolved(self._channel.url, data.strip())
        if endpoint is None:
            raise ProtocolError(
                "The server wants messages to be posted to something that is no usable URL",
                fix="Ask whoever runs the server",
            )
        # Whoever answers there gets our credentials and arguments.
        if not same_origin(self._channel.url, endpoint):
            raise ProtocolError(
                "The server wants messages to be posted to another server, which must not get them",
                fix="Ask whoever runs the server; a badly configured reverse proxy is the usual cause",
            )
        return endpoint

    @property
    def is_broken(self) -> bool:
        """See the protocol class: the stream has ended."""
        return self._calls.ended is not None

    def listen(self) -> None:
        """See the protocol class: the one stream there is is read all the time."""

    def adopt(self, version: str, session_id: str | None) -> None:  # noqa: ARG002
        """See the protocol class: revisions and sessions are not in headers here."""
        self._calls.adopt(version)

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        """See the protocol class."""
        pending = Pending(wait, inbox)
        self._calls.add(call.id, pending)
        try:
            refusal = self._post(call.body, call.headers.items(), wait)
            if refusal is not None:
                if refusal.status == 404:
                    raise SessionLost(
                        "The server no longer knows the session", fix="Call again: a new one is opened"
                    )
                return refusal
            wait.for_event(pending.done)
        finally:
            self._calls.remove(call.id)
        if pending.error is not None:
            raise pending.error.at()
        assert pending.message is not None
        return Response(pending.message, body=pending.body)

    def notify(self, body: bytes, headers: Iterable[tuple[str, str]], wait: Wait) -> None:
        """See the protocol class."""
        self._post(body, headers, wait)

    def _post(self, body: bytes, headers: Iterable[tuple[str, str]], wait: Wait) -> Refusal | None:
        reply = self._channel.send("POST", self._endpoint, (*_POST, *headers), body, wait)
        try:
            if reply.is_success:
                reply.read()
                return None
            return reply.refusal()
        finally:
            reply.close()

    def end_session(self, wait: Wait) -> None:
        """See the protocol class: closing the stream ends the session."""

    def close(self) -> None:
        """See the protocol class."""
        self._end(client_closed())
        if self._reply is not None:
            self._reply.shut_down()

    def _end(self, error: MCPError) -> None:
        # For those who come later nothing was sent: they may open a new session and go on.
        self._calls.end(error, SessionLost(error.what, fix="Call again: a new session is opened"))
        self._answers.close()

    def _read(self, events: Iterator[ServerSentEvent]) -> None:
        """The reader thread: until the stream ends."""
        error: MCPError = ConnectError(
            "The server closed its event stream before it replied",
            phase="http",
            fix="Look into the server's log; a proxy that cuts long streams is another usual cause",
        )
        try:
            for event in events:
                if event.data and event.event in {"message", ""}:
                    self._dispatch(event.data)
        except ConnectError:
            pass
        except MCPError as failure:
            error = failure
        finally:
            self._end(error)
            if self._reply is not None:
                self._reply.close()

    def _dispatch(self, data: str) -> None:
        try:
            messages = read_event(data)
        except ProtocolError as error:
            _logger.warning("skipped an event of %d bytes: %s", len(data), error.what)
            return
        for message in messages:
            self._calls.dispatch(message, data)
