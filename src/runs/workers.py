"""Makes calls on the workers of any executor, and records them in this process.

Each call blocks its thread, so callers such as `run_batch` and `Replayer` use several threads for several
calls in flight. They handle order, limits, journal and cancellation in the same way as for local calls.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import threading
import time
from collections import Counter
from concurrent.futures import (
    Executor,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ..audit.secrets import HiddenSecrets
from ..client.protocol.tools import blobs_in
from ..types.errors import Canceled, MCPError
from ..types.texts import canonical_json
from ..types.tool import MCPTool
from .checked_calls import make_here
from .saved_files import save_blobs
from .worker_side import RemoteCall, StoppedWithin, WorkerLost, begin_process, remote_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Client

    from ..audit.record import CallRecord
    from ..audit.secrets import SecretMarker
    from .call_values import CallOutcome
    from .engine import CallInProgress
    from .worker_side import Connect


_POLL_SECONDS: Final = 0.25
_FAREWELL_SECONDS: Final = 5.0
"""Time for a canceled call to return its outcome."""
_DASK_SECONDS: Final = 2.0
"""Seconds between two looks at whether a Dask cluster still has workers."""
_WORKERLESS_SECONDS: Final = 20.0
"""Time in which a Dask cluster that lost its workers may get new ones: a nanny starts one in about three."""
P = ParamSpec("P")
R = TypeVar("R")
_MOST_LOST: Final = 5


class NoWorkers(MCPError):  # noqa: N818
    """All workers have ended, so a call was not made."""

    CODE = "KMCP-WORKERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Makes calls on workers: ``run.make = Workers(executor=…, connect=…).make``. Safe for several threads.

    A call whose worker is lost has failed, and the record says that it is unknown whether the call ran. It is
    repeated only if its tool is declared as read-only or idempotent.
    """

    # the executor. For Dask: `DaskWorkers`, because with Dask's own executor equal calls run only once, and a
    # call whose result is lost with its worker never ends.
    executor: Executor
    connect: Connect  # connects a worker to a server, and looks up credentials there; see `Connect`

    def make(self, call: CallInProgress) -> CallOutcome:
        """Makes a checked call on a worker, and waits for it; the outcome has errors of workers, too."""
        if not isinstance(call.tool, MCPTool):
            return make_here(call)
        try:
            return _completed(call, self._made(self.remote(call, call.tool), call))
        except MCPError as error:
            if not isinstance(error, WorkerLost | StoppedWithin):
                return call.run.not_made(call.plan, error, written=False)
            call.end()
            # The worker that knew how often it was sent is gone: once at least, so that nothing takes it
            # for unsent.
            call.attempts = 1
            return call.failed(error)

    def remote(self, call: CallInProgress, tool: MCPTool) -> RemoteCall:
        run = call.run
        return RemoteCall(
            call=replace(call.plan, tool=tool, arguments=call.arguments, input_row=call.input_row),
            tool=tool,
            connect=self.connect,
            run=run.id,
            salt=run.secrets.salt,
            named=run.secrets.named,
            blobs=run.save_blob is not None,
            idempotency_key=call.key,
        )

    def _made(self, remote: RemoteCall, call: CallInProgress) -> CallOutcome:
        is_canceled = call.is_canceled or _never
        try:
            return self._answer(remote, is_canceled)
        except WorkerLost:
            if is_canceled() or not remote.tool.may_repeat:
                raise
        return self._answer(remote, is_canceled)

    def _answer(self, remote: RemoteCall, is_canceled: Callable[[], bool]) -> CallOutcome:
        if is_canceled():
            raise _stopped_before()
        try:
            future = self.executor.submit(remote_call, remote)
        except RuntimeError as error:  # broken, or shut down
            raise NoWorkers(
                f"There is no worker any more ({type(error).__name__}), so the call was not made",
                fix="See why the workers ended, then resume the run",
            ) from None
        while not future.done():
            wait([future], timeout=_POLL_SECONDS)
            if not future.done() and is_canceled():
                self._stop(future)
        if future.cancelled():
            raise WorkerLost("The executor canceled the call")
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, MCPError):
            raise error
        raise WorkerLost(f"The worker of this call was lost ({_named(error)})")

    def _stop(self, future: Future[CallOutcome]) -> None:
        if future.cancel():
            known = isinstance(self.executor, _KNOWS_WHAT_RUNS)
            raise _stopped_before() if known else StoppedWithin()
        if isinstance(self.executor, ProcessWorkers):
            self.executor.stop_calls()
        wait([future], timeout=_FAREWELL_SECONDS)
        if not future.done():
            raise StoppedWithin()


