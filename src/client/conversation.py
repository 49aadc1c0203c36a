"""A conversation with one server: opened by carrying out what `protocol.negotiation` decides.

Many threads may use a conversation at once. It sends requests in the form of its era. If its session is
lost, a new conversation replaces it. The outcome of a negotiation is remembered for the life of the process,
per URL and caller. If the server then answers otherwise, the client negotiates again.
"""

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from ..types.errors import (
    ArgumentsInvalid,
    Canceled,
    ConnectError,
    ConnectPhase,
    MCPError,
    ProtocolError,
    ServerError,
    SessionLost,
    TimedOut,
    VersionError,
    kind_and_place,
)
from ..types.texts import origin_and_path
from ..version import VERSION
from .authorization import Authorization
from .clock import FAREWELL, Wait, backoff
from .limits import Limits
from .protocol import messages
from .protocol.messages import Answer, Message, Refusal, Response, rpc_error
from .protocol.negotiation import (
    Agreed,
    Discover,
    Era,
    Failed,
    Initialize,
    Negotiation,
    OpenSse,
    Outcome,
    Remembered,
    ServerInfo,
    ServerRequests,
    SseOpened,
    Try,
    era_of,
    read_server_info,
    speaks_of_revisions,
)
from .protocol.outcomes import Moment
from .refusals import describe_answer, error_from
from .transports.base import Call, Delivery, Step, Trace, Transport
from .transports.mock import MockTransport
from .transports.stdio_server import StdioServer

if TYPE_CHECKING:
    from .transports.http_channel import HttpChannel

    Access = HttpChannel | StdioServer | MockTransport

_logger = logging.getLogger(__name__)
_NAMESPACE: Final = "io.modelcontextprotocol/"
CLIENT_INFO: Final = {"name": "knime-mcp", "version": VERSION}
_RANDOM: Final = random.Random()  # noqa: S311 - not the one that a program may have seeded
_RANDOM_BITS: Final = 10
_FIRST_BITS: Final = 20  # keeps the first million ids below 2**31, as some servers read no larger ids
_MOST_REMEMBERED: Final = 1024
_OVER: Final = {"http": "by POST", "sse": "over the event stream", "stdio": "over stdio"}
_NOT_REACHED: Final = frozenset({"dns", "tcp", "tls", "proxy", "process"})
# Seconds to wait for an answer to `server/discover` over a stream before `initialize` is sent as well. A late
# answer is not lost: the answers may come in any order.
_PROBE_SECONDS: Final = 3.0
memory: Final[dict[tuple[str, ...], Remembered]] = {}
"""Outcomes of negotiations, by `ConnectSettings.memory_key`."""
_memory_lock: Final = threading.Lock()


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
OnNotification = Callable[[str, Mapping[str, Any]], None]


