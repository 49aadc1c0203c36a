"""A child process whose standard streams carry lines, started in its own group and ended with the group.

This module does not know JSON-RPC. Each of the three streams has a thread, and the threads do not wait for
each other: a server that floods one stream, or stops reading, does not block the others. On POSIX the streams
are polled, so that a grandchild that outlives the server and keeps its output open cannot block a thread.
A watchdog process ends the group if the client is killed. What a server started in another session is ended
with it on Linux, where it is found by a mark in its environment.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
"""

import atexit
import errno
import logging
import os
import queue
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Final, Protocol

from ...system import ProcessGroup, in_own_group, is_ready, program, without_waiting
from ...types.errors import ConnectError
from ..clock import POLL_SECONDS
from .stdio_server import StdioServer

_logger = logging.getLogger(__name__)
_CHUNK: Final = 64 * 1024
_POLITE_SECONDS: Final = 2.0  # time to end after standard input was closed, and again after SIGTERM
_REAP_SECONDS: Final = 5.0
_LEFTOVER_SECONDS: Final = 0.5  # for grandchildren to end after the server
_WRITE_SECONDS: Final = 1.0  # a longer write means that the process does not read
_EXIT_SECONDS: Final = 1.0  # from the end of the output to the end of the process
_LONGEST_CLOSE_SECONDS: Final = 15.0
_TAIL_BYTES: Final = 8192
# Standard error has no clock and no limit, so what is more than this is read slowly.
_MUCH_NOISE: Final = 64 * 1024 * 1024
_NOISE_PAUSE: Final = 0.002  # seconds per chunk
_live: "weakref.WeakSet[StdioProcess]" = weakref.WeakSet()
MARK: Final = "KNIME_MCP_STARTED"
_TERMINAL_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")
_ERROR: Final = re.compile(r"((uncaught|unhandled) )?[\w.]*(error|exception)\b|panic:", re.IGNORECASE)
# Lines that Node writes after an error, often more than are shown: the stack and lone brackets.
_SKIPPED: Final = re.compile(r"at |Node\.js v\d|\W+$")


class OutputListener(Protocol):
    """Receives the output of a process, in the reader threads.

    `line` gets a line without its line feed; the output ends with the last one. `growing` is called while a
    long line arrives, and says whether the rest of it is wanted. Of one that is not, `dropping` gets how many
    bytes more are dropped, and `oversized` beginning and end. `ended` is called once.
    """

    def line(self, data: bytes, *, is_last: bool = False) -> None: ...
    def growing(self, line: bytearray) -> bool: ...
    def dropping(self, size: int) -> None: ...
    def oversized(self, head: bytes, tail: bytes) -> None: ...
    def ended(self, reason: str) -> None: ...


@dataclass(slots=True)
class OutgoingLine:
    """A line on its way to the process."""

    data: bytes
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _begun: bool = False
    _withdrawn: bool = False
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _may_be_out: bool = False
    _given_up: bool = False

    def begin(self) -> bool:
        """Notes that writing begins. Returns False if the line was withdrawn."""
        with self._lock:
            self._begun = not self._withdrawn
            return self._begun

    def withdraw(self) -> bool:
        """Withdraws the line. Returns False if a part of it may have been written already."""
        with self._lock:
            self._withdrawn = not self._begun
            if self._withdrawn:
                self.data = b""  # frees memory: the object stays queued while the process does not read
            return self._withdrawn

    def give_up(self) -> bool:
        """Stops writing the line, even in the middle. False if its last byte may have been written."""
        # The reader thread may notice the end of the process before the writer thread.
        settled = self._writing.acquire(timeout=_WRITE_SECONDS)
        try:
            self._given_up = not self._may_be_out
            return self._given_up
        finally:
            if settled:
                self._writing.release()

    def write(self, number: int, left: memoryview) -> int:
        """Writes the next part of the line; the number of written bytes."""
        with self._writing:
            if self._given_up:
                raise BrokenPipeError
            self._may_be_out = len(left) <= _CHUNK  # before writing, as the process may answer at once
            try:
                return os.write(number, left[:_CHUNK])
            except OSError:
                self._may_be_out = False
                raise


