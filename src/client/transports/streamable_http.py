"""Streamable HTTP: one POST per message, answered by JSON or by a stream of events.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http. In the handshake
era a stream that ends before the response is resumed with ``Last-Event-ID``; in the modern era the response
is lost.

A session of the handshake era also has a stream for messages that the server sends unasked, a GET that stays
open (#listening-for-messages-from-the-server). Some servers send requests and progress this way, without
naming the request that they belong to. One thread per session reads it; the thread ends if the server offers
no such stream, or if the stream breaks repeatedly.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from ...types.errors import ConnectError, MCPError, ProtocolError, ResultTooLarge, TimedOut
from ..clock import ServerListener, Wait
from ..limits import Limits, exceeded
from ..protocol.events import Event, iter_events, read_event
from ..protocol.messages import (
    Answer,
    Message,
    Response,
    answers,
    answers_another,
    as_object,
    decode,
    has_result,
    is_response,
    messages_of,
)
from ..protocol.negotiation import BATCH_VERSIONS, Era, TransportKind, era_of
from ..protocol.outcomes import Moment
from .base import QUESTION, AnswerQueue, Call, Delivery, Inbox, Transport
from .http_channel import EVENTS, HttpChannel, Reply

_logger = logging.getLogger(__name__)
# #sending-messages-to-the-server: a client MUST name both types, whatever it hopes for.
_POST: Final = (("Accept", f"application/json, {EVENTS}"), ("Content-Type", "application/json"))
_STREAM_END_SECONDS: Final = 0.1  # for the end of a stream behind its reply
_MOST_OPEN_ENDS: Final = 3  # replies in a row without an end, until it is not waited for any more
_RESUME_ATTEMPTS: Final = 2  # attempts in a row without an event
# How long the first call waits for the server's stream: longer if the server may send requests, which would
# be lost without the stream; shorter if only progress would be lost.
_QUESTION_SECONDS: Final = 1.0
_PROGRESS_SECONDS: Final = 0.1
_AFTER_THE_FIRST_REPLY: Final = 0.05
_FIX: Final = "Look into the server's log; a proxy that mixes up its clients is another usual cause"
_SHORTEST_RETRY, _LONGEST_RETRY = 0.02, 24 * 3600.0  # seconds; with 0 the client would not pause at all
GET_STREAM: Final = (("Accept", EVENTS), ("Cache-Control", "no-store"))
SessionHeaders = tuple[tuple[str, str], ...]
"""The headers for the revision and, if the server keeps a session, its id."""


@dataclass(slots=True)
class Cursor:
    """The position in a stream, for resuming it."""

    last_id: str = ""  # of the last event with a usable id
    retry: float = 1.0  # the server's pause before the stream is resumed, in seconds
    seen: int = 0  # messages so far
    values: int = Limits().values  # of one message, at most

    def take(self, event: Event) -> list[Message]:
        """Notes the position and returns the event's messages.

        Priming events, pings and events of other names have none; a batch, which revision 2025-03-26 allows,
        has several.
        """
        if event.id:
            # It is sent back in a header, where control characters cannot stand.
            self.last_id = event.id if event.id.isprintable() else ""
        if event.retry is not None:
            self.retry = max(_SHORTEST_RETRY, min(event.retry, 1000 * _LONGEST_RETRY) / 1000)
        if event.refused is not None:
            raise event.refused
        if not event.data or event.name != "message":
            return []
        self.seen += 1
        return read_event(event.data, self.values)


class StreamableHttp(Transport):
    """The current HTTP transport. `may_be_asked`: with what is declared, the server may send requests."""

    kind: TransportKind = "http"

    def __init__(self, channel: HttpChannel, limits: Limits, inbox: Inbox, *, may_be_asked: bool) -> None:
        self._channel = channel
        self._limits = limits
        self._inbox = inbox
        self._may_be_asked = may_be_asked
        self._answers: AnswerQueue | None = None  # made when the server asks
        self._listening: dict[int, Inbox] = {}
        self._stream: ServerStream | None = None
        self._is_heard = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._session: SessionHeaders = ()
        self._version: str | None = None
        self._open_ends = 0  # streams in a row that stayed open after the reply

    def adopt(self, version: str, session_id: str | None) -> None:
        is_legacy = era_of(version) is Era.LEGACY
        self._version = version
        # #protocol-version-header: on every request after the handshake. In the modern era each request has
        # its own, see `messages.request_headers`.
        self._session = (("MCP-Protocol-Version", version), *_session_header(session_id)) if is_legacy else ()

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        session = () if call.is_handshake else self._session
        if not _has_id(session):
            return self._exchange(call, session, wait, inbox)
        self._listening[call.id] = inbox
        try:
            if not self._is_heard:
                self._await_stream(call, wait)
            answer = self._exchange(call, session, wait, inbox)
        except TimedOut:
            if self._stream is not None and self._stream.refused is not None:
                raise self._stream.refused.at() from None  # what it waits for may have been in there
            raise
        finally:
            del self._listening[call.id]
        if self._stream is None and isinstance(answer, Response):
            self._open_stream(_AFTER_THE_FIRST_REPLY)
        return answer

    def listen(self) -> None:
        """Only a session has such a stream."""
        if _has_id(self._session):
            self._open_stream()

    def _exchange(self, call: Call, session: SessionHeaders, wait: Wait, inbox: Inbox) -> Answer:
        url, headers = self._channel.url, (*_POST, *session, *call.headers.items())
        reply = self._channel.send("POST", url, headers, call.body, wait, delivery=call.delivery)
        try:
            if not reply.is_success:
                refusal = reply.refusal(sent_session=_has_id(session))
                message = refusal.message
                if message is not None and has_result(message) and answers(message, call.id):
                    return Response(message, reply.headers)  # the tool has run, despite the status
                return refusal
            if reply.holds_json():
                body = reply.read_json()
                if not body.strip():
                    raise ProtocolError(
                        f"The server answered {reply.status} without a message, where a result is due",
                        fix="Ask whoever wrote the server: every request needs a reply",
                    )
                message = self._only_message(decode(body, values=self._limits.values), call, inbox)
                if answers_another(message, call.id):
                    call.delivery.moment = Moment.MISSED  # the reply was sent before this request arrived
                    raise ConnectError("The server sent the reply to another request", phase="http", fix=_FIX)
                return Response(message, reply.headers, body)
            if reply.media_type != EVENTS:
                return reply.refusal()
            if call.is_handshake:  # answers to requests before the response need the session id
                self._session = _session_header(reply.headers.get("mcp-session-id"))
            message, text = self._from_stream(reply, call, session, wait, inbox)
            return Response(message, reply.headers, text)
        except MCPError:
            reply.close_connection()
            raise
        finally:
            reply.close()

    def notify(self, body: bytes, wait: Wait) -> None:
        """A refusal is ignored."""
        headers = (*_POST, *self._session)
        reply = self._channel.send("POST", self._channel.url, headers, body, wait, may_log_in=False)
        if reply.media_type == EVENTS:
            reply.close()
        else:
            reply.drain()

    def end_session(self, wait: Wait) -> None:
        """Tells the server that the session ends; refusals such as 405 are ignored."""
        stream = self._stream
        if stream is not None:
            stream.stop()
        session, self._session = self._session, ()
        if _has_id(session):
            # #session-management: a client SHOULD do so; servers MAY answer 405.
            url = self._channel.url
            self._channel.send("DELETE", url, session, None, wait, may_log_in=False).close()

    def close(self) -> None:
        """Closes the server's stream, but not the channel."""
        with self._lock:
            self._is_closed = True
            stream, self._stream = self._stream, None
            queue, self._answers = self._answers, None
        if queue is not None:
            queue.close()
        if stream is not None:
            stream.close()

    def _await_stream(self, call: Call, wait: Wait) -> None:
        """Opens the server's stream before a call that may need it, and waits until it is open.

        Usually the stream is opened after the first reply; before the first call only if the server may send
        requests, or the caller wants progress. Some servers would take a stream that is opened during a call
        for the resumption of that call.
        """
        is_needed = self._may_be_asked or call.wants_progress
        stream = self._open_stream() if call.listens and is_needed else self._stream
        if stream is None or not call.listens:
            return
        stream.wait_until_answered(_QUESTION_SECONDS if self._may_be_asked else _PROGRESS_SECONDS, wait)
        wait.reset_idle()
        self._is_heard = True

    def _open_stream(self, delay: float = 0.0) -> "ServerStream | None":
        """Starts to listen to the server in the background, once."""
        with self._lock:
            if self._stream is None and not self._is_closed:
                stream = ServerStream(self._channel, self._session, self._limits, self._hear, delay=delay)
                stream.start()
                self._stream = stream
            return self._stream

    def _only_message(self, value: Any, call: Call, inbox: Inbox) -> Message:
        """The response in a JSON body, which may be a batch if the revision has batches."""
        if isinstance(value, dict):
            message = cast("Message", value)
            if is_response(message):
                return message
            raise ProtocolError("The server's reply is neither a result nor an error")
        # Some servers write every reply as a list of one.
        is_one = isinstance(value, list) and len(cast("list[Any]", value)) == 1
        if isinstance(value, list) and (is_one or self._version in BATCH_VERSIONS or call.is_handshake):
            response: Message | None = None
            for message in messages_of(value):
                if answers(message, call.id):
                    response = message
                else:
                    self._deliver(message, inbox)
            if response is not None:
                return response
        kind = "list" if isinstance(value, list) else "value"
        raise ProtocolError(f"The server's reply is a JSON {kind} where one object is due")

    def _from_stream(
        self, reply: Reply, call: Call, session: SessionHeaders, wait: Wait, inbox: Inbox
    ) -> tuple[Message, bytes]:
        cursor = Cursor(values=self._limits.values)
        response = self._read(reply, call, cursor, wait, inbox)
        if response is not None and self._open_ends < _MOST_OPEN_ENDS:
            # The stream's end usually follows at once, and then the connection can be used again. If a server
            # keeps its streams open, the client stops waiting after some calls.
            self._open_ends = 0 if reply.drain(_STREAM_END_SECONDS) else self._open_ends + 1
        failures = 0
        while response is None:
            what, fix = "The server ended the stream without its reply", None
            # Without an id there is nothing to resume from; modern streams never resume
            # (https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http).
            if not cursor.last_id or self._version is None or era_of(self._version) is Era.MODERN:
                fix = "Look into the server's log; a proxy that cuts long replies is another usual cause"
            elif failures >= _RESUME_ATTEMPTS:
                what = "The server's stream broke and could not be resumed"
                fix = "Look into the server's log; it may have ended, and the call may have run"
            elif cursor.retry >= wait.left:
                what += f", and wants to be asked for it only in {cursor.retry:g} s"
                fix = "Raise the total timeout, or ask whoever runs the server"
            if fix is not None:
                raise ConnectError(what, phase="http", fix=fix)
            before = cursor.last_id, cursor.seen
            # The server's `retry` is an obligation, not a hint (2025-11-25, *Resumability and Redelivery*).
            wait.sleep(cursor.retry)
            response = self._resume(call, cursor, session, wait, inbox)
            # An event with only an id is progress, too: some servers let the client poll that way.
            failures = 0 if (cursor.last_id, cursor.seen) != before else failures + 1
        return response

    def _resume(
        self, call: Call, cursor: Cursor, session: SessionHeaders, wait: Wait, inbox: Inbox
    ) -> tuple[Message, bytes] | None:
        _logger.debug("resuming the stream of request %d", call.id)
        headers = (*GET_STREAM, *session, ("Last-Event-ID", cursor.last_id))
        try:
            reply = self._channel.send("GET", self._channel.url, headers, None, wait)
        except ConnectError:
            return None
        try:
            if not reply.is_success or reply.media_type != EVENTS:
                return None
            return self._read(reply, call, cursor, wait, inbox)
        finally:
            reply.close()

    def _read(
        self, reply: Reply, call: Call, cursor: Cursor, wait: Wait, inbox: Inbox
    ) -> tuple[Message, bytes] | None:
        """Reads up to the response and returns it with its text; None if the stream ends or breaks before."""
        size = 0
        events = iter_events(
            reply.chunks(),
            limit=min(self._limits.event_bytes, self._limits.result_bytes),
            values=self._limits.values,
            on_growth=reply.growing,
        )
        try:
            for event in events:
                messages = cursor.take(event)
                if not messages:
                    continue
                wait.reset_idle()
                response: Message | None = None
                for message in messages:
                    if answers(message, call.id) or _is_anonymous(message):
                        response = message
                    else:
                        cursor.seen += QUESTION - 1 if "id" in message else 0
                        self._deliver(message, inbox)
                if response is not None:
                    return response, event.data
                reply.end_turn()
                size += len(event.data)
                if size > self._limits.result_bytes or cursor.seen > self._limits.events:
                    name = "events" if cursor.seen > self._limits.events else "result_bytes"
                    what = f"The server sent {cursor.seen} messages of {size} bytes beside its reply"
                    raise exceeded(name, getattr(self._limits, name), what)
        except ConnectError as error:
            # The stream broke off, which can be resumed;
            # other phases mean that there is no way to the server.
            if error.phase != "http":
                raise
        return None

    def _hear(self, message: Message) -> None:
        """Handles a message on the server's stream. Every call gets notifications; progress has a token."""
        self._deliver(message, self._inbox, *self._listening.values())

    def _deliver(self, message: Message, inbox: Inbox, *others: Inbox) -> None:
        """Handles messages other than the reply. Requests are answered in another thread."""
        method = message.get("method")
        if not isinstance(method, str):
            return
        if "id" not in message:
            # Each once: the call's own inbox is among those that listen to the session.
            for each in dict.fromkeys((self._inbox, inbox, *others)):
                each.notification(method, as_object(message.get("params")))
            return
        if self._version is not None and era_of(self._version) is Era.MODERN:
            return  # 2026-07-28, *Streamable HTTP*: no requests from servers, no responses from clients
        inbox.server_request(message, self._reply)

    def _reply(self, answer: Message) -> None:
        with self._lock:
            if not self._is_closed:
                self._answers = self._answers or AnswerQueue(self.notify)
                self._answers.put(answer)


