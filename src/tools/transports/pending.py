"""Calls that wait for their replies on a stream that all of them share.

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
    """The id of a message that cannot be read whole: it stands at its beginning or at its end.

    Args:
        head: How it begins, or all of it.
        tail: How it ends, if ``head`` is not all of it.
    """
    found = _ID_AHEAD.search(_octets(head[:_ENDS])) or _ID_BEHIND.search(_octets((tail or head)[-_ENDS:]))
    return int(found[1]) if found else None


def _octets(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


@dataclass(slots=True, eq=False)
class Pending:
    """A call that waits for its reply.

    Attributes:
        wait: Its clocks.
        inbox: Takes what arrives beside the reply.
        done: Set when there is a reply or an error.
        message: The reply.
        error: Why there is none.
        body: The JSON text of the reply.
        is_posted: The call goes out by a POST, which the server answers, too.
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
        """The call is over."""
        self.message = message
        self.error = error
        self.body = body
        if self.is_posted:
            self.wait.hurry(_POST_SECONDS)  # of the call's thread, which may still wait for its POST
        self.done.set()


class PendingCalls:
    """All calls that wait on one stream. Safe for use by many threads at once.

    Args:
        inbox: Hears every notification, and answers the server's requests.
        answer: Sends an answer to the server. Called by the thread that reads; must not raise.
    """

    def __init__(self, inbox: Inbox, answer: Callable[[Message], None]) -> None:
        self._inbox = inbox
        self._answer = answer
        self._calls: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self.ended: MCPError | None = None  # the error for calls that come too late
        self._then: Callable[[], None] | None = None
        self._is_modern = False

    def add(self, call_id: int, pending: Pending) -> None:
        """A call is about to be sent.

        Raises:
            MCPError: The stream has ended.
        """
        with self._lock:
            if self.ended is not None:
                raise self.ended.at()
            self._calls[call_id] = pending

    def remove(self, call_id: int) -> None:
        """Its reply is no longer waited for."""
        with self._lock:
            self._calls.pop(call_id, None)
            then = None if self._calls else self._then
        if then is not None:
            then()

    def retire(self, then: Callable[[], None]) -> None:
        """Runs a function as soon as no call is waiting."""
        with self._lock:
            self._then = then
            waiting = bool(self._calls)
        if not waiting:
            then()

    def hurry(self, seconds: float) -> None:
        """Shorten the idle clocks of all calls, until something arrives for them: replies may be lost."""
        with self._lock:
            for pending in self._calls.values():
                pending.wait.hurry(seconds)

    def refuse(self, afterwards: MCPError) -> None:
        """Takes no more calls: the stream is about to end.

        Args:
            afterwards: The error for calls that come later; the first one holds.
        """
        with self._lock:
            self.ended = self.ended or afterwards

    def end(self, error: MCPError, afterwards: MCPError) -> None:
        """The stream has ended.

        Args:
            error: The error for the calls that wait.
            afterwards: The error for calls that come later; the first one holds.
        """
        with self._lock:
            self.ended = self.ended or afterwards
            waiting, self._calls = list(self._calls.values()), {}
        for pending in waiting:
            pending.finish(error=error)

    def heard(self) -> None:
        """A large message is arriving: restart the idle clocks of all calls, as it may be for any of them."""
        with self._lock:
            for pending in self._calls.values():
                pending.wait.reset_idle()

    def fail(self, call_id: int | None, error: MCPError) -> None:
        """A reply is lost.

        Args:
            call_id: The call it was for; None if that is not known: then all calls fail.
            error: The error for the call.
        """
        with self._lock:
            if call_id is None:
                lost, self._calls = list(self._calls.values()), {}
            else:
                found = self._calls.pop(call_id, None)
                lost = [] if found is None else [found]
        for pending in lost:
            pending.finish(error=error)

    def adopt(self, version: str) -> None:
        """The negotiation is over. A server of the modern era asks nothing, and is not answered."""
        self._is_modern = era_of(version) is Era.MODERN

    def dispatch(self, message: Message, body: bytes | str) -> None:
        """Hands a message to whom it is for.

        Args:
            message: The message.
            body: The JSON text that it was in.
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
            # Progress finds its call by its token; nothing else says which call it belongs to.
            inbox.notification(str(message.get("method")), as_object(message.get("params")))

    def _claim(self, message: Message) -> Pending | None:
        with self._lock:
            for call_id in self._calls:
                if answers(message, call_id):
                    return self._calls.pop(call_id)
            # An error whose request the server could not read: it can only be meant for the sole call.
            if message.get("id") is None and len(self._calls) == 1:
                return self._calls.popitem()[1]
            return None
