"""Sends a request until there is a result, in as many attempts and conversations as allowed.

This module decides which requests are sent again. A listing changes nothing, so it is repeated after an
outage. A call is repeated only if it surely did not run: its bytes were not sent, or the server refused it
unread (lost session, wrong headers, 429). A call that the server declares idempotent is repeated also if it
probably did not run. While a server restarts, its port refuses connections and nothing is sent, so the client
waits.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ...types.errors import ConnectError, MCPError, SessionLost
from ..clock import Wait, backoff
from ..protocol import jsonrpc
from ..protocol.answers import Answer, Refusal, Response, rpc_error
from ..protocol.server_info import ServerInfo
from ..protocol.versions import Era
from .connecting import ConnectSettings
from .conversation import CallInbox, Conversation, OnProgress
from .failures import error_from

_logger = logging.getLogger(__name__)
# Texts of refusals because of a lost session, by HTTP status; those with 401 are the Rust SDK's.
_SESSION_WORDS: Final = {400: ("session", "not initialized"), 401: ("session not found",)}
# The same with status 200: WordPress, Anubis. Whole messages only, as a tool's error may mention a session.
_LOST_MESSAGES: Final = frozenset({"invalid or expired session", "server not initialized"})
_SESSION_NOT_FOUND: Final = frozenset({-32001, -32005})  # official SDKs; WordPress and tower-mcp
_RESTART_SECONDS: Final = 5.0  # at most, and no longer than the connect clock

HeadersFor = Callable[[Conversation], Mapping[str, str] | None]


class Conversations(Protocol):
    """The part of `MCPClient` that its own parts use."""

    @property
    def server(self) -> ServerInfo:
        """The server's description from the last connection."""
        ...

    def conversation(self, wait: Wait, instead_of: Conversation | None = None) -> Conversation:
        """The current conversation, or a new one if the current one is `instead_of`, which is lost."""
        ...

    def forget_server(self) -> None:
        """Forgets the remembered outcome of the negotiation."""
        ...


