"""Negotiation of the revision and the HTTP transport: the decisions, without the I/O.

A `Negotiation` says what to try, is told what came of it, and says what to try next, until both sides agree
or nothing is left. The order is that of the specification's compatibility rules
(https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning and
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility):

1. ``server/discover``; a result with a revision that we know settles it.
2. Errors that only a modern server says are acted upon; an outage or a refused login is no verdict.
3. Anything else means a server of the handshake era: ``initialize``.
4. If that gets a 4xx, the URL may be one of the old HTTP+SSE transport: open the stream there, and ask the
   same two questions over it. Where the first one ends the stream, the second one is asked over another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from ...types.errors import ConnectError, MCPError, ProtocolError, SessionLost, TimedOut, VersionError
from .answers import Answer, Refusal, Response, rpc_error
from .jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, MODERN_CODES, UNSUPPORTED_VERSION
from .server_info import TransportKind
from .versions import (
    ALL_VERSIONS,
    HANDSHAKE_VERSIONS,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    MODERN_VERSIONS,
    newest,
)

_MOST_VERSIONS, _LONGEST_VERSION = 20, 40  # in the words of an error
_NO_SSE_AFTER: Final = frozenset({401, 403, 407, 408, 429})


@dataclass(frozen=True, slots=True)
class Discover:
    """Send ``server/discover`` naming this revision."""

    version: str


@dataclass(frozen=True, slots=True)
class Initialize:
    """Send ``initialize`` offering this revision."""

    version: str


@dataclass(frozen=True, slots=True)
class OpenSse:
    """Open the URL as a stream of the old HTTP+SSE transport and go on over it."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """Both sides agree.

    Attributes:
        version: The revision.
        result: Result of the request that settled it.
        headers: HTTP headers of that response; the session id is among them.
    """

    version: str
    result: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Failed:
    """The negotiation has failed, by an error or by the server's last answer."""

    cause: MCPError | Answer


@dataclass(frozen=True, slots=True)
class SseOpened:
    """Outcome of `OpenSse`: the stream stands."""


Try = Discover | Initialize | OpenSse
Action = Try | Agreed | Failed
Outcome = Answer | SseOpened | MCPError


@dataclass(frozen=True, slots=True)
class Remembered:
    """The result of an earlier negotiation with the same server."""

    version: str
    transport: TransportKind


