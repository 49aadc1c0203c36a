"""A child process whose standard streams carry lines: started alone in its group, ended with all of it.

Knows nothing of JSON-RPC. Three threads serve the streams; none of them waits for another one, so that a
server that floods one stream, or stops reading, stops nobody else. On POSIX the streams are polled: a
grandchild that outlives the server and holds its output open cannot keep a thread.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
"""

import atexit
import logging
import os
import queue
import select
import signal
import subprocess
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Final, Protocol

from .last_words import last_words
from .stdio_server import StdioServer
from .stdio_start import IS_WINDOWS, start, watch

_logger = logging.getLogger(__name__)

_CHUNK: Final = 64 * 1024
_POLL_MS: Final = 250
_POLITE_SECONDS: Final = 2.0  # after standard input was closed, and again after SIGTERM
_REAP_SECONDS: Final = 5.0
_LEFTOVER_SECONDS: Final = 0.5  # for grandchildren, once the server itself has ended
_WRITE_SECONDS: Final = 1.0  # a write that takes longer waits for the process
_EXIT_SECONDS: Final = 1.0  # between the end of the output and the end of the process
_LONGEST_CLOSE_SECONDS: Final = 15.0
_TAIL_BYTES: Final = 8192


class OutputListener(Protocol):
    """Receives the output of a process; called in the threads that read it."""

    def line(self, data: bytes, *, is_last: bool = False) -> None:
        """Takes a line of output without its line feed; `is_last` if the output has ended."""
        ...

    def growing(self) -> None:
        """A long line is arriving."""
        ...

    def oversized(self, head: bytes, tail: bytes) -> None:
        """A line was longer than allowed and is lost but for its beginning and end."""
        ...

    def ended(self, reason: str) -> None:
        """Takes the end of the output, once."""
        ...


@dataclass(slots=True)
class Outgoing:
    """A line on its way to the process.

    Attributes:
        data: The line, with its end.
    """

    data: bytes
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _begun: bool = False
    _withdrawn: bool = False
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _may_be_out: bool = False
    _given_up: bool = False

    def begin(self) -> bool:
        """The writer is about to write; False if the line was withdrawn."""
        with self._lock:
            self._begun = not self._withdrawn
            return self._begun

    def withdraw(self) -> bool:
        """Withdraws the line; False if a part of it may have been written already."""
        with self._lock:
            self._withdrawn = not self._begun
            if self._withdrawn:
                self.data = b""  # in the queue it stays as long as the process does not read
            return self._withdrawn

    def give_up(self) -> bool:
        """Writes no more of it, half a line or not; False if its last byte may be out already."""
        # The thread that reads may find out that the process has ended before the one that writes.
        settled = self._writing.acquire(timeout=_WRITE_SECONDS)
        try:
            self._given_up = not self._may_be_out
            return self._given_up
        finally:
            if settled:
                self._writing.release()

    def write(self, number: int, left: memoryview) -> int:
        """Writes some of what is left of it.

        Args:
            number: The descriptor of the pipe.
            left: What is not written yet.

        Returns:
            How many bytes were written.

        Raises:
            OSError: None were.
        """
        with self._writing:
            if self._given_up:
                raise BrokenPipeError
            self._may_be_out = len(left) <= _CHUNK  # said first: the process may be faster than we are
            try:
                return os.write(number, left[:_CHUNK])
            except OSError:
                self._may_be_out = False
                raise


