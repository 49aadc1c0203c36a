"""Calls that wait for their replies on a shared stream.

HTTP+SSE and stdio have one stream from the server. The thread that reads it finds the call for each message
by its JSON-RPC id.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ...types.errors import MCPError
from ..clock import Wait
from ..protocol.jsonrpc import Message, answers, as_object, is_response
from ..protocol.versions import Era, era_of
from .base import Inbox

_POST_SECONDS: Final = 1.0
_ENDS: Final = 8192
_ID_AHEAD: Final = re.compile(
    rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,\s*"(?:result|error)"'
)
_ID_BEHIND: Final = re.compile(rb',\s*"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def id_of(head: bytes | str, tail: bytes = b"") -> int | None:
    """The id of a message that cannot be read whole, found near its beginning or its end.

    Args:
        head: The beginning of the message, or all of it.
        tail: The end of the message, if ``head`` is only a part.
    """
    match = _ID_AHEAD.search(_octets(head[:_ENDS])) or _ID_BEHIND.search(_octets((tail or head)[-_ENDS:]))
    return int(match[1]) if match else None


def _octets(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


@dataclass(slots=True, eq=False)
class Pending:
    """A call that waits for its reply.

    Attributes:
        wait: The call's clocks.
        inbox: Handles other messages than the reply.
        done: Set when there is a reply or an error.
        message: The reply.
        error: The error, if there is no reply.
        body: The JSON text of the reply.
        is_posted: True if the call is sent by a POST, which the server answers as well.
    """

    wait: Wait
    inbox: Inbox
    done: threading.Event = field(default_factory=threading.Event)
    message: Message | None = None
    error: MCPError | None = None
    body: bytes | str = b""
    is_posted: bool = False

    def finish(
        self, *, message: Message | None = None, error: MCPError | None = None, body: bytes | str = b""
    ) -> None:
        """Ends the call with a reply or an error."""
        self.message = message
        self.error = error
        self.body = body
        if self.is_posted:
            self.wait.hurry(_POST_SECONDS)  # the call's thread may still wait for the answer to its POST
        self.done.set()


class PendingCalls:
    """All calls that wait on one stream. Safe for use by many threads at once.

    Args:
        inbox: Gets every notification, and answers the server's requests.
        answer: Sends an answer to the server. Called in the reader thread; must not raise.
    """

    def __init__(self, inbox: Inbox, answer: Callable[[Message], None]) -> None:
        self._inbox = inbox
        self._answer = answer
        self._calls: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self.ended: MCPError | None = None  # the error for later calls
        self._then: Callable[[], None] | None = None
        self._is_modern = False

    def add(self, call_id: int, pending: Pending) -> None:
        """Adds a call, before it is sent.

        Raises:
            MCPError: The stream has ended.
        """
        with self._lock:
            if self.ended is not None:
                raise self.ended.at()
            self._calls[call_id] = pending

    def remove(self, call_id: int) -> None:
        """Removes a call, whose reply is no longer awaited."""
        with self._lock:
            self._calls.pop(call_id, None)
            then = None if self._calls else self._then
        if then is not None:
            then()

    def retire(self, then: Callable[[], None]) -> None:
        """Runs `then` as soon as no call is waiting."""
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
        """Refuses further calls, as the stream is about to end.

        Args:
            afterwards: The error for later calls, unless one was set before.
        """
        with self._lock:
            self.ended = self.ended or afterwards

    def end(self, error: MCPError, afterwards: MCPError) -> None:
        """Ends all calls, as the stream has ended.

        Args:
            error: The error for the waiting calls.
            afterwards: The error for later calls, unless one was set before.
        """
        with self._lock:
            self.ended = self.ended or afterwards
            waiting, self._calls = list(self._calls.values()), {}
        for pending in waiting:
            pending.finish(error=error)

    def heard(self) -> None:
        """Restarts the idle clocks of all calls, as a large message is arriving for one of them."""
        with self._lock:
            for pending in self._calls.values():
                pending.wait.reset_idle()

    def fail(self, call_id: int | None, error: MCPError) -> None:
        """Fails a call whose reply is lost.

        Args:
            call_id: The call's id; None if it is unknown, which fails all calls.
            error: The error for the call.
        """
        with self._lock:
            if call_id is None:
                lost, self._calls = list(self._calls.values()), {}
            else:
                pending_call = self._calls.pop(call_id, None)
                lost = [] if pending_call is None else [pending_call]
        for pending in lost:
            pending.finish(error=error)

    def adopt(self, version: str) -> None:
        """Sets the negotiated revision. In the modern era servers send no requests and get no answers."""
        self._is_modern = era_of(version) is Era.MODERN

    def dispatch(self, message: Message, body: bytes | str) -> None:
        """Passes a message to its call or to the inbox.

        Args:
            message: The message.
            body: The JSON text of the message, or of its batch.
        """
        if is_response(message):
            pending = self._claim(message)
            if pending is not None:
                pending.finish(message=message, body=body)
            return
        if "id" in message:
            if self._is_modern:
                return
            answer = self._inbox.server_request(message)
            if answer is not None:
                self._answer(answer)
            return
        with self._lock:
            inboxes = [self._inbox, *(pending.inbox for pending in self._calls.values())]
        for inbox in dict.fromkeys(inboxes):
            # Every call gets every notification; progress names its call by a token.
            inbox.notification(str(message.get("method")), as_object(message.get("params")))

    def _claim(self, message: Message) -> Pending | None:
        with self._lock:
            for call_id in self._calls:
                if answers(message, call_id):
                    return self._calls.pop(call_id)
            # An error without an id, as the server could not read the request: it is for the only call.
            if message.get("id") is None and len(self._calls) == 1:
                return self._calls.popitem()[1]
            return None
