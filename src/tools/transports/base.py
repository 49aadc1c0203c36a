"""What the client needs from a transport, whatever carries the bytes.

Streamable HTTP, HTTP+SSE and stdio differ in how a reply finds its request; above this protocol they are the
same. A transport knows no tools: it moves JSON-RPC messages and says what it saw.
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
        phase: Which part of connecting.
        what: What was tried, as a phrase.
        ok: Whether it worked.
        detail: What came of it.
        seconds: How long it took.
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
        is_handshake: The request is ``initialize`` or a probe; it is never canceled or resumed.
        listens: The server may have something to say about it before it replies: progress, questions.
        wants_progress: Somebody waits for that progress.
    """

    id: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_handshake: bool = False
    listens: bool = False
    wants_progress: bool = False


def client_closed() -> ConnectError:
    """The error of calls that wait when the client is closed, or come later."""
    return ConnectError("The client was closed", phase="protocol", fix="Open it again")


class Inbox(Protocol):
    """Takes messages that are not the reply to a call."""

    def notification(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification arrived. Must not raise and must return quickly."""
        ...

    def server_request(self, message: Message) -> Message | None:
        """A server's request arrived.

        Returns:
            The response to send, or None to send nothing.
        """
        ...


class Transport(Protocol):
    """Moves messages to one server and back. Safe for use by many threads at once.

    Attributes:
        kind: Which transport this is.
    """

    kind: TransportKind

    @property
    def is_broken(self) -> bool:
        """Whether a request needs a new connection."""
        ...

    def listen(self) -> None:
        """Listens from now on to what the server sends unasked, if that takes a stream of its own."""
        ...

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        """Sends a request and waits for its answer, handing everything else to the inbox.

        Raises:
            MCPError: No answer: no connection, a broken stream, a clock, cancel, a limit.
        """
        ...

    def notify(self, body: bytes, wait: Wait) -> None:
        """Sends a notification or a response. No answer is awaited, and no login is renewed for it.

        Raises:
            MCPError: It could not be sent.
        """
        ...

    def adopt(self, version: str, session_id: str | None) -> None:
        """The negotiation is over: from now on messages are of this revision and belong to this session."""
        ...

    def end_session(self, wait: Wait) -> None:
        """Says goodbye where the transport has a way to.

        Raises:
            MCPError: It could not be said.
        """
        ...

    def retire(self) -> None:
        """Closes as soon as no call is under way: another transport has taken its place."""
        ...

    def close(self) -> None:
        """Closes everything. Calls under way fail soon."""
        ...
