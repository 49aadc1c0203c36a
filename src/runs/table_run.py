"""The calls of a table: made many at a time, recorded, counted, and handed on in the order of the rows.

The node *MCP Tool Caller* and ``knime-mcp batch`` are its users: they plan the calls, take the rows, and say
in their own words how the run ended.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from ..audit.journal import Journal, JournalWriteError
from ..audit.record import CallStatus
from ..types.errors import Canceled
from ..types.short_texts import beginning, counted
from ..types.tool import WorkflowTool
from .in_order import run_batch
from .one_call import failed_call

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ..audit.journal import JournalContent
    from ..audit.record import CallRecord
    from ..types.tool import Tool
    from .engine import Run
    from .one_call import CallOutcome, PlannedCall
    from .parameter_table import PlannedCalls
    from .resuming import EarlierRun

RunEnding = Literal["complete", "failed", "canceled"]
_SHOWN_CALLS: Final = 50
_SHOWN_TEXT: Final = 2000
_SHOWN_NAMES: Final = 8
_SHOWN_NOTES: Final = 5


@dataclass(slots=True, kw_only=True)
class TableRun:
    """A run over a table of parameters.

    Attributes:
        plan: The calls.
        shared: What the calls share.
        stop: Set to make calls in flight end.
        concurrency: The number of calls that may be in flight.
        fail: True if the first failed call ends the run.
        journal_file: The file for the records; None for none.
        about: Identifies runs with the same tool and settings among journals.
        append: Whether the file may hold other runs.
        earlier: The journal of the interrupted run that is resumed, None to make all calls.
        rows_for_unmade: Whether calls that were not made because the run ended have rows, too.
        summary: Counts every finished call.
        failure: The call that ended the run, None if none did.
    """

    plan: PlannedCalls
    shared: Run
    stop: threading.Event
    concurrency: int
    fail: bool
    journal_file: Path | None
    about: str
    append: bool = False
    earlier: JournalContent | None = None
    rows_for_unmade: bool = False
    summary: RunSummary = field(init=False)
    failure: CallOutcome | None = field(init=False, default=None)
    _resumed: EarlierRun | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.summary = RunSummary(self.plan.total)

    def run(
        self,
        take: Callable[[CallOutcome], None],
        *,
        is_canceled: Callable[[], bool],
        on_finished: Callable[[int], None],
    ) -> RunEnding:
        """Makes all calls.

        Args:
            take: Called with each finished call, in the order of the rows.
            is_canceled: Whether the person wants to stop; called in the calling thread.
            on_finished: Called in the calling thread with the number of finished calls.

        Returns:
            How the run ended. Only a run that is complete cannot be resumed.

        Raises:
            JournalError: The file to append to is not a journal.
            JournalWriteError: The disk is full, or the journal cannot be written for another reason.
            OSError: The journal cannot be opened.
        """
        journal = nullcontext() if self.journal_file is None else self._opened(self.journal_file)
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
        with journal, closing(results):
            if self.earlier is not None:
                from .resuming import EarlierRun

                self._resumed = EarlierRun(self.earlier.records, self.shared)
                # Before the first call: if this run is interrupted, too, its journal has them.
                self._resumed.take_over(self.plan.calls(), self.journal)
                self.summary.notes |= dict.fromkeys(self._resumed.notes)
            for outcome in results:
                self._take(outcome, take)
                if self.fail and not outcome.record.ok and not self.stop.is_set():
                    self.failure = outcome
                    self.stop.set()
            ending = self._ending(is_canceled())
            if self.rows_for_unmade:
                unmade = Canceled("The run was stopped before this call")
                for call in self.plan.calls(start=self.summary.statuses.total()):
                    self._take(failed_call(call, unmade, self.shared), take)
            if self.journal is not None:
                self.journal.close(ending)
        return ending

    def _opened(self, file: Path) -> Journal:
        follows = "" if self.earlier is None else self.earlier.head
        return self.shared.open_journal(
            file, about=self.about, calls=self.plan.total, append=self.append, follows=follows
        )

    @property
    def journal(self) -> Journal | None:
        """The journal, once the run has begun."""
        return self.shared.journal

    def _work(self, call: PlannedCall) -> CallOutcome:
        taken = None if self._resumed is None else self._resumed.find(call)
        return self.shared.call(call) if taken is None else taken

    def _failed(self, call: PlannedCall, error: Exception) -> CallOutcome:
        if isinstance(error, JournalWriteError):
            raise error
        return self.shared.not_made(call, error)

    def _take(self, outcome: CallOutcome, take: Callable[[CallOutcome], None]) -> None:
        self.summary.add(outcome)
        take(outcome)

    def _ending(self, canceled: bool) -> RunEnding:
        if self.failure is not None:
            return "failed"
        # A host that cancels throws the rows away: the calls are kept for the next run, even if all are done.
        is_lost = (canceled or self.stop.is_set()) and not self.rows_for_unmade
        return "canceled" if is_lost or self.summary.finished < self.plan.total else "complete"


def _runs_here(call: PlannedCall) -> bool:
    # KNIME runs workflow tools only in the thread that executes the node.
    return isinstance(call.tool, WorkflowTool)


@dataclass(slots=True)
class RunSummary:
    """Counts and examples of a run.

    Attributes:
        total: The number of calls to make.
        statuses: The number of calls by status.
        failures: The first calls without a result.
        successes: The first calls with a result.
        tools: The tools that were called.
        unmatched: Columns of the parameter table that match no parameter.
        coerced: Calls whose arguments were converted.
        first_coercion: The conversion in the first of these calls, in words.
        notes: Further warnings, each once.
        resumed: Calls that were taken over from an earlier run.
        unfit: Structured values that did not fit their column.
        absent: Properties with a structured column that no structured result had.
        properties: Some properties that structured results had.
    """

    total: int
    statuses: Counter[CallStatus] = field(default_factory=Counter[CallStatus])
    failures: list[CallRecord] = field(default_factory=list["CallRecord"])
    successes: list[CallRecord] = field(default_factory=list["CallRecord"])
    tools: dict[tuple[str | None, str], Tool] = field(default_factory=dict[tuple["str | None", str], "Tool"])
    unmatched: tuple[str, ...] = ()
    coerced: int = 0
    first_coercion: str = ""
    notes: dict[str, None] = field(default_factory=dict[str, None])
    resumed: int = 0
    unfit: int = 0
    absent: Iterable[str] = ()
    properties: Iterable[str] = ()

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
        examples = self.successes if record.ok else self.failures
        if len(examples) < _SHOWN_CALLS:
            examples.append(_short(record))
        if outcome.tool is not None:
            self.tools.setdefault((record.server, outcome.tool.name), outcome.tool)
        if outcome.coercions:
            self.coerced += 1
            self.first_coercion = self.first_coercion or outcome.coercions[0]
        if outcome.note:
            self.notes[outcome.note] = None
        if record.resumed_from:
            self.resumed += 1

    def warning(self) -> str | None:
        """All warnings, one sentence each; None without warnings."""
        sentences = [self._failures()] if self.failed else []
        if self.unmatched:
            columns = "the column" if len(self.unmatched) == 1 else "the columns"
            sentences.append(f"No tool has a parameter for {columns} {_listed(self.unmatched)}: not sent.")
        if self.coerced:
            sentences.append(
                f"Converted arguments of {counted(self.coerced, 'call')}: {self.first_coercion}."
            )
        sentences += [f"{note.rstrip('.')}." for note in islice(self.notes, _SHOWN_NOTES)]
        if len(self.notes) > _SHOWN_NOTES:
            sentences.append(f"And {len(self.notes) - _SHOWN_NOTES} more of this kind.")
        if self.unfit:
            values = counted(self.unfit, "structured value")
            sentences.append(f"Missing, because they did not fit the type of their column: {values}.")
        if self.absent and self.statuses[CallStatus.OK]:
            there = f"there are {_listed(sorted(self.properties))}"
            there = there if self.properties else "all there is stands in 'Result'"
            sentences.append(f"No structured result has {_listed(self.absent)}; {there}.")
        return " ".join(sentences) or None

    def _failures(self) -> str:
        first = self.failures[0]
        where = f"row {first.input_row}, " if first.input_row is not None else ""
        if self.total == 1:
            return f"The call failed: {first.error or first.status.value}"
        return (
            f"{self.failed} of {self.total} calls failed; first: {where}{first.error or first.status.value}"
        )


def _short(record: CallRecord) -> CallRecord:
    """The record without the tool, and with long texts cut to what the view shows."""
    return replace(
        record,
        tool=None,
        arguments=_cut(record.arguments),
        result=_cut(record.result),
        structured_result=_cut(record.structured_result),
        error=_cut(record.error),
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else beginning(text, _SHOWN_TEXT)


def _listed(names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    more = [f"and {len(quoted) - _SHOWN_NAMES} more"] if len(quoted) > _SHOWN_NAMES else []
    return ", ".join(quoted[:_SHOWN_NAMES] + more)
