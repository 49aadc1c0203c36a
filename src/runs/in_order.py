"""Runs many calls at a time, up to a given number, and gives their results in the order of the input.

Results are yielded one by one. Besides the calls in flight, only the few results are held that wait for a
slower call before them, so that memory does not grow with the number of calls. A failed call is a result like
any other. This module knows neither KNIME nor MCP.
"""

from __future__ import annotations

import queue
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

POLL_SECONDS = 0.25
_AHEAD = 4  # finished results that may wait for a slower one, per call in flight


def run_batch(
    calls: Iterable[T],
    work: Callable[[T], R],
    *,
    failed: Callable[[T, Exception], R],
    concurrency: int,
    here: Callable[[T], bool] | None = None,
    is_canceled: Callable[[], bool] | None = None,
    on_cancel: Callable[[], None] | None = None,
    on_finished: Callable[[int], None] | None = None,
) -> Generator[R, None, None]:
    """Runs calls concurrently and yields their results in the order of the calls.

    Closing the iterator stops the batch as canceling does: no further call is started, ``on_cancel`` is
    called, and the calls in flight are awaited.

    Args:
        calls: The calls, taken from the iterable as they are started.
        work: Runs one call, in a thread of a pool.
        failed: Makes the result of a call from the exception that ``work`` raised.
        concurrency: How many calls may be in flight, at least 1.
        here: True for calls that must run in the calling thread instead; they run one by one.
        is_canceled: Called in the calling thread, at least every 0.25 s while it waits.
        on_cancel: Called once, when the batch is canceled or closed early, so that ``work`` can stop waiting.
        on_finished: Called after each call, in the calling thread, with the number of finished calls.

    Yields:
        One result per started call; after a cancellation there are fewer results than calls.
    """
    batch = _Batch(work, failed, concurrency, here, is_canceled, on_cancel, on_finished)
    with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="mcp-call") as pool:
        try:
            yield from batch.run(iter(calls), pool)
        finally:
            batch.stop()  # before the pool is joined


@dataclass(slots=True)
class _Batch(Generic[T, R]):
    """The started calls whose results were not yielded yet, in order."""

    work: Callable[[T], R]
    failed: Callable[[T, Exception], R]
    concurrency: int
    here: Callable[[T], bool] | None
    is_canceled: Callable[[], bool] | None
    on_cancel: Callable[[], None] | None
    on_finished: Callable[[int], None] | None
    _window: deque[tuple[T, Future[R]]] = field(default_factory=deque["tuple[T, Future[R]]"])
    # Finished calls report here: polling all futures would take longer the more calls are in flight.
    _reports: queue.SimpleQueue[Future[R]] = field(default_factory=queue.SimpleQueue["Future[R]"])
    # Calls in the window whose report was read.
    _ended: set[Future[R]] = field(default_factory=set["Future[R]"])
    _in_flight: int = 0
    _finished: int = 0
    _told: int = 0
    _stopped: bool = False

    def run(self, calls: Iterator[T], pool: ThreadPoolExecutor) -> Iterator[R]:
        more = True
        while more or self._window:
            if self.is_canceled is not None and self.is_canceled():
                self.stop()
            more = more and not self._stopped and self._fill(calls, pool)
            self._read_reports()
            if self._finished > self._told:
                self._told = self._finished
                if self.on_finished is not None:
                    self.on_finished(self._finished)
            while self._window and self._window[0][1] in self._ended:
                call, future = self._window.popleft()
                self._ended.remove(future)
                if not future.cancelled():
                    yield self._result(call, future)

    def stop(self) -> None:
        """Starts no more calls and tells those in flight to stop; does nothing after the last result."""
        if self._stopped or not self._window:
            self._stopped = True
            return
        self._stopped = True
        for _, future in self._window:
            future.cancel()
        if self.on_cancel is not None:
            self.on_cancel()

    def _fill(self, calls: Iterator[T], pool: ThreadPoolExecutor) -> bool:
        """Starts calls while there is room. Returns whether there may be more calls."""
        while self._in_flight < self.concurrency and len(self._window) < self.concurrency * _AHEAD:
            try:
                call = next(calls)
            except StopIteration:
                return False
            here = self.here is not None and self.here(call)
            future = _run_here(self.work, call) if here else pool.submit(self.work, call)
            self._window.append((call, future))
            self._in_flight += 1
            future.add_done_callback(self._reports.put)
            if here:
                return True
        return True

    def _read_reports(self) -> None:
        """Collects finished calls; waits for the next one, or until the cancel button must be checked."""
        wait = bool(self._window) and self._window[0][1] not in self._ended
        while True:
            try:
                future = self._reports.get(wait, POLL_SECONDS)
            except queue.Empty:
                return
            wait = False
            self._ended.add(future)
            self._in_flight -= 1
            self._finished += not future.cancelled()

    def _result(self, call: T, future: Future[R]) -> R:
        try:
            return future.result()
        except Exception as error:
            return self.failed(call, error)


def _run_here(work: Callable[[T], R], call: T) -> Future[R]:
    future: Future[R] = Future()
    try:
        future.set_result(work(call))
    except Exception as error:
        future.set_exception(error)
    return future
