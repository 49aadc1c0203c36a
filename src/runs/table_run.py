"""The calls of a table: made many at a time, recorded, counted, and handed on in the order of the rows.

The node *MCP Tool Caller* and ``knime-mcp batch`` are its users: they plan the calls, take the rows, and say
in their own words how the run ended.
"""

from __future__ import annotations

import queue
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from ..audit.journal import JournalWriteError
from ..audit.record import CallStatus
from ..client.clock import POLL_SECONDS
from ..types.errors import Canceled, TimedOut
from ..types.texts import beginning, counted, listed
from ..types.tool import WorkflowTool
from .checked_calls import described_tools

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

    from ..audit.journal_reading import JournalContent
    from ..audit.record import CallRecord
    from .argument_sources import PlannedCalls
    from .call_values import CallOutcome, PlannedCall
    from .engine import Run
    from .resuming import EarlierRun


T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 4  # finished results that may wait for a slower one, per call in flight
_SHOWN_TEXT: Final = 2000
_SHOWN_NOTES: Final = 5
_FEWER: Final = (
    "Calls ran out of time while others were under way: if the server makes one after the other, lower"
    " 'concurrency' (in nodes under 'Connection options')."
)


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
        calls: Taken from the iterable as they are started.
        work: Runs one call, in a thread of a pool.
        failed: Makes the result of a call from the exception that ``work`` raised.
        concurrency: How many calls may be in flight, at least 1.
        here: True for calls that must run in the calling thread instead; they run one by one.
        is_canceled: Called in the calling thread, at least every 0.25 s while it waits.
        on_cancel: Called once, when the batch is canceled or closed early, so that ``work`` can stop waiting.
        on_finished: Called in the calling thread with the number of finished calls.

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
                yield from self._first_result()

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

    def _first_result(self) -> tuple[R, ...]:
        """Takes the first call out, so that its arguments, which may be large, are free from now on."""
        call, future = self._window.popleft()
        self._ended.remove(future)
        if future.cancelled():
            return ()
        try:
            return (future.result(),)
        except Exception as error:
            return (self.failed(call, error),)


def _run_here(work: Callable[[T], R], call: T) -> Future[R]:
    future: Future[R] = Future()
    try:
        future.set_result(work(call))
    except Exception as error:
        future.set_exception(error)
    return future


RunEnding = Literal["complete", "failed", "canceled"]


@dataclass(slots=True, kw_only=True)
class TableRun:
    """A run over a table of parameters: the calls of `plan`, made by `run`.

    `stop` is set to make calls in flight end. With `fail`, the first failed call ends the run, and is kept as
    `failure`. `about` identifies runs with the same tool and settings among journals; `append` says whether
    the file may hold other runs, `earlier` is that of the interrupted run that is resumed. With
    `rows_for_unmade`, calls that were not made because the run ended have rows, too. `opened` tells whether
    the workflow was opened anew since.
    """

    plan: PlannedCalls
    run: Run
    stop: threading.Event
    concurrency: int
    fail: bool
    journal_file: Path | None
    about: str
    append: bool = False
    earlier: JournalContent | None = None
    rows_for_unmade: bool = False
    opened: str = ""
    summary: RunSummary = field(init=False)
    failure: CallOutcome | None = field(init=False, default=None)
    _resumed: EarlierRun | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.summary = RunSummary(self.plan.total)

    def make_calls(
        self,
        take: Callable[[CallOutcome], None],
        *,
        is_canceled: Callable[[], bool],
        on_finished: Callable[[int], None],
    ) -> RunEnding:
        """Makes all calls, and says how the run ended. Only a run that is complete cannot be resumed.

        Each finished call is handed to ``take`` in the order of the rows; all three functions are called in
        the calling thread. Raises `JournalError` if the file to append to is no journal, and
        `JournalWriteError` if the disk is full or the journal cannot be written for another reason.
        """
        if self.journal_file is not None:
            self.run.open_journal(
                self.journal_file,
                about=self.about,
                what={
                    "kind": "calls",
                    **({"opened": self.opened} if self.opened else {}),
                    "tools": described_tools([self.plan.tool]),
                    "settings": {
                        "concurrency": self.concurrency,
                        "ends_with_first_failure": self.fail,
                        "pinning": self.run.pinning.value,
                        "repeat_unknown": self.run.repeat_unknown,
                        "arguments": list(self.plan.values),
                    },
                },
                calls=self.plan.total,
                append=self.append,
                follows="" if self.earlier is None else self.earlier.head,
                after=None if self.earlier is None or not self.append else self.earlier.chain,
            )
        results = run_batch(
            self.plan.calls(),
            self._work,
            failed=self._failed,
            concurrency=self.concurrency,
            here=_runs_here,
            is_canceled=lambda: self.stop.is_set() or is_canceled(),
            on_cancel=self.stop.set,
            on_finished=on_finished,
        )
        # Calls in flight end before the journal is closed.
        with self.run, closing(results):
            if self.earlier is not None:
                from .resuming import EarlierRun

                self._resumed = EarlierRun(self.earlier, self.run)
                # Before the first call: if this run is interrupted, too, its journal has them.
                self._resumed.take_over(self.plan.calls())
            for outcome in results:
                self._take(outcome, take)
                if self.fail and not outcome.record.ok and not self.stop.is_set():
                    self.failure = outcome
                    self.stop.set()
            if self._resumed is not None and (warning := self._resumed.warning()):
                self.summary.notes[warning] = None
            ending = self._ending(is_canceled())
            if self.rows_for_unmade:
                unmade = Canceled("The run was stopped before this call")
                for call in self.plan.calls(start=self.summary.statuses.total()):
                    self._take(self.run.not_made(call, unmade, written=False), take)
            self.run.close(ending)
        return ending

    def _work(self, call: PlannedCall) -> CallOutcome:
        taken = None if self._resumed is None else self._resumed.find(call)
        if taken is not None:
            return taken
        outcome = self.run.call(call)
        if isinstance(outcome.error, TimedOut) and self.concurrency > 1 and self.plan.total > 1:
            self.summary.overran = True
        # Rows are made of records. Outcomes that wait for a slower one would keep their answers in memory.
        return replace(outcome, answer=None, error=None)

    def _failed(self, call: PlannedCall, error: Exception) -> CallOutcome:
        if isinstance(error, JournalWriteError):
            raise error
        return self.run.not_made(call, error)

    def _take(self, outcome: CallOutcome, take: Callable[[CallOutcome], None]) -> None:
        self.summary.add(outcome)
        take(outcome)

    def _ending(self, canceled: bool) -> RunEnding:
        if self.failure is not None:
            return "failed"
        # A host that cancels throws the rows away: the calls are kept for the next run, even if all are done.
        if self.summary.statuses[CallStatus.UNKNOWN]:
            return "failed"  # so that it can be gone on with when somebody has found out
        is_lost = (canceled or self.stop.is_set()) and not self.rows_for_unmade
        return "canceled" if is_lost or self.summary.finished < self.plan.total else "complete"