def _session_header(session_id: str | None) -> SessionHeaders:
    # #session-management: visible ASCII only. Anything else could not stand in a header.
    if not session_id or not all("!" <= c <= "~" for c in session_id):
        return ()
    return (("Mcp-Session-Id", session_id),)


def _has_id(session: SessionHeaders) -> bool:
    """Whether the headers name a session besides the revision."""
    return len(session) > 1


def _is_anonymous(message: Message) -> bool:
    """Whether a response has no id; on a request's own stream it is the reply to that request."""
    return is_response(message) and message.get("id") is None


_MINUTE: Final = 60.0


class ServerStream(ServerListener):
    """Listens to one session until `close` is called; `hear` gets each message in the reader thread.

    The stream is opened after `delay` seconds, or when a call waits for it, so that a client for a single
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
        self._events = limits.events
        self._heard, self._since = 0, 0.0  # messages in the minute that began then
        self._hear = hear
        self._delay = delay
        self._cursor = Cursor(values=limits.values)
        self._answered = threading.Event()
        self._wanted = threading.Event()
        self.refused: ResultTooLarge | None = None  # why it is given up, if that is beyond a limit

    def wait_until_answered(self, seconds: float, wait: Wait) -> None:
        """Blocks until the server has opened or refused the stream, at most for some seconds."""
        self._wanted.set()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._answered.wait(min(left, wait.slice())):
            pass

    def stop(self) -> None:
        super().stop()
        self._wanted.set()

    def _run(self) -> None:
        try:
            self._wanted.wait(self._delay)
            super()._run()
        except ResultTooLarge as error:
            self.refused = error
            _logger.warning("the server's stream is given up: %s", error.what)
        except MCPError as error:
            _logger.debug("the server's stream is given up: %s", error.what)
        finally:
            self._answered.set()

    def _pause(self) -> float:
        return self._cursor.retry

    def _listen(self) -> bool | None:
        """Opens the stream, from where it broke off, and reads it to its end."""
        last_id, seen = self._cursor.last_id, self._cursor.seen
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery:
        # the id is a cursor within its own stream, and this stream has its own.
        resume = (("Last-Event-ID", last_id),) if last_id else ()
        headers = (*GET_STREAM, *self._session, *resume)
        reply: Reply | None = None
        try:
            delivery = Delivery()
            with self._attempt(delivery) as wait:
                # No login is renewed for the stream, as it may never be needed.
                reply = self._channel.exchange("GET", self._channel.url, headers, None, wait, delivery)
                if reply.is_success and reply.media_type == EVENTS:
                    self._answered.set()
                    self._read(reply)
                else:
                    # 409: the server has not yet noticed the end of the last stream.
                    refusal = reply.refusal()
                    if not refusal.is_transient and refusal.status != 409:
                        return None
        except (ConnectError, TimedOut):
            pass
        finally:
            if reply is not None:
                reply.close()
        self._answered.set()
        # Servers may end a stream behind an event that has an id only, and expect another attempt later (same
        # section).
        return self._cursor.seen > seen or self._cursor.last_id != last_id

    def _read(self, reply: Reply) -> None:
        for event in iter_events(reply.chunks(), limit=self._limit, values=self._cursor.values, goes_on=True):
            try:
                messages = self._cursor.take(event)
            except (ProtocolError, ResultTooLarge) as error:
                _logger.warning("skipped an event of %d bytes: %s", len(event.data), error.what)
                continue
            for message in messages:
                self._count(QUESTION if "id" in message else 1)
                self._hear(message)

    def _count(self, weight: int) -> None:
        """Bounds the messages of a minute: the stream may stay for days, and a flood takes a processor."""
        now = time.monotonic()
        if now - self._since > _MINUTE:
            self._heard, self._since = 0, now
        self._heard += weight
        if self._heard > self._events:
            what = f"The server sent more than {self._events} messages in a minute on its own stream"
            raise exceeded("events", self._events, what)
