"""Serves one client over standard input and output until the client leaves or a signal comes."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from .pipes import stdio_lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from .pipes import Incoming, Outgoing


async def serve_one(
    serve_client: Callable[[tuple[Incoming, Outgoing] | None], Awaitable[None]],
    *beside: Callable[[], Coroutine[Any, Any, None]],
) -> bool:
    """Serves a client.

    Args:
        serve_client: Serves the client on the lines of standard input and output; None if they are not pipes.
        *beside: Coroutine functions that run meanwhile.

    Returns:
        Whether a signal ended the serving, and not the client.
    """
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
