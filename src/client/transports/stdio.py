"""The stdio transport: a server that is a child process, one JSON-RPC message per line.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio. The process is started with
the first request and ended with the transport. If it ends before, all waiting calls fail with its exit code
and last output, and later calls raise `SessionLost`.
"""

import logging
import os
import threading
import time
from collections import deque
from typing import Any, Final, cast

from ...types.errors import ConnectError, MCPError, ProtocolError, ResultTooLarge, SessionLost, TimedOut
from ...types.texts import counted
from ..clock import Wait
from ..limits import Limits, exceeded
from ..protocol.messages import Answer, Message, Response, ValueCounter, decode, encode
from ..protocol.negotiation import TransportKind
from ..protocol.outcomes import Moment
from .base import Call, Inbox, Pending, PendingCalls, Step, Trace, Transport, id_of
from .stdio_process import StdioProcess
from .stdio_server import StdioServer

_logger = logging.getLogger(__name__)
_FIX: Final = "Run the command in a terminal and see what it says"
_CLOSED: Final = "The client was closed"
_CALL_AGAIN: Final = "Call again: the server is started anew"
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"  # with the bytes of a byte order mark
_BEGINNINGS: Final = b"{["
_MOST_WAITING_LINES: Final = 1000  # a server that asks and does not read would fill the memory
_SIGN_OF_LIFE_SECONDS: Final = 10.0  # for the answer to a ping, after a call that ran out of time
_MOST_DROPPED: Final = 256 * 1024 * 1024
_KEPT_NOISE, _LONGEST_NOISE = 3, 120


