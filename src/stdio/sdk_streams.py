"""Standard input and output as streams of the SDK's messages.

The SDK's own streams use a thread for each line, and an additional stream and task for each message.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from anyio.abc import AsyncResource
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .pipes import Incoming, OutputPipe


@asynccontextmanager
async def sdk_streams(lines: tuple[Incoming, OutputPipe] | None) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams that the SDK's server reads from and writes to; without lines, the SDK's own."""
    if lines is None:
        async with stdio_server() as streams:
            yield streams
    else:
        yield _Reader(lines[0]), _Writer(lines[1])


class _Stream(AsyncResource):
    """The methods that the SDK needs from its streams."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines

    async def aclose(self) -> None:
        self._lines.close()


class _Reader(_Stream):
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        line: bytes = await anext(self._lines)
        try:
            return SessionMessage(
                jsonrpc_message_adapter.validate_json(line.decode("utf-8", "replace"), by_name=False)
            )
        except ValueError as error:
            return error


class _Writer(_Stream):
    async def send(self, item: SessionMessage, /) -> None:
        await self._lines.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))
