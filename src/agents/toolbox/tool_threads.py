"""Runs blocking work in daemon threads, which the end of the process does not wait for."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...system import in_forked_children

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_KEPT_SECONDS: Final = 10.0
_waited_for: ContextVar[asyncio.Future[Any] | None] = ContextVar("waited_for", default=None)


async def in_thread(work: Callable[..., T], *args: Any, **options: Any) -> T:
    """Runs blocking work in a thread of its own, with the caller's context variables.

    Not `asyncio.to_thread`: its pool has only six threads on two processors, and Python waits for them at its
    end, even for a tool that hangs.

    If the caller is canceled, the thread goes on and its result is dropped; a function that checks
    `nobody_waits` can end earlier.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    # As `asyncio.to_thread` does, whose threads the end of the process would wait for.
    context = copy_context()
    context.run(_waited_for.set, done)

    def tell(result: T | None, error: BaseException | None) -> None:
        # Nobody waits any more, and a canceled future takes no result.
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
            result = context.run(work, *args, **options)
        except StopIteration as error:  # no future accepts StopIteration
            failure = RuntimeError(repr(error))
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, result, failure)

    _threads.run(run)
    return await done


def nobody_waits() -> Callable[[], bool]:
    """Returns a function that says whether the caller of `in_thread` was canceled, in any thread."""
    waited_for = _waited_for.get()
    return lambda: waited_for is not None and waited_for.cancelled()


class _Threads:
    """A pool of idle threads, as starting a thread costs a tenth of a call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Thread] = []

    def run(self, work: Callable[[], None]) -> None:
        """Runs work, which does not raise, in an idle thread or a new one."""
        with self._lock:
            thread = self._idle.pop() if self._idle else None
        if thread is None:
            thread = _Thread(self)
            thread.start()
        thread.work.put(work)

    def add_idle(self, thread: _Thread) -> None:
        with self._lock:
            self._idle.append(thread)

    def remove_idle(self, thread: _Thread) -> bool:
        """Removes a thread that waited long enough; returns False if it just got work."""
        with self._lock:
            if thread not in self._idle:
                return False
            self._idle.remove(thread)
            return True


class _Thread(threading.Thread):
    def __init__(self, threads: _Threads) -> None:
        super().__init__(name="agent-tool", daemon=True)
        self.work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._threads = threads

    def run(self) -> None:
        while True:
            try:
                work = self.work.get(timeout=_KEPT_SECONDS)
            except queue.Empty:
                if self._threads.remove_idle(self):
                    return
                # `run` took it off the list at this moment, so the work is about to come.
                continue
            work()
            del work  # frees its arguments and result while this thread waits
            self._threads.add_idle(self)


_threads = _Threads()


def _forget_threads() -> None:
    global _threads
    _threads = _Threads()


in_forked_children(_forget_threads)
