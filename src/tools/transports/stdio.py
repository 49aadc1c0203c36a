"""The stdio transport: a server that is a child process, one JSON-RPC message per line.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio. The process is started with
the first request. It dies with the transport; if it dies before, all calls that wait end with its exit code
and last words, and those that come later are told to open a new session.
"""

import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, cast

from ...types.errors import ConnectError, MCPError, ProtocolError, ResultTooLarge, SessionLost, TimedOut
from ..clock import Wait
from ..limits import Limits
from ..protocol.answers import Answer, Response
from ..protocol.json_text import decode
from ..protocol.jsonrpc import Message, encode
from .base import Call, Inbox, Step, Trace, TransportKind
from .pending import Pending, PendingCalls
from .stdio_process import StdioProcess
from .stdio_server import StdioServer

_logger = logging.getLogger(__name__)
_FIX: Final = "Run the command in a terminal and see what it says"
_CLOSED: Final = "The client was closed"
_MOST_WAITING_LINES: Final = 1000
_KEPT_NOISE, _LONGEST_NOISE = 3, 120
_ID_AHEAD: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,')
_ID_BEHIND: Final = re.compile(rb',\s*"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class StdioTransport:
    """A server's process, and the messages to and from it.

    Args:
        server: What to start.
        limits: Sizes and numbers.
        inbox: Takes what arrives while no call is waiting.
        trace: Told about each start.
    """

    kind: TransportKind = "stdio"

    def __init__(self, server: StdioServer, limits: Limits, inbox: Inbox, trace: Trace | None = None) -> None:
        self._server = server
        self._limits = limits
        self._inbox = inbox
        self._trace = trace
        self._lock = threading.Lock()
        self._closed = False
        self._current: _Stream | None = None

    @property
    def is_broken(self) -> bool:
        """See the protocol class: the process has ended."""
        stream = self._current
        return self._closed or (stream is not None and stream.calls.ended is not None)

    def listen(self) -> None:
        """See the protocol class: the one stream there is is read all the time."""

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        """See the protocol class."""
        stream = self._stream(may_start=call.is_handshake)
        if not call.is_handshake:
            return self._ask(stream, call, wait, inbox)
        was_asked, stream.was_asked = stream.was_asked, True
        try:
            return self._ask(stream, call, wait, inbox)
        except (ConnectError, SessionLost) as error:
            if was_asked and not self._closed:
                # It refused the probe, or broke on it unseen, and then ended, perhaps while this was on its
                # way.
                return self._ask(self._stream(may_start=True), call, wait, inbox)
            raise ConnectError(error.what, phase="protocol", fix=stream.advice()) from None

    def _ask(self, stream: "_Stream", call: Call, wait: Wait, inbox: Inbox) -> Answer:
        pending = Pending(wait, inbox)
        stream.calls.add(call.id, pending)
        outgoing = stream.process.send(call.body)
        try:
            wait.for_event(pending.done)
        except TimedOut as error:
            words = stream.process.last_words()
            if words:
                error.what += f". The last words of its process: {words}"
            raise
        finally:
            stream.calls.remove(call.id)
            if not outgoing.withdraw():
                wait.unsent = False
        if pending.message is not None:
            return Response(pending.message, body=pending.body)
        assert pending.error is not None
        if isinstance(pending.error, ConnectError) and not outgoing.may_be_out:
            # Half a line is no request: whatever the server was, it has not begun with this call.
            raise SessionLost(pending.error.what, fix=pending.error.fix)
        raise pending.error.at()

    def notify(self, body: bytes, headers: Iterable[tuple[str, str]], wait: Wait) -> None:  # noqa: ARG002
        """See the protocol class."""
        stream = self._stream(may_start=False)
        if stream.calls.ended is not None:
            raise stream.calls.ended.at()
        stream.process.send(body)

    def adopt(self, version: str, session_id: str | None) -> None:  # noqa: ARG002
        """See the protocol class: the process itself is the session."""
        with self._lock:
            stream = self._current
        if stream is not None:
            stream.calls.adopt(version)

    def end_session(self, wait: Wait) -> None:
        """See the protocol class: closing the server's input ends the session."""

    def close(self) -> None:
        """See the protocol class. Takes as long as the server may take to end, at most some 5 s."""
        with self._lock:
            self._closed = True
            stream = self._current
        if stream is not None:
            stream.calls.end(ConnectError(_CLOSED, phase="process", fix="Open it again"), _lost())
            stream.process.close()

    def _stream(self, *, may_start: bool) -> "_Stream":
        """The running process.

        One that died while it was asked what it speaks is started again: a server of the handshake era may
        not survive a method that it does not know.
        """
        with self._lock:
            if self._closed:
                raise _lost()
            stream = self._current
            if stream is None or (may_start and stream.calls.ended is not None):
                stream = self._current = self._start()
            return stream

    def _start(self) -> "_Stream":
        started = time.monotonic()
        what = f"start {self._server.program}"
        try:
            stream = _Stream(self._server, self._limits, self._inbox)
        except ConnectError as error:
            self._note(Step("process", what, False, error.what, time.monotonic() - started))
            raise
        self._note(Step("process", what, True, f"process {stream.process.pid}", time.monotonic() - started))
        return stream

    def _note(self, step: Step) -> None:
        if self._trace is not None:
            self._trace(step)


class _Stream:
    """What one process says, handed to those who wait for it."""

    def __init__(self, server: StdioServer, limits: Limits, inbox: Inbox) -> None:
        self._server = server
        self._line_bytes = min(limits.event_bytes, limits.result_bytes)
        self._noise: deque[str] = deque(maxlen=_KEPT_NOISE)
        self._skipped = 0
        self.was_asked = False
        self.calls = PendingCalls(inbox, self._answer)
        self.process = StdioProcess(server, self, line_bytes=self._line_bytes)
        self.process.serve()

    def line(self, data: bytes) -> None:
        """See `Listener`."""
        if not data.strip():
            return
        try:
            value = decode(data)
        except ProtocolError:
            value = None
        # Servers of revision 2025-03-26 may send several messages as a list.
        messages = cast("list[Any]", value) if isinstance(value, list) else [value]
        for message in messages:
            if isinstance(message, dict):
                self.calls.dispatch(cast("Message", message), data)
            else:
                self._skip(data)
                return

    def _skip(self, data: bytes) -> None:
        """Something on standard output that is no message: a greeting, a print that was forgotten."""
        self._skipped += 1
        text = " ".join(data[: 4 * _LONGEST_NOISE].decode("utf-8", "replace").split())
        for secret in self._server.secrets():
            text = text.replace(secret, "[secret]")
        self._noise.append(text[:_LONGEST_NOISE])
        _logger.debug("%s: skipped a line of %d bytes that is no message", self._server.url, len(data))

    def growing(self) -> None:
        """See `Listener`."""
        self.calls.heard()

    def oversized(self, head: bytes, tail: bytes) -> None:
        """See `Listener`."""
        found = _ID_AHEAD.search(head) or _ID_BEHIND.search(tail)
        error = ResultTooLarge(
            f"The server sent a message of more than {self._line_bytes} bytes",
            limit=self._line_bytes,
            fix="Ask the tool for less at once",
        )
        self.calls.fail(int(found[1]) if found else None, error)

    def advice(self) -> str:
        """What to do about a server that ended before it was of any use."""
        missing = self._server.missing_variables(self.process.last_words())
        if not missing:
            return _FIX
        unset = " and ".join([name for name in missing if name not in os.environ])
        return (
            f"A server gets few of our environment variables. {f'Set {unset} and pass' if unset else 'Pass'} "
            f"{' and '.join(missing)} on (--env NAME)"
        )

    def ended(self, reason: str) -> None:
        """See `Listener`."""
        what = f"The server's process {reason}"
        if self._skipped:
            shown = " / ".join(self._noise)
            what += f". It wrote {self._skipped} lines that are no messages, such as: {shown}"
        self.calls.end(
            ConnectError(what, phase="protocol", fix=_FIX),
            # For those who come later nothing was sent: they may open a new session and go on.
            SessionLost(what, fix="Call again: the server is started anew"),
        )

    def _answer(self, answer: Message) -> None:
        if self.process.waiting_lines > _MOST_WAITING_LINES:
            _logger.warning("%s asks, but does not read the answers", self._server.url)
            return
        self.process.send(encode(answer))


def _lost() -> MCPError:
    return SessionLost(_CLOSED, fix="Call again: the server is started anew")