class Requests:
    """Sends requests to one server.

    Args:
        client: Gives the current conversation, or a new one if that is lost.
        settings: Limits, answers to the server's requests.
        reopen_sessions: Send a call again after the server lost the session.
    """

    def __init__(self, client: Conversations, settings: ConnectSettings, *, reopen_sessions: bool) -> None:
        self._client = client
        self._settings = settings
        self._attempts = settings.limits.attempts
        self._reopen_sessions = reopen_sessions
        self._was_reached = False
        self._away_since: float | None = None

    def send(
        self,
        method: str,
        params: dict[str, Any],
        wait: Wait,
        *,
        repeatable: bool,
        idempotent: bool = False,
        on_progress: OnProgress | None = None,
        on_attempt: Callable[[], None] | None = None,
        headers_for: HeadersFor | None = None,
        relist: Callable[[Wait], object] | None = None,
    ) -> Response:
        """Sends a request until there is a result.

        Args:
            method: The method.
            params: The method's parameters.
            wait: Clocks and cancel of all attempts together.
            repeatable: True if the request changes nothing.
            idempotent: True if the server declares that a second call has no further effect. Such a request
                is repeated if the server probably closed a kept connection before it arrived.
            on_progress: Called with each progress report.
            on_attempt: Called each time that the request was sent.
            headers_for: Makes the headers that repeat arguments.
            relist: Lists the tools again after the server refused those headers.

        Returns:
            The response with the result.

        Raises:
            MCPError: There is no result; the error says why.
        """
        failures = losses = 0
        lost: Conversation | None = None
        while True:
            conversation: Conversation | None = None
            try:
                conversation = self._conversation(wait, lost)
                headers = None if headers_for is None else headers_for(conversation)
                answer = self._attempt(conversation, method, params, wait, on_progress, on_attempt, headers)
            except SessionLost:
                losses += conversation is None or conversation.mark_lost()
                if losses >= self._attempts:
                    raise
                lost = conversation or lost
                self._may_reopen(lost, wait, method)
                continue
            except ConnectError as error:
                failures += not self._may_be_restarting(error, wait)
                if conversation is None:
                    may_repeat = error.phase == "tcp"
                else:
                    may_repeat = repeatable or wait.unsent or (wait.crossed and idempotent)
                if not may_repeat or failures >= self._attempts:
                    raise
                pause = backoff(failures or 2)
                if not wait.allows(pause):
                    raise
                _logger.debug("%s is repeated: %s", method, error.what)
                wait.sleep(pause)
                if conversation is not None and conversation.transport.is_broken:
                    lost = conversation
                continue
            if isinstance(answer, Response) and jsonrpc.has_result(answer.message):
                return answer
            if self._is_stale(answer, conversation):
                losses += conversation.mark_lost()
                if losses >= self._attempts:
                    raise self._still_stale(answer, losses)
                lost = conversation
                self._may_reopen(lost, wait, method)
                continue
            if relist is not None and _is_header_mismatch(answer):
                relist(wait)
                relist = None
                continue
            failures += 1
            pause = _pause(answer, repeatable, failures, self._attempts)
            if pause is None or not wait.allows(pause):
                raise error_from(answer, self._settings.authorization)
            wait.sleep(pause)

    def _attempt(
        self,
        conversation: Conversation,
        method: str,
        params: dict[str, Any],
        wait: Wait,
        on_progress: OnProgress | None,
        on_attempt: Callable[[], None] | None,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        settings = self._settings
        inbox = CallInbox(settings.requests, wait=wait, on_progress=on_progress)
        is_call = method == "tools/call"
        try:
            answer = conversation.send(method, params, wait, inbox, headers=headers, listens=is_call)
        finally:
            if is_call and on_attempt is not None and not wait.unsent:
                on_attempt()
        self._away_since = None
        return answer

    def _is_stale(self, answer: Answer, conversation: Conversation) -> bool:
        """Returns whether the server refused because the session or negotiated revision no longer holds."""
        if not isinstance(answer, Refusal):
            error = rpc_error(answer)
            return error is not None and (
                error.code == jsonrpc.UNSUPPORTED_VERSION
                or (conversation.transport.kind == "http" and _tells_of_loss(error))
            )
        if answer.sent_session:
            return _says_lost(answer)
        if conversation.era is Era.MODERN:
            known = answer.error is not None
            stale = answer.status in {400, 404, 405} and not known
            if stale or (answer.error is not None and answer.error.code == jsonrpc.UNSUPPORTED_VERSION):
                self._client.forget_server()
                return True
        return False

    def _conversation(self, wait: Wait, lost: Conversation | None) -> Conversation:
        try:
            conversation = self._client.conversation(wait, instead_of=lost)
        finally:
            wait.unsent = True  # what was sent before belonged to the handshake, not to this request
        self._was_reached = True
        return conversation

    def _may_be_restarting(self, error: ConnectError, wait: Wait) -> bool:
        """Returns whether a server that was reached before has refused connections for a short time only."""
        if error.phase != "tcp" or not self._was_reached or self._attempts == 1:
            return False
        now = time.monotonic()
        self._away_since = self._away_since or now
        return now - self._away_since < min(_RESTART_SECONDS, wait.timeouts.connect)

    def _may_reopen(self, lost: Conversation | None, wait: Wait, method: str) -> None:
        if method == "tools/call" and not self._reopen_sessions:
            self._client.conversation(wait, instead_of=lost)
            raise SessionLost(
                "The server no longer knows the session", fix="Call again: a new one is open now"
            )
        _logger.debug("the session was lost; a new one is opened")

    def _still_stale(self, answer: Answer, losses: int) -> MCPError:
        if not isinstance(answer, Refusal) or not answer.sent_session:
            return error_from(answer, self._settings.authorization)
        return SessionLost(
            f"The server lost the session {losses} times during one call",
            fix="Try again later: it may be restarting. If several servers share the address, each session "
            "has to stay with the one that opened it",
        )


def _says_lost(refusal: Refusal) -> bool:
    """Returns whether a server refuses because it does not know the session of the request."""
    error = refusal.error
    if error is not None and error.code == jsonrpc.METHOD_NOT_FOUND:
        return False  # some servers send 404 with it, which is about the method then
    text = (refusal.excerpt if error is None else error.message).lower()
    if error is not None and error.code == jsonrpc.INVALID_PARAMS:
        # With 400 "session" may be the name of a parameter; with 404 a tool may be unknown.
        return text in _LOST_MESSAGES or (refusal.status == 404 and "session" in text)
    return (
        refusal.status in {404, 410}
        or any(words in text for words in _SESSION_WORDS.get(refusal.status, ()))
        or (error is not None and _tells_of_loss(error))
    )


def _tells_of_loss(error: jsonrpc.RpcError) -> bool:
    text = error.message.lower()
    return text in _LOST_MESSAGES or (error.code in _SESSION_NOT_FOUND and "session" in text)


def _pause(answer: Answer, repeatable: bool, attempt: int, attempts: int) -> float | None:
    """Seconds before the same request may be sent again, None if it must not."""
    if not isinstance(answer, Refusal) or attempt >= attempts or not answer.is_transient:
        return None
    # 429 means that the request was not handled (RFC 6585 §4); a gateway's 5xx may come after it ran.
    return backoff(attempt, answer.retry_after) if repeatable or answer.status == 429 else None


def _is_header_mismatch(answer: Answer) -> bool:
    error = rpc_error(answer)
    return error is not None and error.code == jsonrpc.HEADER_MISMATCH
