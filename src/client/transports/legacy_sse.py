"""HTTP+SSE, the transport of revision 2024-11-05: requests are posted, replies come over one long stream.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse. One reader thread per
connection passes each reply to the call that waits for it. If the stream ends, all waiting calls fail, as
this transport cannot resume streams.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from typing import Final

from ...types.errors import ConnectError, MCPError, ProtocolError, ResultTooLarge, SessionLost, TimedOut
from ..clock import Wait
from ..limits import LISTENING, Limits
from ..network import origin_of, resolved
from ..protocol.events import Event, iter_events, read_event
from ..protocol.messages import Answer, Refusal, Response
from ..protocol.negotiation import TransportKind
from ..protocol.outcomes import Moment
from .base import AnswerQueue, Call, Delivery, Inbox, Pending, PendingCalls, Transport, client_closed, id_of
from .http_channel import EVENTS, HttpChannel, Reply
from .streamable_http import GET_STREAM

_logger = logging.getLogger(__name__)
_POST: Final = (("Content-Type", "application/json"),)
_LOST_SECONDS: Final = 3.0  # for replies that the stream still brings after a POST met a lost session
_AT_THIS_MOMENT: Final = 0.2  # for the reader thread to hand a reply over that has arrived
_LOST: Final = "Look into the server's log; it may have been restarted, and the call may have run"


class LegacySse(Transport):
    """The transport of old servers. Made by `open`."""

    kind: TransportKind = "sse"

    def __init__(self, channel: HttpChannel, limits: Limits, inbox: Inbox) -> None:
        self._channel = channel
        self._event_bytes = min(limits.event_bytes, limits.result_bytes)
        self._values = limits.values
        self._answers = AnswerQueue(self.notify)
        self._calls = PendingCalls(inbox, self._answers.put, limits)
        self._endpoint = ""
        self._is_lost = False
        self._reply: Reply | None = None

    def open(self, wait: Wait) -> Refusal | None:
        """Opens the stream and waits, under the connect clock, for the address to post to.

        Returns the server's refusal, if there is one.
        """
        delivery = Delivery()
        try:
            with wait.connecting():
                reply = self._channel.send(
                    "GET", self._channel.url, GET_STREAM, None, wait, delivery=delivery
                )
                if not reply.is_success or reply.media_type != EVENTS:
                    return reply.refusal()
                try:
                    events = iter_events(
                        reply.chunks(),
                        limit=self._event_bytes,
                        values=self._values,
                        on_growth=lambda _size: self._calls.heard(),
                        goes_on=True,
                    )
                    self._endpoint = self._endpoint_in(events)
                except BaseException:
                    reply.close()
                    raise
        except TimedOut as error:
            if error.kind == "connect" and delivery.moment is not Moment.UNSENT:
                error.what = f"No event within {wait.timeouts.connect:g} s; a proxy may hold the stream back"
            raise
        self._reply = reply
        reply.wait = Wait(LISTENING)  # the stream outlives the call that opened it
        threading.Thread(target=self._read, args=(events,), name="knime-mcp-sse", daemon=True).start()
        return None

    def _endpoint_in(self, events: Iterator[Event]) -> str:
        for event in events:
            if event.name == "endpoint":
                return self._checked_endpoint(event.data.decode("utf-8", "replace"))
        raise ConnectError("The server's event stream ended before it said where to post", phase="protocol")

    def _checked_endpoint(self, data: str) -> str:
        endpoint = resolved(self._channel.url, data.strip())
        if endpoint is None:
            raise ProtocolError(
                "The server wants messages to be posted to something that is no usable URL",
                fix="Ask whoever runs the server",
            )
        # Credentials and arguments are sent to the endpoint, so it must be on the server's origin.
        if origin_of(self._channel.url) != origin_of(endpoint):
            raise ProtocolError(
                "The server wants messages to be posted to another server, which must not get them",
                fix="Ask whoever runs the server; a badly configured reverse proxy is the usual cause",
            )
        return endpoint

    @property
    def is_broken(self) -> bool:
        return self._calls.ended is not None

    def adopt(self, version: str, session_id: str | None) -> None:  # noqa: ARG002
        """This transport has no headers for revision and session."""
        self._calls.adopt(version)

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        pending = Pending(wait, inbox, is_posted=True)
        # Before the POST: the reply may be on the stream before the POST is answered.
        self._calls.add(call.id, pending)
        try:
            refusal = self._post_call(call, pending)
            if refusal is not None:
                if refusal.status != 404:
                    return refusal
                self._calls.remove(call.id)
                # The other waiting calls may be lost, too, unless the stream still brings their replies.
                self._is_lost = True
                self._calls.hurry(_LOST_SECONDS)
                raise SessionLost(
                    "The server no longer knows the session", fix="Call again: a new one is opened"
                )
            wait.for_event(pending.done)
        except TimedOut:
            if not self._is_lost:
                raise
            raise ConnectError(
                "The server lost the session before it replied", phase="http", fix=_LOST
            ) from None
        finally:
            self._calls.remove(call.id)
            wait.reset_idle()
        if pending.error is not None:
            raise pending.error.at()
        assert pending.message is not None
        return Response(pending.message, body=pending.body)

    def _post_call(self, call: Call, pending: Pending) -> Refusal | None:
        """Posts a call. If its reply arrives on the stream, the outcome of the POST is ignored."""
        try:
            refusal = self._post(call.body, call.headers.items(), pending.wait, delivery=call.delivery)
        except (ConnectError, TimedOut):
            # The reader thread may be handling the reply at this moment.
            is_sent = call.delivery.moment is not Moment.UNSENT
            if not is_sent or not pending.done.wait(_AT_THIS_MOMENT) or pending.message is None:
                raise
            refusal = None
        if pending.message is None:
            if self._is_lost:
                pending.wait.hurry(_LOST_SECONDS)
            return refusal
        pending.wait.reset_idle()
        return None

    def notify(self, body: bytes, wait: Wait) -> None:
        self._post(body, (), wait, may_log_in=False)

    def _post(
        self,
        body: bytes,
        headers: Iterable[tuple[str, str]],
        wait: Wait,
        *,
        delivery: Delivery | None = None,
        may_log_in: bool = True,
    ) -> Refusal | None:
        reply = self._channel.send(
            "POST", self._endpoint, (*_POST, *headers), body, wait, delivery=delivery, may_log_in=may_log_in
        )
        if not reply.is_success:
            return reply.refusal()
        reply.drain()
        return None

    def retire(self) -> None:
        """Waits for calls under way, whose replies still come on the stream."""
        self._calls.retire(self.close)

    def close(self) -> None:
        self._end(client_closed())
        if self._reply is not None:
            self._reply.shut_down()

    def _end(self, error: MCPError) -> None:
        # Later calls were not sent yet, so they get `SessionLost` and may continue in a new session.
        self._calls.end(error, SessionLost(error.what, fix="Call again: a new session is opened"))
        self._answers.close()

    def _read(self, events: Iterator[Event]) -> None:
        error: MCPError = ConnectError(
            "The server closed its event stream before it replied",
            phase="http",
            fix="Look into the server's log; a proxy that cuts long streams is another usual cause",
        )
        try:
            for event in events:
                if event.refused is not None:
                    self._calls.fail(id_of(event.data), event.refused)
                elif event.data and event.name == "message":
                    self._dispatch(event.data)
        except ConnectError:
            pass
        except MCPError as failure:
            error = failure
        finally:
            self._end(error)
            if self._reply is not None:
                self._reply.close()

    def _dispatch(self, data: bytes) -> None:
        try:
            messages = read_event(data, self._values)
        except (ProtocolError, ResultTooLarge) as error:
            _logger.debug("skipped an event of %d bytes: %s", len(data), error.what)
            lost, messages = id_of(data), []
            if lost is not None:
                self._calls.fail(lost, error)
        if not messages:
            self._calls.count_other()
        for message in messages:
            self._calls.dispatch(message, data)
