"""Processes of this machine as workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Event

P = ParamSpec("P")
R = TypeVar("R")

_MOST_LOST: Final = 5
_stop: Event | None = None


class ProcessWorkers(Executor):
    """A number of processes, each of which makes one call at a time.

    If a process dies, only its own call is lost; the next call gets a new process. After several deaths in a
    row without a finished call, no more calls are accepted.

    Args:
        count: Number of processes, at least 1.
    """

    def __init__(self, count: int) -> None:
        self._context = multiprocessing.get_context("spawn")  # a fork would share sockets and locks
        self._stop = self._context.Event()
        self._lock = threading.Lock()
        # One pool per process: a pool ends all its processes when one of them dies.
        self._pools = [self._pool() for _ in range(count)]
        self._busy = [0] * count
        self._lost = 0

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Starts a call in the process with the fewest calls.

        Raises:
            BrokenProcessPool: Too many processes died in a row.
        """
        with self._lock:
            if self._lost > max(_MOST_LOST, len(self._pools)):  # all of them may be killed at once
                raise BrokenProcessPool(f"{self._lost} processes died one after the other")
            place = min(range(len(self._pools)), key=self._busy.__getitem__)
            self._busy[place] += 1
            try:
                future = self._pools[place].submit(fn, *args, **kwargs)
            except BrokenProcessPool:
                self._pools[place].shutdown(wait=False)
                self._pools[place] = self._pool()
                future = self._pools[place].submit(fn, *args, **kwargs)

        def finished(future: Future[R]) -> None:
            lost = not future.cancelled() and isinstance(future.exception(), BrokenProcessPool)
            with self._lock:
                self._busy[place] -= 1
                self._lost = self._lost + 1 if lost else 0

        future.add_done_callback(finished)
        return future

    def stop_calls(self) -> None:
        """Cancels the running calls with MCP's cancel notification."""
        self._stop.set()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes, after their calls."""
        # In threads, as a pool that was shut down without waiting cannot be waited for later.
        with ThreadPoolExecutor(len(self._pools)) as threads:
            for pool in self._pools:
                threads.submit(pool.shutdown, wait, cancel_futures=cancel_futures)

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, self._context, _begin, (self._stop,))


def is_stopped() -> bool:
    """Returns, in a worker, whether the calls of the run are to stop."""
    return _stop is not None and _stop.is_set()


def _begin(stop: Any) -> None:
    """Initializes a worker process."""
    global _stop
    _stop = stop
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group; the parent decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="mcp-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
