"""What both sides are and speak: capabilities, revisions and their negotiation; decisions, without the I/O.

A server's description of itself is untrusted and for display only. This client answers ``ping``. It has no
roots. It has a model, and a person who fills in forms, if whoever uses it brings them; without a person it
may accept the form's defaults.

Revisions are an enumerated set, not an ordered string. They form two eras; the era belongs to the server, not
to a request.

A `Negotiation` names the first step and, given the outcome of each step, the next one, until both sides agree
or all steps have failed. The order is that of the specification's compatibility rules
(https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning and
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility):

1. ``server/discover``; a result with a known revision ends the negotiation.
2. Errors that only modern servers send are handled; an outage or a refused login ends the negotiation.
3. Any other answer means a server of the handshake era: ``initialize``.
4. If ``initialize`` gets a 4xx, the URL may be one of the old HTTP+SSE transport: open the stream there, and
   send the same two requests over it. If the first request ends the stream, the second one uses a new stream.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, cast

from ...types.errors import ConnectError, MCPError, ProtocolError, SessionLost, TimedOut, VersionError
from ...types.texts import shortened
from ..limits import LONGEST_NAME, LONGEST_TEXT
from .messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODERN_CODES,
    UNSUPPORTED_VERSION,
    Answer,
    Message,
    Refusal,
    Response,
    RpcError,
    as_list,
    as_object,
    error_response,
    result_response,
    rpc_error,
)

TransportKind = Literal["http", "sse", "stdio"]
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
Answerer = Callable[[Mapping[str, Any]], "dict[str, Any] | RpcError"]
"""Answers a server's question, given its params; takes as long as a person or a model needs."""
Elicitation = Literal["unsupported", "decline", "defaults"] | Answerer
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A connected server.

    Attributes:
        name: The server's name; empty if missing.
        title: The server's name for people.
        version: The server's version; empty if missing.
        instructions: The server's instructions for its use.
        protocol_version: The negotiated revision.
        transport: The transport in use.
        capabilities: The declared capabilities.
        url: Origin and path, without query or secrets.
    """

    name: str
    title: str | None
    version: str
    instructions: str | None
    protocol_version: str
    transport: TransportKind
    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    url: str = ""


def read_server_info(
    result: Mapping[str, Any], *, protocol_version: str, transport: TransportKind, url: str
) -> ServerInfo:
    """Reads the result of ``initialize`` or ``server/discover``.

    ``serverInfo`` is a member of the result in the handshake era and in drafts of 2026-07-28, and of its
    ``_meta`` since 2026-07-28. It may be absent or malformed. Texts that are far too long are cut off.
    """
    meta = as_object(result.get("_meta"))
    info = as_object(meta.get(SERVER_INFO_KEY)) or as_object(result.get("serverInfo"))
    return ServerInfo(
        name=_bounded(info.get("name"), LONGEST_NAME) or "",
        title=_bounded(info.get("title"), LONGEST_NAME),
        version=_bounded(info.get("version"), LONGEST_NAME) or "",
        instructions=_bounded(result.get("instructions"), LONGEST_TEXT),
        protocol_version=protocol_version,
        transport=transport,
        capabilities=as_object(result.get("capabilities")),
        url=url,
    )


def _bounded(value: object, longest: int) -> str | None:
    return shortened(value, longest) if isinstance(value, str) else None


class ServerRequests:
    """Answers a server's requests according to this client's capabilities.

    ``unsupported``: elicitation is not declared. ``decline``: every form is declined. ``defaults``: a form is
    accepted with the defaults of its schema, unless it requires more. A function is asked, also about pages
    that a person has to open (2025-11-25, *URL mode*).
    """

    def __init__(self, elicitation: Elicitation = "unsupported", sampling: Answerer | None = None) -> None:
        self._elicitation: Elicitation = elicitation
        self._sampling = sampling

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities to declare: those with a handler."""
        declared: dict[str, Any] = {}
        if self._elicitation != "unsupported":
            # https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#capabilities: an
            # empty object means forms only.
            declared["elicitation"] = {"form": {}, "url": {}} if callable(self._elicitation) else {}
        return declared if self._sampling is None else {**declared, "sampling": {}}

    def takes_long(self, method: object) -> bool:
        """Whether a person or a model answers."""
        match method:
            case "elicitation/create":
                return callable(self._elicitation)
            case "sampling/createMessage":
                return self._sampling is not None
            case _:
                return False

    def respond(self, message: Message) -> Message | None:
        """The response to a JSON-RPC request; None for a message without an id."""
        if "id" not in message:
            return None
        answer = self.answer(message.get("method"), as_object(message.get("params")))
        if isinstance(answer, RpcError):
            return error_response(message["id"], answer.code, answer.message)
        return result_response(message["id"], answer)

    def answer(self, method: object, params: Mapping[str, Any]) -> dict[str, Any] | RpcError:
        """The result for one request, or the error that refuses it."""
        match method:
            case "ping":
                return {}
            case "elicitation/create" if self._elicitation != "unsupported":
                return self._elicit(params)
            case "sampling/createMessage" if self._sampling is not None:
                return self._sampling(params)
            case _:
                return RpcError(METHOD_NOT_FOUND, f"This client does not support {method}")

    def _elicit(self, params: Mapping[str, Any]) -> dict[str, Any] | RpcError:
        mode = params.get("mode", "form")
        if mode != "form" and not (mode == "url" and callable(self._elicitation)):
            # https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation: undeclared mode.
            return RpcError(INVALID_PARAMS, f"This client does not support the mode {str(mode)[:80]}")
        if callable(self._elicitation):
            return self._elicitation(params)
        if self._elicitation == "decline":
            return {"action": "decline"}
        schema = as_object(params.get("requestedSchema"))
        fields = {name: as_object(field) for name, field in as_object(schema.get("properties")).items()}
        content = {name: field["default"] for name, field in fields.items() if "default" in field}
        required = {name for name in as_list(schema.get("required")) if isinstance(name, str)}
        if not content.keys() >= required:
            return {"action": "decline"}  # a required field has no default, and there is nobody to ask
        return {"action": "accept", "content": content}


