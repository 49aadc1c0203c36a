"""Serves one client over standard input and output, whose lines the event loop reads and writes itself.

This needs pipes or sockets, which clients use, and no threads.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections import deque
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from ..system import LOOPS_READ_PIPES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator


_MOST_WAITING: Final = 1 << 19
"""Bytes of lines that are read in advance."""


@asynccontextmanager
async def stdio_lines() -> AsyncGenerator[tuple[Incoming, OutputPipe] | None]:
    """The lines of standard input and output; None if they are not pipes."""
    if not LOOPS_READ_PIPES or not all(map(_is_pipe, (0, 1))):
        yield None
        return
    loop = asyncio.get_running_loop()
    with _claimed() as (into, out):
        incoming = Incoming()
        await loop.connect_read_pipe(lambda: incoming, os.fdopen(into, "rb", buffering=0))
        outgoing = OutputPipe(on_lost=incoming.close)
        await loop.connect_write_pipe(lambda: outgoing, os.fdopen(out, "wb", buffering=0))
        try:
            yield incoming, outgoing
        finally:
            incoming.close()
            outgoing.close()


@contextmanager
def _claimed() -> Generator[tuple[int, int]]:
    """Copies of the descriptors 0 and 1; other code in the process cannot read or write the protocol."""
    sys.stdout.flush()
    # Standard input becomes empty and standard output the log, for child processes, too: a line that some
    # library prints would be read as a message. https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
    into, out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    kept = os.dup(into), os.dup(out)
    try:
        yield into, out
    finally:
        sys.stdout.flush()
        for number, descriptor in enumerate(kept):
            # asyncio has switched it for every process that shares the pipe, such as the shell.
            os.set_blocking(descriptor, True)
            os.dup2(descriptor, number)
            os.close(descriptor)


class Incoming(asyncio.Protocol):
    """The lines of the input, of any length; empty lines are left out.

    Reading pauses while many lines are waiting.
    """

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._begun: list[bytes] = []
        self._waiting = 0
        self._ended = False
        self._asking: asyncio.Future[None] | None = None
        self._pipe: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = transport

    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._add(b"".join((*self._begun, line)) if self._begun else line)
            self._begun.clear()
        if rest:
            self._begun.append(rest)

    def eof_received(self) -> None:
        """Ends the input; the last line may lack its line feed."""
        if not self._ended:
            self._ended = True
            self._add(b"".join(self._begun))
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.eof_received()

    async def first(self) -> bytes:
        """The next line, without removing it; empty if there is none."""
        return self._lines[0] if await self._has_line() else b""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not await self._has_line():
            raise StopAsyncIteration
        line = self._lines.popleft()
        self._waiting -= len(line)
        if self._waiting <= _MOST_WAITING:
            self._pipe.resume_reading()
        return line

    async def _has_line(self) -> bool:
        while not self._lines and not self._ended:
            self._asking = asyncio.get_running_loop().create_future()
            await self._asking
        return bool(self._lines)

    def close(self) -> None:
        self._pipe.close()

    def _add(self, line: bytes) -> None:
        if not line or line.isspace():
            return
        self._lines.append(line)
        self._waiting += len(line)
        if self._waiting > _MOST_WAITING:
            self._pipe.pause_reading()
        self._wake()

    def _wake(self) -> None:
        if self._asking is not None and not self._asking.done():
            self._asking.set_result(None)


class OutputPipe(asyncio.Protocol):
    """The lines of the output; sending waits until the pipe has taken the line."""

    def __init__(self, *, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._lost = False
        self._taken = asyncio.Event()
        self._taken.set()
        self._pipe: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = transport
        # Nothing is kept here: a client that does not read slows the server down, and does not fill memory.
        self._pipe.set_write_buffer_limits(high=0)

    def pause_writing(self) -> None:
        self._taken.clear()

    def resume_writing(self) -> None:
        self._taken.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._lost = True
        self._taken.set()
        self._on_lost()

    async def send(self, line: str) -> None:
        """A line is given without its line feed. Raises `anyio.BrokenResourceError` if the reader is gone."""
        if not self._lost:
            self._pipe.write(f"{line}\n".encode("utf-8", "replace"))
            if not self._taken.is_set():
                await self._taken.wait()
        if self._lost:
            raise anyio.BrokenResourceError

    def close(self) -> None:
        self._pipe.close()


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    # Node.js starts servers with sockets in the place of pipes. asyncio takes neither files nor terminals.
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def serve_one(
    serve_client: Callable[[tuple[Incoming, OutputPipe] | None], Awaitable[None]],
    *beside: Callable[[], Coroutine[Any, Any, None]],
) -> bool:
    """Serves a client on standard input and output; True if a signal ended that, and not the client."""
    signaled = False
    async with anyio.create_task_group() as group:

        async def wait_for_signal() -> None:
            nonlocal signaled
            with (
                suppress(NotImplementedError),  # Windows has no such signals
                anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
            ):
                async for _ in signals:
                    signaled = True
                    group.cancel_scope.cancel()

        for task in (wait_for_signal, *beside):
            group.start_soon(task)
        async with stdio_lines() as lines:
            await serve_client(lines)
        group.cancel_scope.cancel()
    return signaled
