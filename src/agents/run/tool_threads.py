"""Blocking work in threads that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *args: Any, **options: Any) -> T:
    """Runs blocking work in a thread of its own.

    Not `asyncio.to_thread`: Python waits for that one's threads when it ends, also for a tool that hangs.

    Args:
        work: The work.
        *args: Its arguments.
        **options: Its keyword arguments.

    Returns:
        What it returns. When the waiting is canceled, the thread goes on and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)  # pyright: ignore[reportArgumentType] - T may be optional itself
        else:
            done.set_exception(error)

    def run() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = work(*args, **options)
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=run, name="agent-tool", daemon=True).start()
    return await done