class StdioProcess:
    """A running process. Raises `ConnectError` with phase ``process`` if it cannot be started."""

    def __init__(self, server: StdioServer, listener: OutputListener) -> None:
        self._server = server
        self._listener = listener
        self._outbox: queue.SimpleQueue[OutgoingLine | None] = queue.SimpleQueue()
        self._stderr_tail = b""
        # Longer by a secret, so that none is cut in two and then not found.
        self._tail_bytes = _TAIL_BYTES + server.longest_secret
        self._closing = False
        self._stopped_reading = False
        self._over_since: float | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._kill_lock = threading.Lock()
        mark = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._process = start(server, mark)
        _live.add(self)
        self._group = ProcessGroup(self._process, f"{MARK}={mark}")
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._threads = [
            threading.Thread(target=work, args=(stream,), name=f"knime-mcp-stdio-{name}", daemon=True)
            for name, work, stream in (
                ("err", self._read_errors, self._process.stderr),
                ("in", self._write, self._process.stdin),
                # Last, as this thread joins the others when the output ends.
                ("out", self._read_output, self._process.stdout),
            )
        ]

    def serve(self) -> None:
        """Starts the threads that read and write and call the listener."""
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The id of the process, and on POSIX of its group."""
        return self._process.pid

    @property
    def waiting_lines(self) -> int:
        return self._outbox.qsize()

    def send(self, data: bytes) -> OutgoingLine:
        """Queues a line, without its line feed, to be written after the lines before it."""
        outgoing = OutgoingLine(data + b"\n")
        self._outbox.put(outgoing)
        return outgoing

    def last_words(self) -> str:
        """The end of the process's standard error, in one line, without secrets."""
        return last_words(self._stderr_tail, self._server.without_secrets)

    def close(self) -> None:
        """Ends the process and its group: input closed, then SIGTERM, then SIGKILL, 2 s apart.

        Its output is read to the end meanwhile, as a server that cannot write may not end. If the process has
        ended by itself, or another thread is closing it, waits until that is done.
        """
        with self._lock:
            first, self._closing = not self._closing, True
        # A listener's `ended` may close as well, in the very thread that is to be waited for.
        if not first:
            if threading.current_thread() not in self._threads:
                self._closed.wait(_LONGEST_CLOSE_SECONDS)
            return
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown: in this order.
        self._outbox.put(None)
        try:
            if not self._has_ended(_POLITE_SECONDS):
                _logger.debug("%s did not end when its input was closed", self._server.url)
                self._group.ask_to_end()
                self._has_ended(_POLITE_SECONDS)
        finally:  # also after Ctrl-C during the waits
            self.kill()
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join(_EXIT_SECONDS)
            self._closed.set()

    def kill(self) -> None:
        with self._kill_lock:
            if not self._has_ended(0):
                self._group.kill()
                if not self._has_ended(_REAP_SECONDS):
                    _logger.warning("%s cannot be ended", self._server.url)
            self._clear_group()
            _live.discard(self)
            self._group.watch_no_more()

    def _has_ended(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _clear_group(self) -> None:
        """Ends the processes that an ended server has left, in its group or with its mark."""
        if not self._group.ask_to_end():
            return
        until = time.monotonic() + _LEFTOVER_SECONDS
        while time.monotonic() < until and self._group.is_alive():
            time.sleep(0.02)
        self._group.kill()

    def _read_output(self, stream: IO[bytes]) -> None:
        held = bytearray()
        lost: bytes | None = None  # the beginning of a line that is not wanted
        try:
            while chunk := self._read(stream):
                parts = chunk.split(b"\n")
                for number, part in enumerate(parts, 1):
                    held += part
                    if lost is None and len(held) > _CHUNK and not self._listener.growing(held):
                        lost = bytes(held[:_TAIL_BYTES])
                    if number == len(parts):  # the beginning of a line
                        break
                    if lost is None:
                        self._listener.line(bytes(held))
                    else:
                        self._listener.oversized(lost, bytes(held[-_TAIL_BYTES:]))
                        lost = None
                    held.clear()
                if lost is not None:
                    self._listener.dropping(len(held) - _TAIL_BYTES)
                    del held[:-_TAIL_BYTES]
            if held and lost is None:  # the last line of an ended process may lack its line feed
                self._listener.line(bytes(held), is_last=True)
        finally:
            stream.close()
            self._listener.ended(self._how_it_ended())
            self.close()  # without its output the process cannot be used any more

    def _how_it_ended(self) -> str:
        if not self._has_ended(0 if self._closing else _EXIT_SECONDS):
            reason = "closed its standard output although it still runs"
        else:
            how = _exit_text(self._process.returncode)
            reason = (
                "closed its standard input although it still ran" if self._stopped_reading else f"ended {how}"
            )
            self._threads[0].join(_EXIT_SECONDS)  # until standard error is read
        words = self.last_words()
        return f"{reason}. Its last words: {words}" if words else f"{reason} without a word"

    def _read_errors(self, stream: IO[bytes]) -> None:
        with stream:
            read = 0
            while chunk := self._read(stream):
                read += len(chunk)
                if read > _MUCH_NOISE:
                    time.sleep(_NOISE_PAUSE)
                self._stderr_tail = (self._stderr_tail + chunk)[-self._tail_bytes :]

    def _read(self, stream: IO[bytes]) -> bytes:
        """Waits for bytes and returns them; empty at the end of the stream or of the process."""
        while not is_ready(stream, POLL_SECONDS):
            # Asked once more: the last bytes may have come between the two questions.
            if self._has_been_over(0) and not is_ready(stream, 0):
                return b""  # another process keeps the stream open
        if self._has_been_over(_EXIT_SECONDS):
            return b""  # another process keeps writing to the stream
        return os.read(stream.fileno(), _CHUNK)

    def _has_been_over(self, seconds: float) -> bool:
        """Returns whether the process ended at least that many seconds ago."""
        if self._process.poll() is None:
            return False
        self._over_since = self._over_since or time.monotonic()
        return time.monotonic() - self._over_since >= seconds

    def _write(self, stream: IO[bytes]) -> None:
        """The work of the writer thread, until the process stops reading or `close` is called."""
        try:
            with stream:
                # A full pipe would hold the thread in the kernel, where neither `close` nor the end of the
                # process reaches it.
                without_waiting(stream.fileno())
                while (outgoing := self._outbox.get()) is not None:
                    if outgoing.begin():
                        self._write_line(stream, outgoing)
        except OSError:
            if not self._has_ended(_POLITE_SECONDS):  # the process runs, but cannot get requests any more
                self._stopped_reading = True
                self.kill()

    def _write_line(self, stream: IO[bytes], outgoing: OutgoingLine) -> None:
        left = memoryview(outgoing.data)
        while left:
            while not is_ready(stream, POLL_SECONDS, writing=True):
                if self._process.poll() is not None:
                    raise BrokenPipeError
            with suppress(BlockingIOError):
                left = left[outgoing.write(stream.fileno(), left) :]
        outgoing.data = b""  # frees memory: the call waits for its reply with this object


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by the signal {signal.Signals(-code).name}"
    except ValueError:
        return f"by the signal {-code}"


@atexit.register
def _kill_all() -> None:
    for process in list(_live):
        process.kill()


def start(server: StdioServer, mark: str) -> subprocess.Popen[bytes]:
    """Starts a server in its own process group, with its three streams as pipes."""
    environment = {**server.environment(), MARK: mark}
    try:
        return subprocess.Popen(  # noqa: S603 - to run it is what the caller asked for
            [program(server.program, environment.get("PATH")), *server.command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            cwd=server.cwd,
            **in_own_group(waiting=True),
        )
    except OSError as error:
        raise _not_started(server, error) from None


def _not_started(server: StdioServer, error: OSError) -> ConnectError:
    if server.cwd is not None and error.filename == server.cwd:
        what, fix = f"There is no folder {server.cwd} to start the server in", "Create it first"
    elif isinstance(error, FileNotFoundError):
        what = f"There is no program '{server.program}'"
        fix = "Install it, or write its full path; it is looked for in the folders of PATH"
        if shutil.which(server.program, path=server.environment().get("PATH")):
            what = f"The first line of the script '{server.program}' names a program that does not exist"
            fix = "Install the script again, or start it with its interpreter; it may have Windows line ends"
    elif isinstance(error, PermissionError) or error.errno == errno.ENOEXEC:
        what = f"The program '{server.program}' may not be executed, or is a script without its interpreter"
        fix = "Make the file executable, or start it with its interpreter, such as python server.py"
    else:
        what = f"The program '{server.program}' cannot be started: {error.strerror or type(error).__name__}"
        fix = "Run the command in a terminal and see what it says"
    return ConnectError(what, phase="process", fix=fix)


_LINES, _LONGEST_END = 5, 300


def last_words(written: bytes, without_secrets: Callable[[str], str]) -> str:
    """The last lines, or all lines from the last error on, in one line; a long text loses its middle."""
    text = _TERMINAL_CODES.sub("", written.decode("utf-8", "replace").replace("\r", "\n"))
    lines = [" ".join(line.split()) for line in without_secrets(text).splitlines()]
    lines = [line for line in lines if line and not _SKIPPED.match(line)]
    errors = [number for number, line in enumerate(lines) if _ERROR.match(line)]
    first = min([*errors[-1:], max(0, len(lines) - _LINES)])
    words = " / ".join(lines[first:])
    if len(words) <= 2 * _LONGEST_END:
        return words
    return f"{words[:_LONGEST_END]} … {words[-_LONGEST_END:]}"