class Negotiation:
    """The state of a negotiation.

    Args:
        transport: ``http`` and ``sse`` rule the other one out.
        pinned: The only revision to accept.
        remembered: Where to begin.
        looks_like_sse: The URL ends like one of the old transport; it is tried first then.
    """

    def __init__(
        self,
        *,
        transport: Literal["auto", "http", "sse", "stdio"] = "auto",
        pinned: str | None = None,
        remembered: Remembered | None = None,
        looks_like_sse: bool = False,
    ) -> None:
        self._transport = transport
        self._pinned = pinned
        begin_with_sse = transport == "sse" or (transport == "auto" and looks_like_sse)
        if remembered is not None:
            begin_with_sse = remembered.transport == "sse"
        preferred = pinned or (remembered.version if remembered else None)
        self._first_request: Discover | Initialize = (
            Initialize(preferred) if preferred in HANDSHAKE_VERSIONS else Discover(preferred or LATEST_MODERN)
        )
        self._last: Try = OpenSse() if begin_with_sse else self._first_request
        self._over_stream = transport == "stdio"
        self._tried_sse = False
        self._tried_http = not begin_with_sse
        self._discovered = 0
        self._initialized = 0
        self._is_unsure = False  # the probe was not answered: it may not have been heard
        self._refused_initialize: Refusal | None = None

    def start(self) -> Try:
        """The first thing to try."""
        return self._last

    def after(self, outcome: Outcome) -> Action:
        """The next step after the outcome of the last one."""
        match self._last:
            case Discover():
                self._discovered += 1
                action = self._after_discover(outcome)
            case Initialize():
                self._initialized += 1
                action = self._after_initialize(outcome)
            case OpenSse():
                self._tried_sse = True
                action = self._after_sse(outcome)
        if isinstance(action, Discover | Initialize | OpenSse):
            self._last = action
        return action

    def _after_discover(self, outcome: Outcome) -> Action:
        if isinstance(outcome, ProtocolError):
            return self._initialize_or(outcome)  # some answer anything to a method that they do not know
        if isinstance(outcome, SseOpened | MCPError):
            return self._after_silence(outcome)
        if isinstance(outcome, Response) and isinstance(outcome.message.get("result"), dict):
            result = cast("dict[str, Any]", outcome.message["result"])
            version = newest(
                result.get("supportedVersions"), (self._pinned,) if self._pinned else MODERN_VERSIONS
            )
            if version is not None:
                return Agreed(version, result, outcome.headers)
            return self._initialize_or(outcome)
        error = rpc_error(outcome)
        if error is not None and error.code in MODERN_CODES:
            return self._after_modern_error(outcome)
        if isinstance(outcome, Refusal) and outcome.status in _NO_SSE_AFTER:
            may_be_about_the_method = outcome.status == 403 and outcome.challenge is None
            if not may_be_about_the_method:
                return Failed(outcome)
        # Some gateways of legacy servers answer such a 403, or a 5xx, to methods that they do not know.
        self._is_unsure = isinstance(outcome, Refusal) and outcome.is_transient
        return self._initialize_or(outcome)

    def _after_silence(self, outcome: Outcome) -> Action:
        silent = isinstance(outcome, TimedOut) and (
            outcome.kind == "idle" or (outcome.kind == "connect" and self._over_stream)
        )
        self._is_unsure = True
        # Over stdio: the process has ended. Some servers do so on a method that they do not know.
        where = "protocol" if self._transport == "stdio" else "http"
        closed = isinstance(outcome, ConnectError) and outcome.phase == where
        closed = closed or (isinstance(outcome, SessionLost) and self._over_stream)
        if not (silent or closed):
            return Failed(cast("MCPError", outcome))
        action = self._initialize_or(cast("MCPError", outcome))
        if self._over_stream and self._transport != "stdio" and isinstance(action, Initialize):
            # The official Python SDK 1.0 to 1.6 ends the stream on a method that it does not know.
            self._first_request = action
            return OpenSse()
        return action

    def _after_modern_error(self, outcome: Answer) -> Action:
        error = rpc_error(outcome)
        assert error is not None
        if error.code != UNSUPPORTED_VERSION:
            return Failed(outcome)
        supported = _supported(error.data)
        version = newest(supported, (self._pinned,) if self._pinned else MODERN_VERSIONS)
        # Once more even with the same revision: a server may need a second look.
        if version is not None and self._discovered < 2:
            return Discover(version)
        if supported and newest(supported, HANDSHAKE_VERSIONS) is None:
            return Failed(self._no_common_version(supported))
        return self._initialize_or(outcome)

    def _initialize_or(self, cause: Answer | MCPError) -> Action:
        if self._pinned in MODERN_VERSIONS or self._initialized:
            return Failed(cause)
        return Initialize(self._pinned or LATEST_HANDSHAKE)

    def _after_initialize(self, outcome: Outcome) -> Action:
        if isinstance(outcome, SseOpened | MCPError):
            return Failed(cast("MCPError", outcome))
        if isinstance(outcome, Response) and isinstance(outcome.message.get("result"), dict):
            result = cast("dict[str, Any]", outcome.message["result"])
            version = result.get("protocolVersion")
            if version in ((self._pinned,) if self._pinned else HANDSHAKE_VERSIONS):
                return Agreed(cast("str", version), result, outcome.headers)
            return Failed(self._no_common_version([version]))
        error = rpc_error(outcome)
        if error is not None and error.code in {INVALID_PARAMS, UNSUPPORTED_VERSION}:
            action = self._after_version_error(_supported(error.data))
            if action is not None:
                return action
        if self._is_unsure and self._discovered < 2 and error is not None and error.code == METHOD_NOT_FOUND:
            # A modern server that was slow to wake up, or was being restarted.
            return Discover(self._pinned or LATEST_MODERN)
        if self._may_be_sse(outcome, modern=error is not None and error.code in MODERN_CODES):
            self._refused_initialize = outcome if isinstance(outcome, Refusal) and error is not None else None
            return OpenSse()
        return Failed(outcome)

    def _after_version_error(self, supported: list[Any] | None) -> Action | None:
        if not supported:
            return None
        known = (self._pinned,) if self._pinned else ALL_VERSIONS
        version = newest(supported, tuple(v for v in known if v in HANDSHAKE_VERSIONS))
        if version is not None and self._initialized < 2:
            return Initialize(version)
        # A stdio server that was slow to answer our probe has locked itself to the modern era meanwhile.
        version = newest(supported, tuple(v for v in known if v in MODERN_VERSIONS))
        if version is not None and self._discovered < 2:
            return Discover(version)
        return Failed(self._no_common_version(supported))

    def _may_be_sse(self, answer: Answer, *, modern: bool) -> bool:
        return (
            self._transport == "auto"
            and not self._tried_sse
            and not modern
            and isinstance(answer, Refusal)
            and 400 <= answer.status < 500
            and answer.status not in _NO_SSE_AFTER
        )

    def _after_sse(self, outcome: Outcome) -> Action:
        if isinstance(outcome, SseOpened):
            self._over_stream = True
            self._discovered = self._initialized = 0
            return self._first_request
        if self._transport == "auto" and not self._tried_http and _is_no_stream(outcome):
            self._tried_http = True
            return self._first_request
        if isinstance(outcome, Refusal) and self._refused_initialize is not None:
            return Failed(self._refused_initialize)  # it knows the protocol, so this was no other transport
        return Failed(outcome)

    def _no_common_version(self, supported: list[Any]) -> VersionError:
        offered = tuple(str(version)[:_LONGEST_VERSION] for version in supported[:_MOST_VERSIONS])
        ours = self._pinned or ", ".join(ALL_VERSIONS)
        return VersionError(
            f"The server speaks protocol revision {', '.join(offered)}, this client {ours}",
            supported=offered,
            fix="Remove the pinned protocol version" if self._pinned else "Update knime-mcp or the server",
        )


def _supported(data: object) -> list[Any] | None:
    if not isinstance(data, dict):
        return None
    supported = cast("dict[str, Any]", data).get("supported")
    return cast("list[Any]", supported) if isinstance(supported, list) else None


def _is_no_stream(outcome: Outcome) -> bool:
    """The URL answered, but is no event stream, or never says where to post."""
    if isinstance(outcome, Refusal):
        return outcome.status not in _NO_SSE_AFTER
    return isinstance(outcome, TimedOut) and outcome.kind == "connect"
