"""What transports are, as the client uses them, and what they share.

Streamable HTTP, HTTP+SSE and stdio differ in how a reply finds its request; above this interface they are the
same. A transport does not know about tools: it moves JSON-RPC messages and reports their outcomes.

HTTP+SSE and stdio have one stream from the server. The thread that reads it finds the call for each message
by its JSON-RPC id (`PendingCalls`). Answers to a server's requests are sent in separate threads
(`AnswerQueue`): a server that does not read an answer must not block the thread that reads all replies.
"""

import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ...types.errors import ConnectError, ConnectPhase, MCPError, SessionLost
from ..clock import Wait
from ..limits import Limits, Timeouts, exceeded
from ..protocol.messages import (
    METHOD_NOT_FOUND,
    Answer,
    Message,
    answers,
    as_object,
    encode,
    error_of,
    is_response,
)
from ..protocol.negotiation import Era, TransportKind, era_of
from ..protocol.outcomes import Moment

_logger = logging.getLogger(__name__)
_ANSWERING: Final = Timeouts(connect=10, idle=10, total=10)
# A server can ask without end: beyond these, its questions get no answer.
_MOST_WAITING: Final = 1000
_MOST_THREADS: Final = 16
_POST_SECONDS: Final = 1.0  # for the answer to a POST whose reply came on the stream already
QUESTION: Final = 50
"""As so many messages a request of a server counts, as each is answered."""
_ENDS: Final = 8192  # bytes at each end of a message in which its id is looked for
_ID_AHEAD: Final = re.compile(
    rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,\s*"(?:result|error)"'
)
_ID_BEHIND: Final = re.compile(rb',\s*"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class Step:
    """A step of connecting, for finding out why a connection fails."""

    phase: ConnectPhase
    what: str
    ok: bool
    detail: str = ""
    seconds: float = 0.0


Trace = Callable[[Step], None]


@dataclass(slots=True, eq=False)
class Delivery:
    """What is known about one attempt to bring a request to the server.

    Transports note it here, `calling.Requests` reads it.
    """

    # called in the thread of the request as soon as the server is busy with it
    on_sent: Callable[[], None] | None = None
    moment: Moment = Moment.UNSENT
    # ends the exchange from another thread, once the request is sent
    interrupt: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way to a transport."""

    id: int
    body: bytes
    # HTTP headers of this request alone; other transports ignore them
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_handshake: bool = False  # ``initialize`` and probes are never canceled or resumed
    listens: bool = False  # the server may send progress or requests about the call before its reply
    wants_progress: bool = False
    delivery: Delivery = field(default_factory=Delivery)


def client_closed() -> ConnectError:
    """The error for calls that are waiting when the client is closed, and for later calls."""
    return ConnectError("The client was closed", phase="protocol", fix="Open it again")


class Inbox(Protocol):
    """Handles messages that are not the reply to a call."""

    def notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Must not raise and must return quickly."""

    def server_request(self, message: Message, reply: Callable[[Message], None]) -> None:
        """Gives ``reply`` the response to a server's request, if there is one: now or in another thread."""


class Transport:
    """Moves messages to one server and back. Safe for use by many threads at once."""

    kind: TransportKind

    @property
    def is_broken(self) -> bool:
        """Whether the next request needs a new connection."""
        return False

    def listen(self) -> None:
        """Opens the stream for messages that the server sends unasked, if the transport has such a stream."""

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        """Sends a request and waits for its answer, passing all other messages to the inbox."""
        raise NotImplementedError

    def notify(self, body: bytes, wait: Wait) -> None:
        """Sends a notification or a response, without waiting for an answer or renewing a login."""

    def adopt(self, version: str, session_id: str | None) -> None:
        """Sets the outcome of the negotiation: revision and session id of all later messages."""

    def end_session(self, wait: Wait) -> None:
        """Tells the server that the session ends, if the transport has a message for that."""

    def retire(self) -> None:
        """Closes as soon as no call is under way; new requests use another transport."""
        self.close()

    def close(self) -> None:
        """Calls under way fail soon."""


class AnswerQueue:
    """A queue of answers to one server. Safe for use by many threads at once.

    Its threads run only while there are answers to send.
    """

    def __init__(self, send: Callable[[bytes, Wait], None]) -> None:
        self._send = send
        self._waiting: deque[Message] = deque()
        self._threads = 0
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def put(self, answer: Message) -> None:
        """Adds an answer and returns at once. One that the server does not read is dropped after a while."""
        with self._lock:
            if self._closed.is_set():
                return
            if len(self._waiting) >= _MOST_WAITING:
                _logger.debug("the server asks, but does not take the answers")
                return
            self._waiting.append(answer)
            if self._threads == _MOST_THREADS:
                return
            self._threads += 1
        threading.Thread(target=self._send_all, name="knime-mcp-answer", daemon=True).start()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._waiting.clear()

    def _send_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                answer = self._waiting.popleft()
            try:
                self._send(encode(answer), Wait(_ANSWERING, is_canceled=self._closed.is_set))
            except MCPError as error:
                if not self._closed.is_set():
                    _logger.warning("an answer to the server could not be sent: %s", error.what)


def id_of(head: bytes, tail: bytes = b"") -> int | None:
    """The id of a message that cannot be read whole, found near its beginning or its end."""
    match = _ID_AHEAD.search(head[:_ENDS]) or _ID_BEHIND.search((tail or head)[-_ENDS:])
    return int(match[1]) if match else None


@dataclass(slots=True, eq=False)
class Pending:
    """A call that waits for its reply; `done` is set when there is one, or an error."""

    wait: Wait
    inbox: Inbox
    done: threading.Event = field(default_factory=threading.Event)
    message: Message | None = None
    error: MCPError | None = None
    body: bytes = b""
    is_posted: bool = False  # the call is sent by a POST, which the server answers as well

    def finish(
        self, *, message: Message | None = None, error: MCPError | None = None, body: bytes = b""
    ) -> None:
        self.message = message
        self.error = error
        self.body = body
        if self.is_posted:
            self.wait.hurry(_POST_SECONDS)  # the call's thread may still wait for the answer to its POST
        self.done.set()


@dataclass(eq=False)
class PendingCalls:
    """All calls that wait on one stream. Safe for use by many threads at once.

    The inbox gets every notification, and answers the server's requests; `answer` sends such an answer, in
    any thread. The `limits` bound how much is taken that is no reply while calls wait.
    """

    inbox: Inbox
    answer: Callable[[Message], None]
    limits: Limits = field(default_factory=Limits)
    ended: MCPError | None = None  # the error for later calls
    _others: int = 0  # messages since a call began or ended
    _calls: dict[int, Pending] = field(default_factory=dict[int, Pending])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _then: Callable[[], None] | None = None
    _is_modern: bool = False
    _has_begun: bool = False

    def add(self, call_id: int, pending: Pending) -> None:
        """Before it is sent."""
        with self._lock:
            if self.ended is not None:
                raise self.ended.at()
            self._calls[call_id] = pending
            self._others = 0

    def remove(self, call_id: int) -> None:
        with self._lock:
            self._calls.pop(call_id, None)
            then = None if self._calls else self._then
        if then is not None:
            then()

    def retire(self, then: Callable[[], None]) -> None:
        with self._lock:
            self._then = then
            waiting = bool(self._calls)
        if not waiting:
            then()

    def hurry(self, seconds: float) -> None:
        """Shortens the idle clocks of all calls until something arrives for them, as replies may be lost."""
        with self._lock:
            for pending in self._calls.values():
                pending.wait.hurry(seconds)

    def refuse(self, afterwards: MCPError) -> None:
        """Refuses further calls, as the stream is about to end."""
        with self._lock:
            self.ended = self.ended or afterwards

    def end(self, error: MCPError, afterwards: MCPError) -> None:
        """Ends all calls, as the stream has ended."""
        self.refuse(afterwards)
        self.fail(None, error)

    def heard(self) -> None:
        """Restarts the idle clocks of all calls, as a large message is arriving for one of them."""
        with self._lock:
            for pending in self._calls.values():
                pending.wait.reset_idle()

    def fail(self, call_id: int | None, error: MCPError) -> None:
        """Fails a call whose reply is lost; all calls if its id is unknown (None)."""
        with self._lock:
            if call_id is None:
                lost, self._calls = list(self._calls.values()), {}
            else:
                pending_call = self._calls.pop(call_id, None)
                lost = [] if pending_call is None else [pending_call]
        for pending in lost:
            pending.finish(error=error)

    def count_other(self, weight: int = 1) -> None:
        """Counts what is no reply; too much of it while calls wait ends the stream, as it may go on."""
        self._others += weight
        if self._calls and self._others > self.limits.events:
            what = f"The server sent {self._others:,} messages or lines, and no reply"
            afterwards = SessionLost(what, fix="Call again: a new session begins")
            self.end(exceeded("events", self.limits.events, what), afterwards)

    def adopt(self, version: str) -> None:
        """Sets the negotiated revision. In the modern era servers send no requests and get no answers."""
        self._is_modern = era_of(version) is Era.MODERN
        self._has_begun = True

    def dispatch(self, message: Message, body: bytes) -> None:
        """Passes a message to its call or to the inbox."""
        if is_response(message):
            pending = self._claim(message)
            if pending is not None:
                self._others = 0
                pending.finish(message=message, body=body)
            return
        self.count_other(QUESTION if "id" in message else 1)
        if "id" in message:
            if self._is_modern:
                return
            self.inbox.server_request(message, self.answer)
            return
        with self._lock:
            # Copied under the lock and called without it: a handler may start or end a call.
            inboxes = [self.inbox, *(pending.inbox for pending in self._calls.values())]
        for inbox in dict.fromkeys(inboxes):
            # Every call gets every notification; progress names its call by a token.
            inbox.notification(str(message.get("method")), as_object(message.get("params")))

    def _claim(self, message: Message) -> Pending | None:
        with self._lock:
            for call_id in self._calls:
                if answers(message, call_id):
                    return self._calls.pop(call_id)
            # An error without an id, as the server could not read the request: it is for the only call.
            if (
                message.get("id") is None
                and len(self._calls) == 1
                and not self._answers_notification(message)
            ):
                return self._calls.popitem()[1]
            return None

    def _answers_notification(self, message: Message) -> bool:
        """Whether a response without an id is for no call: some servers answer notifications, too.

        They say `null`, `{}` or *method not found*. The first notification is sent when the session begins.
        """
        error = error_of(message)
        return self._has_begun and (error is None or error.code == METHOD_NOT_FOUND)
