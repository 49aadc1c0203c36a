"""One request to its result, over as many attempts and conversations as are allowed.

What may be sent twice is decided here. A listing changes nothing, so it is repeated after an outage. A call
is repeated only where it provably did not run: its bytes never left, or the server refused to look at it
(lost session, wrong headers, 429); or, if its server says that it may run twice, where it probably did not.
"""

import logging
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
# Words for a session that is gone, by the status that they come with; the last ones are the Rust SDK's.
_SESSION_WORDS: Final = {400: ("session", "not initialized"), 401: ("session not found",)}
# Some say it with 200: WordPress, Anubis. Whole messages, because tools have sessions of their own.
_LOST_MESSAGES: Final = frozenset({"invalid or expired session", "server not initialized"})
_SESSION_NOT_FOUND: Final = frozenset({-32001, -32005})  # of the official SDKs; of WordPress, tower-mcp

HeadersFor = Callable[[Conversation], Mapping[str, str] | None]


class Conversations(Protocol):
    """What the client's parts need from the client."""

    @property
    def server(self) -> ServerInfo:
        """The server, as it was when it was last connected to."""
        ...

    def conversation(self, wait: Wait, instead_of: Conversation | None = None) -> Conversation:
        """The current conversation, or a new one instead of one that no longer works."""
        ...

    def forget_server(self) -> None:
        """What was remembered of the server no longer holds."""
        ...


class Requests:
    """Sends requests to one server.

    Args:
        client: Gives conversations, and new ones for those that no longer work.
        settings: Limits, who answers the server.
        reopen_sessions: Send a call again after the server lost our session.
    """

    def __init__(self, client: Conversations, settings: ConnectSettings, *, reopen_sessions: bool) -> None:
        self._client = client
        self._settings = settings
        self._attempts = settings.limits.attempts
        self._reopen_sessions = reopen_sessions

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
        """Send a request until there is a result.

        Args:
            method: The method.
            params: Its parameters.
            wait: Clocks and cancel of all attempts together.
            repeatable: The request changes nothing.
            idempotent: The server says that twice does no more than once: good enough where the request has
                crossed the end of a connection that had been kept, and hardly ran.
            on_progress: Told about progress.
            on_attempt: Told each time that the request was sent.
            headers_for: Headers that repeat arguments.
            relist: Lists the tools anew, after the server found that those headers are not what it wants.

        Returns:
            The response with the result.

        Raises:
            MCPError: No result, and why.
        """
        failures = losses = 0
        lost: Conversation | None = None  # one that no longer works
        while True:
            conversation: Conversation | None = None
            try:
                conversation = self._conversation(wait, lost)
                headers = None if headers_for is None else headers_for(conversation)
                answer = self._attempt(conversation, method, params, wait, on_progress, on_attempt, headers)
            except SessionLost:
                losses += conversation is None or conversation.lose()
                if losses >= self._attempts:
                    raise
                lost = conversation or lost
                self._may_reopen(lost, wait, method)
                continue
            except ConnectError as error:
                failures += 1
                if conversation is None:
                    may_repeat = error.phase == "tcp"
                else:
                    may_repeat = repeatable or wait.unsent or (wait.crossed and idempotent)
                if not may_repeat or failures >= self._attempts:
                    raise
                pause = backoff(failures)
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
                losses += conversation.lose()
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
            return conversation.send(method, params, wait, inbox, headers=headers, listens=is_call)
        finally:
            if is_call and on_attempt is not None and not wait.unsent:
                on_attempt()

    def _is_stale(self, answer: Answer, conversation: Conversation) -> bool:
        """Whether the server refused because what was negotiated no longer holds; then nothing ran."""
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
            return self._client.conversation(wait, instead_of=lost)
        finally:
            wait.unsent = True  # whatever was sent so far was something else

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
    """Whether a server refuses because it does not know the session that it was told."""
    error = refusal.error
    if error is not None and error.code == jsonrpc.METHOD_NOT_FOUND:
        return False  # some say it with 404, which is about the method then
    said = (refusal.excerpt if error is None else error.message).lower()
    if error is not None and error.code == jsonrpc.INVALID_PARAMS:
        # With 400 a parameter may be called so, and some say 404 of a tool.
        return said in _LOST_MESSAGES or (refusal.status == 404 and "session" in said)
    return (
        refusal.status in {404, 410}
        or any(words in said for words in _SESSION_WORDS.get(refusal.status, ()))
        or (error is not None and _tells_of_loss(error))
    )


def _tells_of_loss(error: jsonrpc.RpcError) -> bool:
    said = error.message.lower()
    return said in _LOST_MESSAGES or (error.code in _SESSION_NOT_FOUND and "session" in said)


def _pause(answer: Answer, repeatable: bool, attempt: int, attempts: int) -> float | None:
    """Seconds before the same request may be sent again, None if it must not."""
    if not isinstance(answer, Refusal) or attempt >= attempts or not answer.is_transient:
        return None
    # 429 is said before the request is looked at (RFC 6585 §4); a gateway's 5xx may come after it ran.
    return backoff(attempt, answer.retry_after) if repeatable or answer.status == 429 else None


def _is_header_mismatch(answer: Answer) -> bool:
    error = rpc_error(answer)
    return error is not None and error.code == jsonrpc.HEADER_MISMATCH