@dataclass(slots=True, eq=False)
class CallInbox:
    """Handles the messages that a server sends while a call waits; progress extends the call's idle clock."""

    requests: ServerRequests
    wait: Wait | None = None
    on_progress: OnProgress | None = None
    on_list_changed: Callable[[], None] | None = None
    on_notification: OnNotification | None = None
    token: int | None = None  # of the call's progress

    def notification(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/progress":
            self._progress(params)
        elif method == "notifications/tools/list_changed" and self.on_list_changed is not None:
            self.on_list_changed()
        if self.on_notification is not None:
            self.on_notification(method, params)

    def _progress(self, params: Mapping[str, Any]) -> None:
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress: the token is the
        # request's id; some servers turn it into text.
        token = params.get("progressToken")
        if self.token is None or (token != self.token and token != str(self.token)):
            return  # progress of another call, or late progress
        if self.wait is not None:
            self.wait.reset_idle()
        progress, total = _as_float(params.get("progress")), _as_float(params.get("total"))
        if self.on_progress is not None and progress is not None:
            report(self.on_progress, Progress(progress, total, messages.as_text(params.get("message"))))

    def server_request(self, message: Message, reply: Callable[[Message], None]) -> None:
        def respond() -> None:
            answer = self.requests.respond(message)
            if answer is not None:
                reply(answer)

        # This thread reads the replies of all calls of its stream, and a person's answer takes minutes.
        if self.requests.takes_long(message.get("method")):
            # In the context of the call, if this thread is that of one.
            work = (respond,)
            name = "knime-mcp-question"
            threading.Thread(target=copy_context().run, args=work, name=name, daemon=True).start()
        else:
            respond()


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

    Its transport knows the outcome of the negotiation. The ids go on from there, as a session must not use an
    id twice.
    """

    def __init__(
        self, transport: Transport, info: ServerInfo, requests: ServerRequests, ids: Iterator[int]
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
        delivery: Delivery | None = None,
    ) -> Answer:
        """Sends a request and waits for the answer, a result or an error.

        The inbox handles other messages meanwhile. `headers` repeat arguments (modern era). With `listens`,
        progress is asked for, which shows that the server is alive. If there is no answer because of a clock
        or cancel, the server is told.
        """
        request_id = next(self._ids)
        meta = self._meta
        if listens:
            inbox.token = request_id
            meta = {**meta, "progressToken": request_id}
        if meta:
            # The protocol's own members win: a caller's must not break the revision or the progress token.
            params = {**params, "_meta": {**params.get("_meta", {}), **meta}}
        http: Mapping[str, str] = {}
        if self.era is Era.MODERN:
            http = messages.request_headers(method, params, self.info.protocol_version)
            if headers:
                http = {**http, **headers}
        try:
            body = messages.encode(messages.request(request_id, method, params))
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentsInvalid(
                f"The arguments cannot be written as JSON: {error}",
                fix="Use text, numbers, booleans, null, lists and objects only; NaN is none of them",
            ) from None
        delivery = delivery or Delivery()
        call = Call(
            request_id,
            body,
            http,
            listens=listens,
            wants_progress=inbox.on_progress is not None,
            delivery=delivery,
        )
        try:
            return self.transport.request(call, wait, inbox)
        except BaseException as error:
            # Other errors come from the connection or the server, which then knows; what is no `MCPError`
            # is Ctrl-C or a fault of ours.
            is_end = isinstance(error, Canceled | TimedOut) or not isinstance(error, MCPError)
            if is_end and delivery.moment is not Moment.UNSENT:
                self._cancel(request_id, error)
            raise

    def _cancel(self, request_id: int, error: BaseException) -> None:
        """Tells the server that its reply is no longer wanted.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation: over modern
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
            body = messages.encode(messages.notification("notifications/cancelled", params))
            self.transport.notify(body, Wait(FAREWELL))
        except MCPError as failure:
            _logger.debug("the server could not be told about the cancel: %s", failure.what)

    def close(self) -> None:
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
    return {
        f"{_NAMESPACE}protocolVersion": version,
        f"{_NAMESPACE}clientCapabilities": {
            **requests.capabilities,
            "extensions": {f"{_NAMESPACE}tasks": {}},
        },
        f"{_NAMESPACE}clientInfo": CLIENT_INFO,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """The inputs of a negotiation, besides the channel."""

    authorization: Authorization | None
    transport: Literal["auto", "http", "sse"]
    protocol_version: str | None
    limits: Limits
    requests: ServerRequests
    trace: Trace | None
    on_list_changed: Callable[[], None]
    on_notification: OnNotification | None = None

    def memory_key(self, server: "Access") -> tuple[str, ...]:
        """The key under which the outcome of a negotiation is remembered."""
        command = tuple(server.command) if isinstance(server, StdioServer) else ()
        identity = self.authorization.identity if self.authorization is not None else ""
        return (server.url, identity, self.transport, self.protocol_version or "", *command)


def connect(channel: "Access", settings: ConnectSettings, wait: Wait, ids: Iterator[int]) -> Conversation:
    """Negotiates with a server, whose channel stays open if that fails.

    The ids go on from session to session, so that a late reply matches no new request.
    """
    key = settings.memory_key(channel)
    remembered = memory.get(key)
    if remembered is not None:
        try:
            return _Connector(channel, settings, wait, ids, remembered).run()
        except ConnectError as error:
            # The server was not reached, so this says nothing against what is remembered of it.
            if error.phase in _NOT_REACHED:
                raise
        # It answers, but not as remembered: perhaps it was updated. Negotiate from the beginning.
        except (ProtocolError, ServerError, VersionError):
            pass
        memory.pop(key, None)
        _logger.debug("what was remembered of %s no longer holds", origin_and_path(channel.url))
    return _Connector(channel, settings, wait, ids).run()


class _Connector:
    def __init__(
        self,
        channel: "Access",
        settings: ConnectSettings,
        wait: Wait,
        ids: Iterator[int],
        remembered: Remembered | None = None,
    ) -> None:
        self._channel, self._settings, self._wait, self._ids = channel, settings, wait, ids
        self._inbox = CallInbox(
            settings.requests,
            on_list_changed=settings.on_list_changed,
            on_notification=settings.on_notification,
        )
        self._transport = self._first_transport()
        self._attempts: list[str] = []
        self._has_probed = False
        self._negotiation = Negotiation(
            transport="stdio" if self._transport.kind == "stdio" else settings.transport,
            pinned=settings.protocol_version,
            remembered=remembered,
            looks_like_sse=origin_and_path(channel.url).rstrip("/").endswith("/sse"),
        )

    def run(self) -> Conversation:
        self._wait.reset_idle()  # loading the modules for HTTP may have taken a while
        try:
            action = self._negotiation.start()
            while True:
                following = self._negotiation.after(self._carry_out(action))
                match following:
                    case Agreed():
                        return self._begin(following)
                    case Failed():
                        raise self._failure(following.cause)
                    case Discover() | Initialize() | OpenSse():
                        action = following
                    case _:
                        assert_never(following)
        except BaseException:
            self._transport.close()
            raise

    def _carry_out(self, action: Try) -> Outcome:
        started = time.monotonic()
        outcome: Outcome
        try:
            match action:
                case OpenSse():
                    outcome = self._open_sse()
                case Discover() | Initialize():
                    outcome = self._ask(action)
        except (ConnectError, ProtocolError, SessionLost, TimedOut) as error:
            outcome = error
        self._note(action, outcome, time.monotonic() - started)
        return outcome

    def _first_transport(self) -> Transport:
        settings = self._settings
        if isinstance(self._channel, MockTransport):
            return self._channel
        if isinstance(self._channel, StdioServer):
            from .transports.stdio import StdioTransport

            return StdioTransport(self._channel, settings.limits, self._inbox, settings.trace)
        from .transports.streamable_http import StreamableHttp  # here, see MCPClient._open_channel

        return StreamableHttp(
            self._channel, settings.limits, self._inbox, may_be_asked=bool(settings.requests.capabilities)
        )

    def _open_sse(self) -> Outcome:
        from .transports.legacy_sse import LegacySse

        assert not isinstance(self._channel, StdioServer | MockTransport)
        if self._transport.kind == "sse":  # the probe ended the stream: a new one is needed
            self._transport.close()
            self._transport = self._first_transport()
        transport = LegacySse(self._channel, self._settings.limits, self._inbox)
        refusal = transport.open(self._wait)
        if refusal is not None:
            return refusal
        self._transport = transport
        return SseOpened()

    def _ask(self, action: Discover | Initialize) -> Answer:
        attempt = 0
        while True:
            attempt += 1
            delivery = Delivery()
            try:
                answer = self._ask_once(action, delivery)
            except ConnectError:
                # The server closed a kept connection just before the request arrived: send it again.
                if delivery.moment is not Moment.MISSED or attempt >= self._settings.limits.attempts:
                    raise
                continue
            if not isinstance(answer, Refusal) or not answer.is_transient:
                return answer
            # After a 5xx perhaps the method is unknown to the server: `initialize` is tried next.
            is_unknown = isinstance(action, Discover) and answer.status >= 500
            pause = backoff(attempt, answer.retry_after)
            if is_unknown or attempt >= self._settings.limits.attempts or not self._wait.allows(pause):
                return answer
            self._wait.sleep(pause)

    def _ask_once(self, action: Discover | Initialize, delivery: Delivery) -> Answer:
        request_id = next(self._ids)
        wait = self._wait
        match action:
            case Discover(version):
                params = {"_meta": modern_meta(version, self._settings.requests)}
                body = messages.encode(messages.request(request_id, "server/discover", params))
                headers = messages.request_headers("server/discover", params, version)
                wait = self._probing(wait)
            case Initialize(version):
                params = {
                    "protocolVersion": version,
                    "capabilities": self._settings.requests.capabilities,
                    "clientInfo": CLIENT_INFO,
                }
                body = messages.encode(messages.request(request_id, "initialize", params))
                # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header
                # is for requests *after* initialization; SDK 2.3 servers refuse `initialize` with the
                # modern version in it (400, -32602).
                headers = {}
        call = Call(request_id, body, headers, is_handshake=True, delivery=delivery)
        return self._transport.request(call, wait, self._inbox)

    def _probing(self, wait: Wait) -> Wait:
        """The wait for a probe. Its idle clock is shorter, as legacy servers may not answer probes."""
        if self._settings.protocol_version is not None or self._has_probed:
            return wait
        patience = wait.timeouts.connect
        if self._transport.kind != "http":
            self._has_probed = True
            patience = min(patience, _PROBE_SECONDS)
        return wait.narrowed(idle=patience)

    def _begin(self, agreed: Agreed) -> Conversation:
        transport = self._transport
        # Only the response that began the session has a valid session id; ids in errors and of modern servers
        # mean nothing.
        transport.adopt(agreed.version, agreed.headers.get("mcp-session-id"))
        info = read_server_info(
            agreed.result,
            protocol_version=agreed.version,
            transport=transport.kind,
            url=origin_and_path(self._channel.url),
        )
        if era_of(agreed.version) is Era.LEGACY:
            self._notify_initialized()
        with _memory_lock:
            memory[self._settings.memory_key(self._channel)] = Remembered(agreed.version, transport.kind)
            while len(memory) > _MOST_REMEMBERED:
                del memory[next(iter(memory))]  # the oldest
        trace = self._settings.trace
        if trace is not None and self._settings.authorization is not None:
            trace(Step("auth", "log in", True, f"{self._settings.authorization.describe()} was accepted"))
        return Conversation(transport, info, self._settings.requests, self._ids)

    def _notify_initialized(self) -> None:
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization: the client
        # MUST send it before its first request. Its answer says nothing, so it is not waited for long.
        body = messages.encode(messages.notification("notifications/initialized"))
        try:
            self._transport.notify(body, self._wait.narrowed(idle=_PROBE_SECONDS))
        except ConnectError:
            # The kept connection may have ended meanwhile; a second notification does no harm.
            self._transport.notify(body, self._wait)
        except TimedOut:
            _logger.debug("the server does not answer a notification; it need not")

    def _note(self, action: Try, outcome: Outcome, seconds: float) -> None:
        if isinstance(outcome, ConnectError) and outcome.phase == "process":
            return  # no request was sent; the transport has noted this step
        over = _OVER[self._transport.kind]
        match action:
            case Discover(version):
                what = f"server/discover {version} {over}"
            case Initialize(version):
                what = f"initialize {version} {over}"
            case OpenSse():
                what = "GET as event stream (HTTP+SSE)"
        phase, ok, detail = _summary(outcome)
        if phase == "http" and self._transport.kind == "stdio":
            phase = "protocol"
        if not ok:
            self._attempts.append(f"{what}: {detail}")
        if self._settings.trace is not None:
            self._settings.trace(Step(phase, what, ok, detail, seconds))

    def _failure(self, cause: MCPError | Answer) -> MCPError:
        if isinstance(cause, MCPError):
            return cause
        error = error_from(cause, self._settings.authorization)
        if speaks_of_revisions(cause):
            error.fix = "Name a revision that the server knows, such as --protocol 2025-06-18"
        # Up to two attempts are the plain case, whose own error is clearer than a list.
        if len(self._attempts) < 3 or not isinstance(error, ConnectError):
            return error
        return ConnectError(
            f"No MCP server answers at this URL. Tried {'; '.join(self._attempts)}",
            phase="protocol" if error.phase != "http" else "http",
            fix=error.fix,
        )


def _summary(outcome: Outcome) -> tuple[ConnectPhase, bool, str]:
    match outcome:
        case SseOpened():
            return "protocol", True, "the stream stands"
        case TimedOut():
            return "http", False, outcome.what
        case MCPError():
            return outcome.phase if isinstance(outcome, ConnectError) else "protocol", False, outcome.what
        case Response() if rpc_error(outcome) is None:
            return "protocol", True, "answered"
        case Response():
            return "protocol", False, describe_answer(outcome)
        case Refusal(status=401 | 403):
            return "auth", False, describe_answer(outcome)
        case Refusal():
            return "http", False, describe_answer(outcome)