class StdioProcess:
    """A running process.

    Args:
        server: What to start.
        listener: Receives its output.
        line_bytes: Longest line of output.

    Raises:
        ConnectError: It cannot be started; phase ``process``.
    """

    def __init__(self, server: StdioServer, listener: OutputListener, *, line_bytes: int) -> None:
        self._server = server
        self._listener = listener
        self._line_bytes = line_bytes
        self._outbox: queue.SimpleQueue[Outgoing | None] = queue.SimpleQueue()
        self._stderr_tail = b""
        self._tail_bytes = _TAIL_BYTES + server.longest_secret
        self._closing = False
        self._is_deaf = False
        self._over_since: float | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._kill_lock = threading.Lock()
        self._process = start(server)
        _live.add(self)
        self._watchdog = watch(self._process.pid)
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._threads = [
            threading.Thread(target=work, args=(stream,), name=f"knime-mcp-stdio-{name}", daemon=True)
            for name, work, stream in (
                ("err", self._read_errors, self._process.stderr),
                ("in", self._write, self._process.stdin),
                # Last: when the output ends, it waits for the others.
                ("out", self._read_output, self._process.stdout),
            )
        ]

    def serve(self) -> None:
        """Begins to read and write; from now on the listener is called."""
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Id of the process; on POSIX of its group, too."""
        return self._process.pid

    @property
    def waiting_lines(self) -> int:
        """The number of lines that wait to be written."""
        return self._outbox.qsize()

    def send(self, data: bytes) -> Outgoing:
        """Writes a line when those before it are out.

        Args:
            data: The line, without its end.
        """
        outgoing = Outgoing(data + b"\n")
        self._outbox.put(outgoing)
        return outgoing

    def last_words(self) -> str:
        """The end of what the process has written to its standard error, in one line, without secrets."""
        return last_words(self._stderr_tail, self._server.without_secrets)

    def close(self) -> None:
        """Ends the process and its group: input closed, then SIGTERM, then SIGKILL, 2 s apart.

        Its output is read to the end meanwhile: a server that cannot write cannot end. If the process has
        ended by itself, or another thread closes it, waits until that is done.
        """
        with self._lock:
            first, self._closing = not self._closing, True
        if not first:
            if threading.current_thread() not in self._threads:
                self._closed.wait(_LONGEST_CLOSE_SECONDS)
            return
        self._outbox.put(None)
        try:
            if not self._has_ended(_POLITE_SECONDS):
                _logger.debug("%s did not end when its input was closed", self._server.url)
                self._signal(signal.SIGTERM)
                self._has_ended(_POLITE_SECONDS)
        finally:  # also when Ctrl-C has ended the patience
            self.kill()
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join(_EXIT_SECONDS)
            self._closed.set()

    def kill(self) -> None:
        """Ends it at once, with all that it has left behind in its group."""
        with self._kill_lock:
            if not self._has_ended(0):
                self._kill_group()
                if not self._has_ended(_REAP_SECONDS):
                    _logger.warning("%s cannot be ended", self._server.url)
            self._clear_group()
            _live.discard(self)
            if self._watchdog is not None:
                self._watchdog.kill()
                self._watchdog.communicate()
                self._watchdog = None

    def _has_ended(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _clear_group(self) -> None:
        """The server has ended: ends what it has left behind in its group."""
        if not self._signal(signal.SIGTERM):
            return
        until = time.monotonic() + _LEFTOVER_SECONDS
        while time.monotonic() < until and self._signal(0):
            time.sleep(0.02)
        self._kill_group()

    def _kill_group(self) -> None:
        if IS_WINDOWS:
            command = ["taskkill", "/T", "/F", "/PID", str(self._process.pid)]
            with suppress(OSError, subprocess.TimeoutExpired):
                # Not captured: that takes threads, which cannot be started when the interpreter ends.
                subprocess.run(  # noqa: S603
                    command,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_REAP_SECONDS,
                    check=False,
                )
            self._process.kill()
        else:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> bool:
        """Signals the whole group; False if there is nobody in it."""
        if IS_WINDOWS:
            # Nothing but the end with all that it has started can be sent there, which `_kill_group` does.
            return self._process.poll() is None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # only zombies are left (macOS), or somebody changed its user
            return False
        return True

    def _read_output(self, stream: IO[bytes]) -> None:
        held = bytearray()
        lost: bytes | None = None  # the beginning of a line that is too long
        try:
            while chunk := self._read(stream):
                *whole, rest = chunk.split(b"\n")
                for part in whole:
                    if lost is None and len(held) + len(part) > self._line_bytes:
                        lost = bytes(held[:_TAIL_BYTES] or part[:_TAIL_BYTES])
                    held += part
                    if lost is None:
                        self._listener.line(bytes(held))
                    else:
                        self._listener.oversized(lost, bytes(held[-_TAIL_BYTES:]))
                        lost = None
                    held.clear()
                held += rest
                if len(held) > self._line_bytes and lost is None:
                    lost = bytes(held[:_TAIL_BYTES])
                if lost is not None:
                    del held[:-_TAIL_BYTES]
                elif len(held) >= _CHUNK:
                    self._listener.growing()
            if held and lost is None:
                self._listener.line(
                    bytes(held), is_last=True
                )  # a process that ended may have left its end out
        finally:
            stream.close()
            self._listener.ended(self._farewell())
            self.close()  # whatever the reason is: it cannot be used any more

    def _farewell(self) -> str:
        """How the process ended, after its output has ended."""
        if not self._has_ended(0 if self._closing else _EXIT_SECONDS):
            reason = "closed its standard output although it still runs"
        else:
            how = _exit_text(self._process.returncode)
            reason = "closed its standard input although it still ran" if self._is_deaf else f"ended {how}"
            self._threads[0].join(_EXIT_SECONDS)  # its last words
        words = self.last_words()
        return f"{reason}. Its last words: {words}" if words else f"{reason} without a word"

    def _read_errors(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := self._read(stream):
                self._stderr_tail = (self._stderr_tail + chunk)[-self._tail_bytes :]

    def _read(self, stream: IO[bytes]) -> bytes:
        """Waits for bytes and returns them; empty at the end of the stream or of the process."""
        if not IS_WINDOWS:
            poll = select.poll()
            poll.register(stream, select.POLLIN)
            while not poll.poll(_POLL_MS):
                if self._has_been_over(0) and not poll.poll(0):
                    return b""  # somebody else holds the other end
            if self._has_been_over(_EXIT_SECONDS):
                return b""  # and goes on writing
        return os.read(stream.fileno(), _CHUNK)

    def _has_been_over(self, seconds: float) -> bool:
        """Returns whether the process has ended, and that long ago."""
        if self._process.poll() is None:
            return False
        self._over_since = self._over_since or time.monotonic()
        return time.monotonic() - self._over_since >= seconds

    def _write(self, stream: IO[bytes]) -> None:
        """The writer thread: until the process does not read any more, or we close it."""
        try:
            with stream:
                if not IS_WINDOWS:
                    os.set_blocking(stream.fileno(), False)
                while (outgoing := self._outbox.get()) is not None:
                    if outgoing.begin():
                        self._write_line(stream, outgoing)
        except OSError:
            if not self._has_ended(_POLITE_SECONDS):  # it can get no more requests
                self._is_deaf = True
                self.kill()

    def _write_line(self, stream: IO[bytes], outgoing: Outgoing) -> None:
        left = memoryview(outgoing.data)
        while left:
            if not IS_WINDOWS:
                poll = select.poll()
                poll.register(stream, select.POLLOUT)
                while not poll.poll(_POLL_MS):
                    if self._process.poll() is not None:
                        raise BrokenPipeError
            with suppress(BlockingIOError):
                left = left[outgoing.write(stream.fileno(), left) :]


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by the signal {signal.Signals(-code).name}"
    except ValueError:
        return f"by the signal {-code}"


_live: "weakref.WeakSet[StdioProcess]" = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    for process in list(_live):
        process.kill()