def answer_inputs(requests: ServerRequests, wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Answers to ``inputRequests`` (2026-07-28, *Multi Round-Trip Requests*), by their keys.

    Raises `ProtocolError` if a request needs a capability that this client does not have.
    """
    answers: dict[str, dict[str, Any]] = {}
    unanswered: list[str] = []
    for key, entry in wanted.items():
        request = as_object(entry)
        params = as_object(request.get("params"))
        answer = requests.answer(request.get("method"), params)
        if not isinstance(answer, RpcError):
            answers[key] = answer
        elif answer.code == METHOD_NOT_FOUND:
            unanswered.append(_described(request.get("method"), params))
        else:
            raise ProtocolError(
                f"The tool wants {_described(request.get('method'), params)}, which was refused:"
                f" {answer.message}",
                fix="Use another tool, or call it with all that it needs in its arguments",
            )
    if unanswered:
        raise ProtocolError(
            f"The tool wants {' and '.join(unanswered[:_NAMED])}, which this client cannot give",
            fix="Use another tool, or call it with all that it needs in its arguments",
        )
    return answers


def _described(method: object, params: Mapping[str, Any]) -> str:
    message = params.get("message")
    name = {
        "elicitation/create": "input from a person",
        "sampling/createMessage": "a language model",
        "roots/list": "folders of this machine",
    }.get(str(method), str(method)[:80])
    return f"{name} ({message[:200]})" if isinstance(message, str) and message else name


_MOST_VERSIONS, _LONGEST_VERSION = 20, 40  # number and characters of versions in an error
# A login or a limit stands in the way there, too; the older transport would not help.
_NO_SSE_AFTER: Final = frozenset({401, 403, 407, 408, 429})
_BAD_REQUEST: Final = 400
# A refusal that has no others gives no reason.
_NO_WORDS: Final = frozenset(
    (
        *("bad", "request", "invalid", "error", "code", "message", "status", "title", "detail"),
        *("null", "jsonrpc", "id", "type"),
    )
)
HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)
ALL_VERSIONS: Final = HANDSHAKE_VERSIONS + MODERN_VERSIONS
LATEST_HANDSHAKE: Final = HANDSHAKE_VERSIONS[-1]
LATEST_MODERN: Final = MODERN_VERSIONS[-1]
# JSON-RPC batches exist in revision 2025-03-26 only; servers of the older one may send them, too.
BATCH_VERSIONS: Final = frozenset({"2024-11-05", "2025-03-26"})


@dataclass(frozen=True, slots=True)
class Discover:
    """Send ``server/discover`` with this revision."""

    version: str


@dataclass(frozen=True, slots=True)
class Initialize:
    """Send ``initialize`` with this revision."""

    version: str


@dataclass(frozen=True, slots=True)
class OpenSse:
    """Open the URL as a stream of the old HTTP+SSE transport, and continue over it."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """Both sides agree on a revision. `headers` are those of the HTTP response, with the session id."""

    version: str
    result: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Failed:
    """With an error or the server's last answer as cause."""

    cause: MCPError | Answer


@dataclass(frozen=True, slots=True)
class SseOpened:
    """The outcome of a successful `OpenSse`."""


Try = Discover | Initialize | OpenSse
Action = Try | Agreed | Failed
Outcome = Answer | SseOpened | MCPError


@dataclass(frozen=True, slots=True)
class Remembered:
    """The result of an earlier negotiation with the same server."""

    version: str
    transport: TransportKind


class Negotiation:
    """The state of a negotiation; `remembered` is the outcome to begin with.

    A URL that looks like those of the old transport (`looks_like_sse`) is tried that way first.
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
        self._is_unsure = False  # the probe got no answer: perhaps it did not arrive
        self._refused_initialize: Refusal | None = None

    def start(self) -> Try:
        return self._last

    def after(self, outcome: Outcome) -> Action:
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
            return self._initialize_or(outcome)  # some servers send nonsense for an unknown method
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
        # Some gateways of legacy servers answer unknown methods with 403 without a challenge, or with 5xx.
        self._is_unsure = isinstance(outcome, Refusal) and outcome.is_transient
        return self._initialize_or(outcome)

    def _after_silence(self, outcome: Outcome) -> Action:
        silent = isinstance(outcome, TimedOut) and (
            outcome.kind == "idle" or (outcome.kind == "connect" and self._over_stream)
        )
        self._is_unsure = True
        # Over stdio: the process has ended, as some servers do on an unknown method.
        where = "protocol" if self._transport == "stdio" else "http"
        closed = isinstance(outcome, ConnectError) and outcome.phase == where
        closed = closed or (isinstance(outcome, SessionLost) and self._over_stream)
        if not (silent or closed):
            return Failed(cast("MCPError", outcome))
        action = self._initialize_or(cast("MCPError", outcome))
        if self._over_stream and self._transport != "stdio" and isinstance(action, Initialize):
            # The official Python SDK 1.0 to 1.6 ends the stream on an unknown method.
            self._first_request = action
            return OpenSse()
        return action

    def _after_modern_error(self, outcome: Answer) -> Action:
        error = rpc_error(outcome)
        assert error is not None
        if error.code != UNSUPPORTED_VERSION:
            return Failed(outcome)
        supported = as_list(as_object(error.data).get("supported"))
        version = newest(supported, (self._pinned,) if self._pinned else MODERN_VERSIONS)
        # Asks once more, even if the server offers the revision that it has just refused.
        if version is not None and self._discovered < 2:
            return Discover(version)
        if supported and newest(supported, HANDSHAKE_VERSIONS) is None:
            return Failed(self._no_common_version(supported))
        return self._initialize_or(outcome)

    def _initialize_or(self, cause: Answer | MCPError) -> Action:
        # `initialize` was answered already, or is not wanted:
        # falling back once more would go round in circles.
        if self._pinned in MODERN_VERSIONS or self._initialized:
            return Failed(cause)
        return Initialize(self._pinned or LATEST_HANDSHAKE)

    def _after_initialize(self, outcome: Outcome) -> Action:
        if isinstance(outcome, SseOpened | MCPError):
            return Failed(cast("MCPError", outcome))
        if isinstance(outcome, Response) and isinstance(outcome.message.get("result"), dict):
            result = cast("dict[str, Any]", outcome.message["result"])
            version = result.get("protocolVersion")
            # https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation:
            # the server may answer another revision than was asked for; a client that does not know it
            # SHOULD disconnect.
            if version in ((self._pinned,) if self._pinned else HANDSHAKE_VERSIONS):
                return Agreed(cast("str", version), result, outcome.headers)
            return Failed(self._no_common_version([version]))
        error = rpc_error(outcome)
        if error is not None and error.code in {INVALID_PARAMS, UNSUPPORTED_VERSION}:
            supported = as_list(as_object(error.data).get("supported"))
            if supported:
                return self._after_version_error(supported)
        if (older := self._older(outcome)) is not None:
            return Initialize(older)
        if self._is_unsure and self._discovered < 2 and error is not None and error.code == METHOD_NOT_FOUND:
            # Probably a modern server that was starting when it got the probe.
            return Discover(self._pinned or LATEST_MODERN)
        may_be_sse = self._transport == "auto" and not self._tried_sse
        if may_be_sse and isinstance(outcome, Refusal) and 400 <= outcome.status < 500:
            is_modern = error is not None and error.code in MODERN_CODES
            if not is_modern and outcome.status not in _NO_SSE_AFTER:
                self._refused_initialize = outcome if error is not None else None
                return OpenSse()
        return Failed(outcome)

    def _after_version_error(self, supported: list[Any]) -> Action:
        known = (self._pinned,) if self._pinned else ALL_VERSIONS
        version = newest(supported, tuple(v for v in known if v in HANDSHAKE_VERSIONS))
        if version is not None and self._initialized < 2:
            return Initialize(version)
        # A stdio server that answers the probe late has meanwhile fixed the modern era for the connection.
        version = newest(supported, tuple(v for v in known if v in MODERN_VERSIONS))
        if version is not None and self._discovered < 2:
            return Discover(version)
        return Failed(self._no_common_version(supported))

    def _older(self, outcome: Answer) -> str | None:
        """The next revision to ask for, if this one may be what the server refuses.

        Servers that should answer with a revision of theirs refuse one that is newer, and name theirs in
        words, or not at all.
        """
        assert isinstance(self._last, Initialize)
        last_version = self._last.version
        older = HANDSHAKE_VERSIONS[: HANDSHAKE_VERSIONS.index(last_version)]
        if self._pinned or not older or self._initialized >= len(HANDSHAKE_VERSIONS):
            return None
        words = _words_of(outcome)
        if named := [version for version in older if version in words]:
            return named[-1]
        is_bare = isinstance(outcome, Refusal) and outcome.status == _BAD_REQUEST
        return older[-1] if is_bare and speaks_of_revisions(outcome, or_of_nothing=True) else None

    def _after_sse(self, outcome: Outcome) -> Action:
        if isinstance(outcome, SseOpened):
            self._over_stream = True
            # Over the new transport both requests are asked anew:
            # what was refused was the POST, not the method.
            self._discovered = self._initialized = 0
            return self._first_request
        if self._transport == "auto" and not self._tried_http and _is_no_stream(outcome):
            self._tried_http = True
            return self._first_request
        if isinstance(outcome, Refusal) and self._refused_initialize is not None:
            return Failed(self._refused_initialize)  # a JSON-RPC error: the server speaks streamable HTTP
        return Failed(outcome)

    def _no_common_version(self, supported: list[Any]) -> VersionError:
        offered = tuple(str(version)[:_LONGEST_VERSION] for version in supported[:_MOST_VERSIONS])
        versions = self._pinned or ", ".join(ALL_VERSIONS)
        return VersionError(
            f"The server speaks protocol revision {', '.join(offered)}, this client {versions}",
            supported=offered,
            fix="Remove the pinned protocol version" if self._pinned else "Update knime-mcp or the server",
        )


def _words_of(answer: Answer) -> str:
    error = rpc_error(answer)
    said = [answer.excerpt] if isinstance(answer, Refusal) else []
    said += [] if error is None else [error.message, str(error.data or "")]
    return " ".join(said)


def speaks_of_revisions(answer: Answer, *, or_of_nothing: bool = False) -> bool:
    """Whether a refusal may be about the protocol's revision; with `or_of_nothing` if it gives no reason."""
    words = re.findall("[a-z]+", _words_of(answer).lower())
    if or_of_nothing and _NO_WORDS.issuperset(words):
        return True
    return "version" in words or "protocolversion" in words or "revision" in words


def _is_no_stream(outcome: Outcome) -> bool:
    """Returns whether the URL answered, but not as an event stream that names an address to post to."""
    if isinstance(outcome, Refusal):
        return outcome.status not in _NO_SSE_AFTER
    return isinstance(outcome, TimedOut) and outcome.kind == "connect"


class Era(Enum):
    """The two ways in which client and server begin and keep a conversation."""

    LEGACY = "legacy"
    """``initialize``, sessions, requests from the server, resumable streams."""
    MODERN = "modern"
    """No handshake: every request names the client and the revision."""


def era_of(version: str) -> Era:
    """The era of a revision that `ALL_VERSIONS` names."""
    return Era.MODERN if version in MODERN_VERSIONS else Era.LEGACY


def newest(offered: object, known: tuple[str, ...]) -> str | None:
    """The newest known revision that a server offers; None without one, or if `offered` is not a list."""
    if not isinstance(offered, list):
        return None
    return next((version for version in reversed(known) if version in offered), None)
