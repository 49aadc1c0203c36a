"""The interface of transports, as the client uses it.

Streamable HTTP, HTTP+SSE and stdio differ in how a reply finds its request; above this interface they are the
same. A transport does not know about tools: it moves JSON-RPC messages and reports their outcomes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...types.errors import ConnectError, ConnectPhase
from ..clock import Wait
from ..protocol.answers import Answer
from ..protocol.jsonrpc import Message
from ..protocol.server_info import TransportKind


@dataclass(frozen=True, slots=True)
class Step:
    """A step of connecting, for finding out why a connection fails.

    Attributes:
        phase: The part of connecting.
        what: The action, as a phrase.
        ok: True if the step succeeded.
        detail: The outcome, in words.
        seconds: The duration.
    """

    phase: ConnectPhase
    what: str
    ok: bool
    detail: str = ""
    seconds: float = 0.0


Trace = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way to a transport.

    Attributes:
        id: The request's id.
        body: The message, encoded.
        headers: HTTP headers of this request alone; other transports ignore them.
        is_handshake: True for ``initialize`` and probes, which are never canceled or resumed.
        listens: True if the server may send progress or requests about the call before its reply.
        wants_progress: True if the caller wants progress reports.
    """

    id: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_handshake: bool = False
    listens: bool = False
    wants_progress: bool = False


def client_closed() -> ConnectError:
    """The error for calls that are waiting when the client is closed, and for later calls."""
    return ConnectError("The client was closed", phase="protocol", fix="Open it again")


class Inbox(Protocol):
    """Handles messages that are not the reply to a call."""

    def notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handles a notification. Must not raise and must return quickly."""
        ...

    def server_request(self, message: Message) -> Message | None:
        """Handles a server's request.

        Returns:
            The response to send, or None to send nothing.
        """
        ...


class Transport(Protocol):
    """Moves messages to one server and back. Safe for use by many threads at once.

    Attributes:
        kind: The kind of transport.
    """

    kind: TransportKind

    @property
    def is_broken(self) -> bool:
        """True if the next request needs a new connection."""
        ...

    def listen(self) -> None:
        """Opens the stream for messages that the server sends unasked, if the transport has such a stream."""
        ...

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        """Sends a request and waits for its answer, passing all other messages to the inbox.

        Raises:
            MCPError: There is no answer: no connection, a broken stream, a clock, cancel, a limit.
        """
        ...

    def notify(self, body: bytes, wait: Wait) -> None:
        """Sends a notification or a response, without waiting for an answer or renewing a login.

        Raises:
            MCPError: The message could not be sent.
        """
        ...

    def adopt(self, version: str, session_id: str | None) -> None:
        """Sets the outcome of the negotiation: revision and session id of all later messages."""
        ...

    def end_session(self, wait: Wait) -> None:
        """Tells the server that the session ends, if the transport has a message for that.

        Raises:
            MCPError: The message could not be sent.
        """
        ...

    def retire(self) -> None:
        """Closes as soon as no call is under way; new requests use another transport."""
        ...

    def close(self) -> None:
        """Closes the transport. Calls under way fail soon."""
        ...
