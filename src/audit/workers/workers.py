"""Makes calls on the workers of any executor, and records them in this process.

Each call blocks its thread, so callers such as `run_batch` and `Replayer` use several threads for several
calls in flight. They handle order, limits, journal and cancellation in the same way as for local calls.
"""

from __future__ import annotations

import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast

from ...types.errors import MCPError
from ...types.tool import MCPTool
from ..dispatch import failed_call, recorded_call
from ..record import utc_text
from ..recording import save_blobs
from .errors import OutcomeUnknown, StoppedBefore, StoppedWithin, WorkersGone
from .process_workers import ProcessWorkers
from .remote_call import RemoteCall, remote_call

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..call import Call, CallOutcome, Dispatcher
    from ..record import CallRecord
    from .worker_sessions import Connect

_POLL_SECONDS: Final = 0.25
_FAREWELL_SECONDS: Final = 5.0
"""Time for a canceled call to return its outcome."""

# For these executors, `Future.cancel` fails for calls that have begun. Dask's executor cancels any call.
_KNOWS_WHAT_RUNS: Final = (ThreadPoolExecutor, ProcessPoolExecutor, ProcessWorkers)


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
    dispatcher: Dispatcher

    def recorded_call(self, call: Call) -> CallOutcome:
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

    def _remote(self, call: Call, tool: MCPTool) -> RemoteCall:
        shared = self.dispatcher
        return RemoteCall(
            call=call,
            tool=tool,
            connect=self.connect,
            run=shared.run,
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
            raise StoppedBefore()
        try:
            future = self.executor.submit(remote_call, remote)
        except RuntimeError as error:  # broken, or shut down
            raise WorkersGone(type(error).__name__) from None
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
            raise StoppedBefore() if known else StoppedWithin()
        if isinstance(self.executor, ProcessWorkers):
            self.executor.stop_calls()
        wait([future], timeout=_FAREWELL_SECONDS)
        if not future.done():
            raise StoppedWithin()

    def _is_canceled(self) -> bool:
        asked = self.dispatcher.is_canceled
        return asked is not None and asked()

    def _returned(self, call: Call, outcome: CallOutcome) -> CallOutcome:
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


def _named(error: BaseException) -> str:
    # The message may contain secrets; the name of a missing module is harmless and needed.
    if isinstance(error, ImportError) and error.name:
        return f"it has no module {error.name}"
    return type(error).__name__