class StdioTransport(Transport):
    """A server's process, and the messages to and from it. Each start of the process is traced."""

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
        """True once the process has ended."""
        stream = self._current
        return self._closed or (stream is not None and stream.calls.ended is not None)

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:
        stream = self._stream(may_start=call.is_handshake)
        if not call.is_handshake:
            stream.await_sign_of_life(wait)
            return self._ask(stream, call, wait, inbox)
        was_asked, stream.was_asked = stream.was_asked, True
        try:
            return self._ask(stream, call, wait, inbox)
        except (ConnectError, SessionLost) as error:
            if was_asked and not self._closed:
                # The process ended because of the probe, perhaps while this request was on its way:
                # start it again.
                return self._ask(self._stream(may_start=True), call, wait, inbox)
            raise ConnectError(error.what, phase="protocol", fix=stream.advice()) from None

    def _ask(self, stream: "_Stream", call: Call, wait: Wait, inbox: Inbox) -> Answer:
        pending = Pending(wait, inbox)
        stream.calls.add(call.id, pending)
        outgoing = stream.process.send(call.body)
        try:
            if call.delivery.on_sent is not None:
                call.delivery.on_sent()
            wait.for_event(pending.done)
        except TimedOut as error:
            if not call.is_handshake:
                # Whether the call was slow or the whole process hangs decides what later calls may expect
                # of it.
                stream.ping()
            if error.kind == "idle" and stream.noise():
                error.what = f"The server has sent no message for {wait.timeouts.idle:g} s"
            words = stream.process.last_words()
            if words:
                error.what += f". The last words of its process: {words}"
            error.what += stream.noise()
            raise
        finally:
            stream.calls.remove(call.id)
            # What can still be withdrawn was not written, so the call surely did not run.
            if not outgoing.withdraw():
                call.delivery.moment = Moment.SENT
        if pending.message is not None:
            return Response(pending.message, body=pending.body)
        assert pending.error is not None
        if isinstance(pending.error, ResultTooLarge) and stream.calls.ended is not None:
            stream.process.kill()  # it would go on with its flood, and read no request to end
        if isinstance(pending.error, ConnectError) and outgoing.give_up():
            # The line was not sent completely, so the server has not begun this call.
            raise SessionLost(pending.error.what, fix=pending.error.fix)
        raise pending.error.at()

    def notify(self, body: bytes, wait: Wait) -> None:  # noqa: ARG002
        stream = self._stream(may_start=False)
        if stream.calls.ended is not None:
            raise stream.calls.ended.at()
        stream.process.send(body)

    def adopt(self, version: str, session_id: str | None) -> None:  # noqa: ARG002
        """There is no session id, as the process is the session."""
        if self._current is not None:
            self._current.calls.adopt(version)

    def close(self) -> None:
        """Waits for the end of the process, at most some 5 s."""
        with self._lock:
            self._closed = True
            stream = self._current
        if stream is not None:
            stream.calls.end(ConnectError(_CLOSED, phase="process", fix="Open it again"), _lost())
            stream.process.close()

    def _stream(self, *, may_start: bool) -> "_Stream":
        """The running process.

        With `may_start` a process that ended during the negotiation is started again: a server of the
        handshake era may end on an unknown method.
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
    """Passes the output of one process to the waiting calls."""

    def __init__(self, server: StdioServer, limits: Limits, inbox: Inbox) -> None:
        self._server = server
        self._line_bytes = min(limits.event_bytes, limits.result_bytes)
        self._values = limits.values
        self._counter = ValueCounter(limits.values)  # of the arriving line
        self._unwanted: ResultTooLarge | None = None  # why the rest of it is not
        self._dropped = 0  # bytes of that rest
        self._noise: deque[bytes] = deque(maxlen=_KEPT_NOISE)
        self._skipped = 0
        self.was_asked = False
        self._is_alive = threading.Event()
        self._is_alive.set()
        self._pinged_at = 0.0
        self._pings = 0
        self.calls = PendingCalls(inbox, self._answer, limits)
        self.process = StdioProcess(server, self)
        self.process.serve()

    def ping(self) -> None:
        """Sends a ping after a call timed out. Any output of the process counts as the answer."""
        if self._is_alive.is_set():
            self._pinged_at = time.monotonic()
            self._is_alive.clear()
            self._pings += 1
            # A text as id, which no call has: the answer can never be taken for a result.
            ping = {"jsonrpc": "2.0", "id": f"alive-{self._pings}", "method": "ping"}
            self.process.send(encode(ping))

    def await_sign_of_life(self, wait: Wait) -> None:
        """Waits for the answer to a ping. A process that does not answer hangs, and counts as ended."""
        while not self._is_alive.is_set():
            left = self._pinged_at + _SIGN_OF_LIFE_SECONDS - time.monotonic()
            if left <= 0:
                self.ended("does not answer any more")
            wait.reset_idle()  # this wait has its own time limit
            self._is_alive.wait(min(max(left, 0.0), wait.slice()))

    def line(self, data: bytes, *, is_last: bool = False) -> None:
        self._is_alive.set()
        if is_last:  # first, as the reply in this line may be followed by another call at once
            self.calls.refuse(SessionLost("The server's process has ended", fix=_CALL_AGAIN))
        self._counter = ValueCounter(self._values)
        start = data.lstrip(_BLANKS)[:1]
        if not start:
            self.calls.count_other()
            return
        try:
            self._bound(data)
            value = decode(data, values=self._values) if start in _BEGINNINGS else None
        except (ProtocolError, ResultTooLarge) as error:
            value, lost = None, id_of(data)
            if lost is not None:
                self.calls.fail(lost, error)
        # Servers of revision 2025-03-26 may send several messages as a list.
        messages = cast("list[Any]", value) if isinstance(value, list) else [value]
        for message in messages:
            if isinstance(message, dict):
                self.calls.dispatch(cast("Message", message), data)
            else:
                self._skip(data)
                return

    def _skip(self, data: bytes) -> None:
        """Notes a line of standard output that is no message, such as a greeting or a forgotten print."""
        self._skipped += 1
        self.calls.count_other()
        self._noise.append(data[: 4 * _LONGEST_NOISE + self._server.longest_secret])
        _logger.debug("%s: skipped a line of %d bytes that is no message", self._server.url, len(data))

    def noise(self) -> str:
        """The skipped lines in a sentence; empty if there were none."""
        if not self._skipped:
            return ""
        shown: list[str] = []
        for data in list(self._noise):
            text = self._server.without_secrets(data.decode("utf-8", "replace"))
            shown.append(" ".join(text.split())[:_LONGEST_NOISE])
        return f". It wrote {counted(self._skipped, 'line')} of something else, such as: {' / '.join(shown)}"

    def growing(self, line: bytearray) -> bool:
        self._is_alive.set()
        self.calls.heard()
        try:
            self._bound(line)
            self._counter.check(line)
        except ResultTooLarge as error:
            self._unwanted = error
            return False
        return True

    def _bound(self, line: bytes | bytearray) -> None:
        if len(line) > self._line_bytes:
            what = f"The server sent a message of more than {self._line_bytes} bytes"
            raise exceeded("event_bytes", self._line_bytes, what)

    def dropping(self, size: int) -> None:
        self._dropped += size
        if self._dropped > _MOST_DROPPED:  # it may have no end
            assert self._unwanted is not None
            self.calls.end(self._unwanted, SessionLost(self._unwanted.what, fix=_CALL_AGAIN))
            self.process.kill()

    def oversized(self, head: bytes, tail: bytes) -> None:
        assert self._unwanted is not None
        self._counter = ValueCounter(self._values)
        self._dropped = 0
        self.calls.fail(id_of(head, tail), self._unwanted)

    def advice(self) -> str:
        """The advice for a server that ended before it answered."""
        missing = self._server.missing_variables(self.process.last_words())
        if not missing:
            return _FIX
        unset = " and ".join([name for name in missing if name not in os.environ])
        return (
            f"A server gets few of our environment variables. {f'Set {unset} and pass' if unset else 'Pass'} "
            f"{' and '.join(missing)} on (--env NAME)"
        )

    def ended(self, reason: str) -> None:
        self._is_alive.set()
        what = f"The server's process {reason}{self.noise()}"
        self.calls.end(
            ConnectError(what, phase="protocol", fix=_FIX),
            # Later calls were not sent yet, so they get `SessionLost` and may continue in a new session.
            SessionLost(what, fix=_CALL_AGAIN),
        )

    def _answer(self, answer: Message) -> None:
        if self.process.waiting_lines > _MOST_WAITING_LINES:
            _logger.debug("%s asks, but does not read the answers", self._server.url)
            return
        self.process.send(encode(answer))


def _lost() -> MCPError:
    return SessionLost(_CLOSED, fix=_CALL_AGAIN)
