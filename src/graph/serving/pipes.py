"""Standard input and output without threads: the event loop itself waits for the pipes.

The SDK reads and writes each line in a thread, which costs three changes of threads per call. Its
`stdio_server` takes other streams; these serve wherever standard input and output are pipes or sockets, as
clients make them.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

_CHUNK: Final = 1 << 18


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of messages of standard input and output, for the SDK's server."""
    if sys.platform == "win32" or not all(map(_is_pipe, (0, 1))):
        async with stdio_server() as streams:
            yield streams
        return
    with _claimed() as (into, out):
        reader, incoming = await _reader(into)
        writer, outgoing = await _writer(out)
        try:
            async with stdio_server(cast("Any", _Lines(reader)), cast("Any", _Output(writer))) as streams:
                yield streams
        finally:
            incoming.close()
            outgoing.close()


@contextmanager
def _claimed() -> Generator[tuple[int, int]]:
    """Copies of the descriptors 0 and 1; what else reads or prints meanwhile does not meet the protocol."""
    sys.stdout.flush()
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
            os.set_blocking(descriptor, True)
            os.dup2(descriptor, number)
            os.close(descriptor)


async def _reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader, transport


async def _writer(descriptor: int) -> tuple[asyncio.StreamWriter, asyncio.WriteTransport]:
    loop = asyncio.get_running_loop()
    file = os.fdopen(descriptor, "wb", buffering=0)
    # The reader is there for flow control alone.
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), file
    )
    return asyncio.StreamWriter(transport, protocol, None, loop), transport


class _Lines:
    """The lines that come in, however long they are; empty ones are none."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncGenerator[str]:
        async for line in self._whole():
            if line and not line.isspace():
                yield line.decode("utf-8", "replace")

    async def _whole(self) -> AsyncGenerator[bytes]:
        begun: list[bytes] = []
        while chunk := await self._reader.read(_CHUNK):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join((*begun, line))
                begun.clear()
            begun.append(rest)
        yield b"".join(begun)


class _Output:
    """Where lines go out; waits while the client does not read."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Sends text."""
        self._writer.write(text.encode())

    async def flush(self) -> None:
        """Waits until the client keeps up."""
        await self._writer.drain()


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
