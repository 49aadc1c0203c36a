"""HTTP+SSE, the transport of revision 2024-11-05: requests are posted, replies come over one long stream.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse. One reader thread per
connection hands each reply to the call that waits for it. A stream that ends takes all of them with it: there
is no resumption.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from httpx_sse import ServerSentEvent

from ...types.errors import ConnectError, MCPError, ProtocolError, SessionLost
from ..clock import Wait
from ..limits import Limits, Timeouts
from ..protocol.answers import Answer, Refusal, Response
from ..protocol.jsonrpc import Message, answers, decode, encode, is_response
from ..protocol.sse import iter_events
from .base import Call, Inbox, TransportKind
from .http_channel import HttpChannel, resolved, same_origin
from .http_reply import EVENTS, Reply

_logger = logging.getLogger(__name__)
_POST: Final = (("Content-Type", "application/json"),)
_GET: Final = (("Accept", EVENTS), ("Cache-Control", "no-store"))


@dataclass(slots=True)
class _Pending:
    """A call that waits for its reply."""

    wait: Wait
    inbox: Inbox
    done: threading.Event = field(default_factory=threading.Event)
    message: Message | None = None
    error: MCPError | None = None

    def finish(self, *, message: Message | None = None, error: MCPError | None = None) -> None:
        self.message = message
        self.error = error
        self.done.set()


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
        self._inbox = inbox
        self._limits = limits
        self._pending: dict[int, _Pending] = {}
        self._lock = threading.Lock()
        self._endpoint = ""
        self._ended: MCPError | None = None
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
                    on_growth=self._grew,
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

    def adopt(self, version: str, session_id: str | None) -> None:
        """See the protocol class: revisions and sessions are not in headers here."""

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        """See the protocol class."""
        pending = _Pending(wait, inbox)
        with self._lock:
            if self._ended is not None:
                raise self._ended.at()
            self._pending[call.id] = pending
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
            with self._lock:
                self._pending.pop(call.id, None)
        if pending.error is not None:
            raise pending.error.at()
        assert pending.message is not None
        return Response(pending.message)

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
        self._end(ConnectError("The client was closed", phase="tcp", fix="Open it again"))
        if self._reply is not None:
            self._reply.shut_down()

    def _end(self, error: MCPError) -> None:
        with self._lock:
            if self._ended is None:
                # For those who come later nothing was sent: they may open a new session and go on.
                self._ended = SessionLost(error.what, fix="Call again: a new session is opened")
            waiting, self._pending = list(self._pending.values()), {}
        for pending in waiting:
            pending.finish(error=error)

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
            value = decode(data)
        except ProtocolError as error:
            _logger.warning("skipped an event of %d bytes: %s", len(data), error.what)
            return
        if not isinstance(value, dict):
            return
        message = cast("Message", value)
        if is_response(message):
            pending = self._claim(message)
            if pending is not None:
                pending.finish(message=message)
            return
        with self._lock:
            inboxes = [pending.inbox for pending in self._pending.values()]
        if "id" in message:
            self._answer(message)
            return
        method, params = message.get("method"), message.get("params")
        for inbox in inboxes or [self._inbox]:
            # Progress finds its call by its token; nothing else says which call it belongs to.
            inbox.notification(
                str(method), cast("dict[str, Any]", params) if isinstance(params, dict) else {}
            )

    def _claim(self, message: Message) -> _Pending | None:
        with self._lock:
            for call_id in self._pending:
                if answers(message, call_id):
                    return self._pending.pop(call_id)
            # An error whose request the server could not read: it can only be meant for the sole call.
            if message.get("id") is None and len(self._pending) == 1:
                return self._pending.popitem()[1]
            return None

    def _grew(self) -> None:
        """A large event is arriving. Nobody knows yet for which call, but it is not silence."""
        with self._lock:
            for pending in self._pending.values():
                pending.wait.reset_idle()

    def _answer(self, message: Message) -> None:
        answer = self._inbox.server_request(message)
        if answer is None:
            return
        try:
            self.notify(encode(answer), (), Wait(Timeouts(total=10)))
        except MCPError as error:
            _logger.warning("an answer to the server could not be sent: %s", error.what)
