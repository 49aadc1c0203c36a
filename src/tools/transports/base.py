"""What the client needs from a transport, whatever carries the bytes.

Streamable HTTP, HTTP+SSE and stdio differ in how a reply finds its request; above this protocol they are the
same. A transport knows no tools and no eras: it moves JSON-RPC messages and says what it saw.
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
    """One step of connecting, for people who ask why they cannot connect.

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
    """What those are told who wait when the client is closed, or come afterwards."""
    return ConnectError("The client was closed", phase="protocol", fix="Open it again")


class Inbox(Protocol):
    """Takes what a server sends beside the reply to a call."""

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
        """Whether a request can only be sent over another one."""
        ...

    def listen(self) -> None:
        """Hear from now on what the server says unasked, where that takes more than calls that wait."""
        ...

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        """Send a request and wait for its answer, handing everything else to the inbox.

        Raises:
            MCPError: No answer: no connection, a broken stream, a clock, cancel, a limit.
        """
        ...

    def notify(self, body: bytes, wait: Wait) -> None:
        """Send a notification or a response; nothing comes back, and nobody has to log in for it.

        Raises:
            MCPError: It could not be sent.
        """
        ...

    def adopt(self, version: str, session_id: str | None) -> None:
        """The negotiation is over: from now on messages are of this revision and belong to this session."""
        ...

    def end_session(self, wait: Wait) -> None:
        """Say goodbye where the transport has a way to.

        Raises:
            MCPError: It could not be said.
        """
        ...

    def retire(self) -> None:
        """Another one takes its place: close as soon as that harms no call under way."""
        ...

    def close(self) -> None:
        """Close everything. Calls under way fail soon."""
        ...
