"""Sends a request until there is a result, in as many attempts and conversations as allowed.

This module decides which requests are sent again. A listing changes nothing, so it is repeated after an
outage. A call is repeated only if it surely did not run: its bytes were not sent, or the server refused it
unread (lost session, wrong headers, 429). A call that the server declares idempotent is repeated also if it
probably did not run. While a server restarts, its port refuses connections and nothing is sent, so the client
waits. A server that limits its rate (429) is asked again as long as it answers other calls of the same tool.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ..types.errors import ConnectError, MCPError, SessionLost
from .clock import Wait, backoff
from .connecting import ConnectSettings
from .conversation import CallInbox, Conversation, OnProgress
from .failures import describe_answer, error_from
from .protocol import jsonrpc
from .protocol.answers import Answer, Refusal, Response, rpc_error
from .protocol.server_info import ServerInfo
from .protocol.versions import Era

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


@dataclass(slots=True)
class _Tally:
    """The failed attempts of one request.

    Attributes:
        what: The tool or method.
        failures: Attempts that brought nothing. Since the last 429, if the server answers others meanwhile.
        losses: Sessions that were lost.
        refusals: Answers after which the request is sent again.
        refused_at: The time of the last refusal.
        lost: The last lost conversation.
    """

    what: str
    failures: int = 0
    losses: int = 0
    refusals: int = 0
    refused_at: float = math.inf
    lost: Conversation | None = None


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
        self._results_at: dict[str, float] = {}  # the time of the last result, by tool or method

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
        tally = _Tally(str(params.get("name", method)))
        while True:
            conversation: Conversation | None = None
            try:
                conversation = self._conversation(wait, tally.lost)
                headers = None if headers_for is None else headers_for(conversation)
                answer = self._attempt(conversation, method, params, wait, on_progress, on_attempt, headers)
            except SessionLost:
                if not self._may_reopen(tally, conversation, wait, method):
                    raise
                continue
            except ConnectError as error:
                pause = self._pause_after_failure(
                    error, tally, conversation, wait, repeatable=repeatable, idempotent=idempotent
                )
                if pause is None or not wait.allows(pause):
                    raise
                _logger.debug("%s is repeated: %s", method, error.what)
                wait.sleep(pause)
                if conversation is not None and conversation.transport.is_broken:
                    tally.lost = conversation
                continue
            if isinstance(answer, Response) and jsonrpc.has_result(answer.message):
                self._results_at[tally.what] = time.monotonic()
                return answer
            if self._is_stale(answer, conversation):
                if not self._may_reopen(tally, conversation, wait, method):
                    raise self._still_stale(answer, tally.losses)
                continue
            if relist is not None and _is_header_mismatch(answer):
                relist(wait)
                relist = None
                continue
            pause = self._pause_after_refusal(answer, tally, repeatable=repeatable)
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

    def _pause_after_failure(
        self,
        error: ConnectError,
        tally: _Tally,
        conversation: Conversation | None,
        wait: Wait,
        *,
        repeatable: bool,
        idempotent: bool,
    ) -> float | None:
        """Seconds before a request without an answer may be sent again, None if it must not."""
        tally.failures += not self._may_be_restarting(error, wait)
        if conversation is None:
            may_repeat = error.phase == "tcp"
        else:
            may_repeat = repeatable or wait.unsent or (wait.crossed and idempotent)
        return backoff(tally.failures or 2) if may_repeat and tally.failures < self._attempts else None

    def _pause_after_refusal(self, answer: Answer, tally: _Tally, *, repeatable: bool) -> float | None:
        """Seconds before a refused request may be sent again, None if it must not."""
        takes_turns = _is_rate_limit(answer) and self._results_at.get(tally.what, 0.0) > tally.refused_at
        tally.failures = 1 if takes_turns else tally.failures + 1
        tally.refusals += 1
        tally.refused_at = time.monotonic()
        if tally.failures >= self._attempts or not isinstance(answer, Refusal) or not answer.is_transient:
            return None
        # A gateway's 5xx may come after the request ran.
        return backoff(tally.refusals, answer.retry_after) if repeatable or _is_rate_limit(answer) else None

    def _may_reopen(self, tally: _Tally, conversation: Conversation | None, wait: Wait, method: str) -> bool:
        """Counts a lost session. Returns False if too many were lost.

        Raises:
            SessionLost: The caller does not want calls to be sent in a new session, which is open now.
        """
        tally.losses += conversation is None or conversation.mark_lost()
        tally.lost = conversation or tally.lost
        if tally.losses >= self._attempts:
            return False
        if method == "tools/call" and not self._reopen_sessions:
            self._client.conversation(wait, instead_of=tally.lost)
            raise SessionLost(
                "The server no longer knows the session", fix="Call again: a new one is open now"
            )
        _logger.debug("the session was lost; a new one is opened")
        return True

    def _still_stale(self, answer: Answer, losses: int) -> MCPError:
        if not isinstance(answer, Refusal) or not answer.sent_session:
            return error_from(answer, self._settings.authorization)
        return SessionLost(
            f"The server lost the session {losses} times during one call; it says: {describe_answer(answer)}",
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


def _is_rate_limit(answer: Answer) -> bool:
    """Returns whether the server had too many requests, and did not handle this one (RFC 6585 §4)."""
    return isinstance(answer, Refusal) and answer.status == 429


def _is_header_mismatch(answer: Answer) -> bool:
    error = rpc_error(answer)
    return error is not None and error.code == jsonrpc.HEADER_MISMATCH