def _completed(call: CallInProgress, outcome: CallOutcome) -> CallOutcome:
    """Completes a worker's outcome in this process: saves files, marks secrets known only here."""
    record = _without_secrets(outcome.record, call.run.secrets)
    if outcome.answer is not None and call.run.save_blob is not None:
        files, image = save_blobs(call.plan, blobs_in(outcome.answer.blocks), call.run.save_blob)
        record = replace(record, files=files, image=image)
    note = " ".join(filter(None, (call.note, outcome.note))) or None
    return replace(outcome, record=record, coercions=call.coercions, note=note, answer=None)


def _without_secrets(record: CallRecord, secrets: SecretMarker) -> CallRecord:
    hidden = HiddenSecrets.parse(record.secrets)
    in_answer, in_arguments = Counter(hidden.answer), dict(hidden.arguments)
    parts = ("result", "structured_result")
    texts: dict[str, str | None] = {part: secrets.data(getattr(record, part), in_answer) for part in parts}
    texts["error"] = record.error and secrets.text(record.error)
    if record.arguments is not None:
        arguments, found = secrets.marked(json.loads(record.arguments), by_name=False)
        if found:
            texts["arguments"], in_arguments = canonical_json(arguments), in_arguments | found
    hidden = HiddenSecrets(salt=secrets.salt.hex(), arguments=in_arguments, answer=in_answer)
    return replace(record, secrets=hidden.to_json(), **texts)


def _never() -> bool:
    return False


def _stopped_before() -> Canceled:
    return Canceled("The run was stopped before this call")


def _named(error: BaseException) -> str:
    # The message may contain secrets; the name of a missing module is harmless and needed.
    if isinstance(error, ImportError) and error.name:
        return f"it has no module {error.name}"
    return type(error).__name__


class ProcessWorkers(Executor):
    """A number of processes, each of which makes one call at a time.

    If a process dies, only its own call is lost; the next call gets a new process. After several deaths in a
    row without a finished call, no more calls are accepted.
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
        """Starts a call in the process with the fewest; `BrokenProcessPool` if too many died in a row."""
        with self._lock:
            if self._lost > max(_MOST_LOST, len(self._pools)):  # all of them may be killed at once
                raise BrokenProcessPool(f"{self._lost} processes died one after the other")
            place = min(range(len(self._pools)), key=self._busy.__getitem__)
            self._busy[place] += 1
            try:
                future = self._pools[place].submit(fn, *args, **kwargs)
            except BrokenProcessPool:
                # A pool that lost its process takes no more work;
                # the others, one process each, are not harmed.
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


class DaskWorkers(Executor):
    """The workers of a Dask cluster; `count` is the number of calls that may be waited for at once.

    Every call ends: Dask's own executor waits for ever if a finished result cannot be fetched, as its worker
    was killed meanwhile, or if there are no workers any more.
    """

    def __init__(self, client: Client, count: int) -> None:
        self._client: Any = client
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="mcp-dask")
        self._are_gone = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Starts a call on a worker; `RuntimeError` if all workers have gone and none came back."""
        if self._are_gone:
            raise RuntimeError("The Dask cluster has no workers")
        # Not `pure`: Dask would make one call of two equal ones. No retries:
        # a call may not be repeated by itself.
        task = self._client.submit(fn, *args, pure=False, retries=0, **kwargs)
        future: Future[R] = Future()
        future.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)
        self._threads.submit(self._follow, task, future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def _follow(self, task: Any, future: Future[Any]) -> None:
        """Hands the end of a task on; what Dask cannot tell for too long is unknown."""
        give_up = time.monotonic() + _WORKERLESS_SECONDS
        while not future.cancelled():
            try:
                end = partial(future.set_result, task.result(timeout=_DASK_SECONDS))
            except TimeoutError:  # of this wait: what a tool raises is an `MCPError`
                if not task.done() and self._has_workers():
                    give_up = time.monotonic() + _WORKERLESS_SECONDS
                if time.monotonic() < give_up:
                    continue
                self._are_gone = not task.done()
                task.cancel()  # a worker that comes back must not make it
                end = partial(future.set_exception, WorkerLost("The workers of this call are gone"))
            except BaseException as error:
                end = partial(future.set_exception, error)
            with contextlib.suppress(InvalidStateError):  # canceled meanwhile
                end()
            return

    def _has_workers(self) -> bool:
        try:
            return bool(self._client.scheduler_info()["workers"])
        except Exception:  # no scheduler: Dask has an error class of its own for each way to lose it
            return False


# For these executors, `Future.cancel` fails for calls that have begun. Dask's executor cancels any call.
_KNOWS_WHAT_RUNS: Final = (ThreadPoolExecutor, ProcessPoolExecutor, ProcessWorkers)
