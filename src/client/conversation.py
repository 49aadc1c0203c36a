"""A negotiated conversation with one server: sends requests in the form of its era.

Made by `connecting`. Many threads may use a conversation at once. If its session is lost, a new conversation
replaces it.
"""

import itertools
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..types.errors import ArgumentsInvalid, Canceled, MCPError, TimedOut, kind_and_place
from ..version import VERSION
from .clock import FAREWELL, Wait
from .protocol import jsonrpc
from .protocol.answers import Answer
from .protocol.headers import request_headers
from .protocol.jsonrpc import Message
from .protocol.server_info import ServerInfo
from .protocol.server_requests import ServerRequests
from .protocol.versions import Era, era_of
from .transports.base import Call, Transport

_logger = logging.getLogger(__name__)
_NAMESPACE: Final = "io.modelcontextprotocol/"
CLIENT_INFO: Final = {"name": "knime-mcp", "version": VERSION}
_RANDOM: Final = random.Random()  # noqa: S311 - not the one that a program may have seeded
_RANDOM_BITS: Final = 10
_FIRST_BITS: Final = 20  # keeps the first million ids below 2**31, as some servers read no larger ids


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a call, as reported by the server.

    Attributes:
        progress: A number that grows from report to report.
        total: The final value of `progress`, if the server knows it.
        message: The current activity, in the server's words.
    """

    progress: float
    total: float | None = None
    message: str | None = None


OnProgress = Callable[[Progress], None]


class CallInbox:
    """Handles the messages that a server sends while a call waits.

    Args:
        requests: Answers the server's requests.
        wait: The call's clocks; progress extends the idle clock.
        on_progress: Called with each progress report.
        on_list_changed: Called when the server's tools have changed.
    """

    __slots__ = ("_on_list_changed", "_on_progress", "_requests", "_wait", "token")

    def __init__(
        self,
        requests: ServerRequests,
        *,
        wait: Wait | None = None,
        on_progress: OnProgress | None = None,
        on_list_changed: Callable[[], None] | None = None,
    ) -> None:
        self.token: int | None = None
        self._requests = requests
        self._wait = wait
        self._on_progress = on_progress
        self._on_list_changed = on_list_changed

    @property
    def wants_progress(self) -> bool:
        """True if the caller wants progress reports."""
        return self._on_progress is not None

    def notification(self, method: str, params: Mapping[str, Any]) -> None:
        """See the protocol class."""
        if method == "notifications/progress":
            self._progress(params)
        elif method == "notifications/tools/list_changed" and self._on_list_changed is not None:
            self._on_list_changed()

    def _progress(self, params: Mapping[str, Any]) -> None:
        token = params.get("progressToken")
        if self.token is None or (token != self.token and token != str(self.token)):
            return  # progress of another call, or late progress
        if self._wait is not None:
            self._wait.reset_idle()
        progress, message = _as_float(params.get("progress")), params.get("message")
        if self._on_progress is not None and progress is not None:
            text = message if isinstance(message, str) else None
            report(self._on_progress, Progress(progress, _as_float(params.get("total")), text))

    def server_request(self, message: Message) -> Message | None:
        """See the protocol class."""
        return self._requests.respond(message)


def report(on_progress: OnProgress, progress: Progress) -> None:
    """Calls the callback. An exception in the callback is logged and does not end the call."""
    try:
        on_progress(progress)
    except Exception as error:
        _logger.error("a progress callback failed: %s", kind_and_place(error))


def _as_float(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:  # an integer larger than any float
        return None


class Conversation:
    """A conversation with a server, from the handshake to its end.

    Args:
        transport: Carries the messages; already knows the outcome of the negotiation.
        info: The server.
        requests: Answers the server's requests; its capabilities are declared.
        ids: The ids of requests, continued from the negotiation: a session must not use an id twice.
    """

    def __init__(
        self,
        transport: Transport,
        info: ServerInfo,
        requests: ServerRequests,
        ids: Iterator[int],
    ) -> None:
        self.transport = transport
        self.info = info
        self.era = era_of(info.protocol_version)
        self._ids = ids
        self._meta = modern_meta(info.protocol_version, requests) if self.era is Era.MODERN else {}
        self._is_lost = False

    def mark_lost(self) -> bool:
        """Marks the conversation as lost. True for the first caller only: many calls may notice it."""
        is_news, self._is_lost = not self._is_lost, True
        return is_news

    def send(
        self,
        method: str,
        params: Mapping[str, Any],
        wait: Wait,
        inbox: CallInbox,
        *,
        headers: Mapping[str, str] | None = None,
        listens: bool = False,
    ) -> Answer:
        """Sends a request and waits for the answer, a result or an error.

        Args:
            method: The method.
            params: The method's parameters, without ``_meta``.
            wait: Clocks and cancel.
            inbox: Handles other messages meanwhile; its progress token is set here.
            headers: Headers that repeat arguments (modern era).
            listens: Ask for progress notifications, which show that the server is alive.

        Raises:
            MCPError: There is no answer. After a timeout or cancel the server was notified.
        """
        request_id = next(self._ids)
        meta = self._meta
        if listens:
            inbox.token = request_id
            meta = {**meta, "progressToken": request_id}
        if meta:
            params = {**params, "_meta": meta}
        http: Mapping[str, str] = {}
        if self.era is Era.MODERN:
            http = request_headers(method, params, self.info.protocol_version)
            if headers:
                http = {**http, **headers}
        try:
            body = jsonrpc.encode(jsonrpc.request(request_id, method, params))
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentsInvalid(
                f"The arguments cannot be written as JSON: {error}",
                fix="Use text, numbers, booleans, null, lists and objects only; NaN is none of them",
            ) from None
        try:
            call = Call(request_id, body, http, listens=listens, wants_progress=inbox.wants_progress)
            return self.transport.request(call, wait, inbox)
        except BaseException as error:
            if not wait.unsent and (
                isinstance(error, Canceled | TimedOut) or not isinstance(error, MCPError)
            ):
                self._cancel(request_id, error)
            raise

    def _cancel(self, request_id: int, error: BaseException) -> None:
        """Tells the server that its reply is no longer wanted.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/cancellation: over modern
        HTTP closing the stream cancels, and a notification must not be sent. Elsewhere a closed stream does
        not cancel.
        """
        if self.era is Era.MODERN and self.transport.kind == "http":
            return
        reason = "The client stopped waiting" if isinstance(error, TimedOut) else "Canceled by the user"
        params: dict[str, Any] = {"requestId": request_id, "reason": reason}
        if self._meta:
            params["_meta"] = self._meta
        try:
            body = jsonrpc.encode(jsonrpc.notification("notifications/cancelled", params))
            self.transport.notify(body, Wait(FAREWELL))
        except MCPError as failure:
            _logger.debug("the server could not be told about the cancel: %s", failure.what)

    def close(self) -> None:
        """Ends the session and closes the transport."""
        try:
            self.transport.end_session(Wait(FAREWELL))
        except MCPError as error:
            _logger.debug("the session could not be ended: %s", error.what)
        finally:
            self.transport.close()


def request_ids() -> Iterator[int]:
    """Ids of requests, growing and hard to guess.

    Some servers and gateways mix up clients that use equal ids: if all clients counted from 1, a client could
    get the reply to another client's request. Safe for use by many threads at once.
    """

    def request_id(number: int) -> int:
        return number << _RANDOM_BITS | _RANDOM.getrandbits(_RANDOM_BITS)

    return map(request_id, itertools.count(_RANDOM.getrandbits(_FIRST_BITS)))


def modern_meta(version: str, requests: ServerRequests) -> dict[str, Any]:
    """``_meta`` of every request of the modern era."""
    return {
        f"{_NAMESPACE}protocolVersion": version,
        f"{_NAMESPACE}clientCapabilities": {
            **requests.capabilities,
            "extensions": {f"{_NAMESPACE}tasks": {}},
        },
        f"{_NAMESPACE}clientInfo": CLIENT_INFO,
    }