def _runs_here(call: PlannedCall) -> bool:
    # KNIME runs workflow tools only in the thread that executes the node.
    return isinstance(call.tool, WorkflowTool)


@dataclass(slots=True)
class RunSummary:
    """Counts and examples of a run."""

    total: int  # the number of calls to make
    # the number of calls by status
    statuses: Counter[CallStatus] = field(default_factory=Counter[CallStatus])
    first_failure: CallRecord | None = None  # the first call without a result, without its large texts
    unmatched: tuple[str, ...] = ()  # columns of the parameter table that match no parameter
    coerced: int = 0  # calls whose arguments were converted
    first_coercion: str = ""  # the conversion in the first of these calls, in words
    notes: dict[str, None] = field(default_factory=dict[str, None])  # further warnings, each once
    overran: bool = False  # whether a call ran out of time while others were under way
    resumed: int = 0  # calls that were taken over from an earlier run
    # names of the calls of which nobody knows whether they were carried out
    unknown: list[str] = field(default_factory=list[str])

    @property
    def failed(self) -> int:
        """The number of calls without a result."""
        return self.statuses.total() - self.statuses[CallStatus.OK]

    @property
    def finished(self) -> int:
        """The number of calls that ended before the run was canceled."""
        return self.statuses.total() - self.statuses[CallStatus.CANCELED]

    def add(self, outcome: CallOutcome) -> None:
        """Adds the next finished call, in the order of the rows."""
        record = outcome.record
        self.statuses[record.status] += 1
        if self.first_failure is None and not record.ok:
            error = None if record.error is None else beginning(record.error, _SHOWN_TEXT)
            self.first_failure = record.but(
                tool=None, arguments=None, result=None, structured_result=None, error=error
            )
        if outcome.coercions:
            self.coerced += 1
            self.first_coercion = self.first_coercion or outcome.coercions[0]
        if outcome.note:
            self.notes[outcome.note] = None
        if record.resumed_from:
            self.resumed += 1
        if record.status is CallStatus.UNKNOWN:
            self.unknown.append(record.named)

    def warning(self) -> str | None:
        """All warnings in one text; None without warnings."""
        return " ".join(self.warnings()) or None

    def warnings(self) -> list[str]:
        """All warnings, one sentence each."""
        sentences = [self._failures(self.first_failure)] if self.first_failure is not None else []
        sentences += [_FEWER] if self.overran else []
        if self.unknown and self.total > 1:
            calls = counted(len(self.unknown), "call")
            sentences.append(f"{calls} may have been carried out, nobody knows: {listed(self.unknown)}.")
        if self.unmatched:
            columns = "the column" if len(self.unmatched) == 1 else "the columns"
            named = listed(f"'{name}'" for name in self.unmatched)
            sentences.append(f"No tool has a parameter for {columns} {named}: not sent.")
        if self.coerced:
            sentences.append(
                f"Converted arguments of {counted(self.coerced, 'call')}: {self.first_coercion}."
            )
        sentences += [f"{note.rstrip('.')}." for note in islice(self.notes, _SHOWN_NOTES)]
        if len(self.notes) > _SHOWN_NOTES:
            sentences.append(f"And {len(self.notes) - _SHOWN_NOTES} more of this kind.")
        return sentences

    def _failures(self, first: CallRecord) -> str:
        name = first.tool_name or ""
        tool = "" if name in (first.error or "") else f"tool {name}, "  # the error may name it already
        where = tool + (f"row {first.input_row}, " if first.input_row is not None else "")
        if self.total == 1:
            return f"The call failed: {first.error or first.status.value}"
        return (
            f"{self.failed} of {self.total} calls failed; first: {where}{first.error or first.status.value}"
        )
