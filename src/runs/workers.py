"""Makes calls on the workers of any executor, and records them in this process.

Each call blocks its thread, so callers such as `run_batch` and `Replayer` use several threads for several
calls in flight. They handle order, limits, journal and cancellation in the same way as for local calls.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, cast

from ..audit.record import utc_text
from ..types.errors import Canceled, MCPError
from ..types.tool import MCPTool
from .one_call import failed_call, recorded_call, save_blobs
from .worker_side import OutcomeUnknown, RemoteCall, StoppedWithin, begin_process, remote_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..audit.record import CallRecord
    from .engine import Run
    from .one_call import CallOutcome, PlannedCall
    from .worker_side import Connect


_POLL_SECONDS: Final = 0.25
_FAREWELL_SECONDS: Final = 5.0
"""Time for a canceled call to return its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Makes calls on workers. Safe to use from several threads.

    A call whose worker is lost has failed, and the record says that it is unknown whether the call ran. It is
    repeated only if its tool is declared as read-only or idempotent.

    Attributes:
        executor: The executor. For Dask: ``client.get_executor(pure=False, retries=0)``, because by default
            Dask runs equal calls only once.
        connect: Connects a worker to a server, and looks up credentials there; see `Connect`.
        dispatcher: The objects that the calls share in this process. Workflow tools run here.
    """

    executor: Executor
    connect: Connect
    dispatcher: Run

    def recorded_call(self, call: PlannedCall) -> CallOutcome:
        """Makes a call on a worker, and waits for it.

        Args:
            call: The call.

        Returns:
            The finished call. Errors are part of it, also errors of workers.
        """
        if call.error is not None or not isinstance(call.tool, MCPTool):
            return recorded_call(call, self.dispatcher)
        started, clock = datetime.now(UTC), time.perf_counter()
        try:
            return self._returned(call, self._make(self._remote(call, call.tool)))
        except MCPError as error:
            outcome = failed_call(call, error, self.dispatcher)
            if not isinstance(error, OutcomeUnknown | StoppedWithin):
                return outcome  # the call was not made
            duration = round(time.perf_counter() - clock, 6)
            record = replace(outcome.record, started_at=utc_text(started), duration=duration, attempts=1)
            return replace(outcome, record=record)

    def _remote(self, call: PlannedCall, tool: MCPTool) -> RemoteCall:
        shared = self.dispatcher
        return RemoteCall(
            call=call,
            tool=tool,
            connect=self.connect,
            run=shared.id,
            key=shared.secrets.key,
            pinning=shared.pinning,
            blobs=shared.save_blob is not None,
        )

    def _make(self, remote: RemoteCall) -> CallOutcome:
        try:
            return self._answer(remote)
        except OutcomeUnknown:
            if self._is_canceled() or not remote.tool.may_repeat:
                raise
        return self._answer(remote)

    def _answer(self, remote: RemoteCall) -> CallOutcome:
        if self._is_canceled():
            raise _stopped_before()
        try:
            future = self.executor.submit(remote_call, remote)
        except RuntimeError as error:  # broken, or shut down
            raise MCPError(
                f"There is no worker any more ({type(error).__name__}), so the call was not made",
                fix="See why the workers ended, then resume the run",
            ) from None
        while not future.done():
            wait([future], timeout=_POLL_SECONDS)
            if not future.done() and self._is_canceled():
                self._stop(future)
        if future.cancelled():
            raise OutcomeUnknown("The executor canceled the call")
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, MCPError):
            raise error
        raise OutcomeUnknown(f"The worker of this call was lost ({_named(error)})")

    def _stop(self, future: Future[CallOutcome]) -> None:
        if future.cancel():
            known = isinstance(self.executor, _KNOWS_WHAT_RUNS)
            raise _stopped_before() if known else StoppedWithin()
        if isinstance(self.executor, ProcessWorkers):
            self.executor.stop_calls()
        wait([future], timeout=_FAREWELL_SECONDS)
        if not future.done():
            raise StoppedWithin()

    def _is_canceled(self) -> bool:
        asked = self.dispatcher.is_canceled
        return asked is not None and asked()

    def _returned(self, call: PlannedCall, outcome: CallOutcome) -> CallOutcome:
        """Completes a worker's outcome in this process: saves files, marks secrets known only here."""
        record = self._scrubbed(outcome.record)
        if outcome.answer is not None:
            files, image = save_blobs(call, outcome.answer.blocks, self.dispatcher)
            record = replace(record, files=files, image=image)
        return replace(outcome, record=record, answer=None)

    def _scrubbed(self, record: CallRecord) -> CallRecord:
        scrub = self.dispatcher.secrets.scrub
        parts = ("arguments", "result", "structured_result", "error")
        texts = {part: cast("str | None", scrub(getattr(record, part))) for part in parts}
        return replace(record, **texts)


def _stopped_before() -> Canceled:
    return Canceled("The run was stopped before this call")


def _named(error: BaseException) -> str:
    # The message may contain secrets; the name of a missing module is harmless and needed.
    if isinstance(error, ImportError) and error.name:
        return f"it has no module {error.name}"
    return type(error).__name__


P = ParamSpec("P")
R = TypeVar("R")

_MOST_LOST: Final = 5


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
        return ProcessPoolExecutor(1, self._context, begin_process, (self._stop,))


# For these executors, `Future.cancel` fails for calls that have begun. Dask's executor cancels any call.
_KNOWS_WHAT_RUNS: Final = (ThreadPoolExecutor, ProcessPoolExecutor, ProcessWorkers)
