"""Runs the calls of the Caller: many at a time, with a journal, and results in the order of the rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ...audit.journal import SUFFIX, Journal, JournalWriteError
from ...audit.record import CallStatus
from ...audit.secrets import without_digests
from ...runs.in_order import run_batch
from ...runs.one_call import Call, CallOutcome, Dispatcher, failed_call, recorded_call
from ...runs.resuming import latest_to_resume, repeated_calls
from ...types.canonical import canonical_json
from ...types.errors import Canceled, MCPError
from ...types.tool import MCPTool, WorkflowTool

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Generator, Iterable, Sequence
    from pathlib import Path

    from ...audit.record import CallRecord
    from ...runs.parameter_table import CallPlan
    from .summary import RunSummary

JOURNALS: Final = "mcp-audit"
_UNANSWERED: Final = frozenset({CallStatus.FAILED, CallStatus.CANCELED})


@dataclass(slots=True, kw_only=True)
class CallerRun:
    """A run of the Caller.

    Attributes:
        plan: The calls.
        dispatcher: Makes each call and its record.
        summary: Counts every finished call.
        stop: Set to make calls in flight end.
        folder: The workflow's data area.
        about: Identifies the runs of the same node among the journals in that folder.
        concurrency: The number of calls that may be in flight.
        fail: True if the first failed call ends the run.
        resume: True to reuse the results of calls that an interrupted run finished.
        head: Hash of the last call in the journal; "" before the first call.
    """

    plan: CallPlan
    dispatcher: Dispatcher
    summary: RunSummary
    stop: threading.Event
    folder: Path
    about: str
    concurrency: int
    fail: bool
    resume: bool
    head: str = field(init=False, default="")

    def run(
        self,
        write: Callable[[CallOutcome], None],
        *,
        is_canceled: Callable[[], bool],
        on_finished: Callable[[int], None],
    ) -> None:
        """Runs all calls.

        Args:
            write: Called with each finished call, in the order of the rows.
            is_canceled: Called in the calling thread.
            on_finished: Called in the calling thread with the number of finished calls.

        Raises:
            Canceled: The run was canceled; the message names the journal.
            MCPError: A call failed and `fail` is set; the message names the journal.
            JournalWriteError: The disk is full, or the journal cannot be written for another reason.
        """
        journals = self.folder / JOURNALS
        interrupted = latest_to_resume(journals, self.about) if self.resume else None
        earlier = None if interrupted is None else EarlierRun(interrupted.records, self.dispatcher)
        journal = Journal(
            journals / f"{self.dispatcher.run}{SUFFIX}",
            run=self.dispatcher.run,
            about=self.about,
            calls=self.plan.total,
            follows="" if interrupted is None else interrupted.head,
        )

        def work(call: Call) -> CallOutcome:
            taken = None if earlier is None else earlier.find(call)
            if taken is not None:
                return taken
            outcome = recorded_call(call, self.dispatcher)
            return replace(outcome, record=journal.append(outcome.record))

        def failed(call: Call, error: Exception) -> CallOutcome:
            if isinstance(error, JournalWriteError):
                raise error
            outcome = failed_call(call, error, self.dispatcher)
            return replace(outcome, record=journal.append(outcome.record))

        results = run_batch(
            self.plan.calls(),
            work,
            failed=failed,
            concurrency=self.concurrency,
            here=_runs_here,
            is_canceled=is_canceled,
            on_cancel=self.stop.set,
            on_finished=on_finished,
        )
        with journal, closing(results):
            if earlier is not None:
                earlier.take_over(self.plan.calls(), journal)
                self.summary.notes |= dict.fromkeys(earlier.notes)
            self._take(results, write, journal)
            self.head = journal.head
            if self.stop.is_set() or is_canceled():
                journal.close("canceled")
                raise self._canceled(journal)

    def _take(
        self,
        results: Generator[CallOutcome, None, None],
        write: Callable[[CallOutcome], None],
        journal: Journal,
    ) -> None:
        for outcome in results:
            self.summary.add(outcome)
            write(outcome)
            if self.fail and not outcome.record.ok and not self.stop.is_set():
                results.close()  # ends the calls in flight first, as the message counts the journal's calls
                journal.close("failed")
                raise self._failure(outcome, journal)

    def _failure(self, outcome: CallOutcome, journal: Journal) -> MCPError:
        record = outcome.record
        text = record.error or record.status.value
        if isinstance(outcome.error, MCPError):
            what = text  # already names the place and the advice
        else:
            row = f" in row {record.input_row}" if record.input_row is not None else ""
            what = f"Tool {record.tool_name or 'unknown'} failed{row}: {text}"
        if self.plan.total == 1:
            return MCPError(what)
        return MCPError(
            what,
            fix=f"{journal.count} of {self.plan.total} calls are kept in {journal.path}. To go on with the "
            "others, correct the row or set 'If a call fails' to 'Make an error row', switch on 'Resume an "
            "interrupted run', and execute again",
        )

    def _canceled(self, journal: Journal) -> Canceled:
        return Canceled(
            f"Canceled after {self.summary.finished} of {self.plan.total} calls",
            fix=f"The finished calls are kept in {journal.path}. Switch on 'Resume an interrupted run' and "
            "execute again to make only the others",
        )


class EarlierRun:
    """The calls that an interrupted run finished.

    Only calls with a result count: failed calls are made again.

    Args:
        records: All records of the interrupted run.
        dispatcher: The dispatcher of the present run.

    Attributes:
        notes: Warnings about calls that were sent and got no result, and may have run.
    """

    def __init__(self, records: Sequence[CallRecord], dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._records = {_key_of(record): record for record in records if record.ok}
        self._taken: dict[tuple[str | None, ...], CallRecord] = {}
        unanswered = (record for record in records if record.status in _UNANSWERED)
        again = repeated_calls(record for record in unanswered if _key_of(record) not in self._records)
        self.notes = (_repeat_warning(again),) if again else ()

    def take_over(self, calls: Iterable[Call], journal: Journal | None) -> None:
        """Copies the results of the interrupted run for calls with the same row, tool and arguments.

        Must run before the first call, so that the journal of this run has them if it is interrupted, too.

        Args:
            calls: The calls to make.
            journal: The journal for the records of the finished calls; None to write none.

        Raises:
            JournalWriteError: The journal could not be written.
        """
        run = self._dispatcher.run
        for call in calls if self._records else ():
            key = self._key(call)
            earlier = None if key is None else self._records.pop(key, None)
            if key is not None and earlier is not None:
                record = replace(earlier, run=run, resumed_from=earlier.resumed_from or earlier.run)
                self._taken[key] = record if journal is None else journal.append(record)

    def find(self, call: Call) -> CallOutcome | None:
        """The outcome of the call in the earlier run; None if it was not taken over."""
        key = self._key(call) if self._taken else None
        record = None if key is None else self._taken.get(key)
        return None if record is None else CallOutcome(record=record, tool=call.tool)

    def _key(self, call: Call) -> tuple[str | None, ...] | None:
        if call.tool is None or call.error is not None:
            return None
        server = call.tool.route.display if isinstance(call.tool, MCPTool) else None
        return (call.input_row, call.tool.name, server, self._arguments(call))

    def _arguments(self, call: Call) -> str | None:
        from ...client.validation.argument_checks import ArgumentValidator

        assert call.tool is not None
        arguments: dict[str, Any] = dict(call.arguments or {})
        try:
            if isinstance(call.tool, MCPTool):  # the journal has the arguments after their conversion
                arguments, _ = ArgumentValidator.for_schema(call.tool.schema_json).check(arguments)
            marked = self._dispatcher.secrets.mark(arguments, call.tool.schema_json)
            return without_digests(canonical_json(marked))
        except (MCPError, ValueError, TypeError):
            return None


def _repeat_warning(calls: str) -> str:
    return (
        f"The interrupted run had sent these calls, and got no result: {calls}; if they are made again, look"
        " at whether their effects are there twice"
    )


def _key_of(record: CallRecord) -> tuple[str | None, ...]:
    arguments = None if record.arguments is None else without_digests(record.arguments)
    return (record.input_row, record.tool_name, record.server, arguments)


def _runs_here(call: Call) -> bool:
    # KNIME runs workflow tools only in the thread that executes the node.
    return isinstance(call.tool, WorkflowTool)
