"""The calls of ``knime-mcp batch``: made from rows, run at the same time, journaled, and written in order."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..audit.journal import JournalError, JournalWriteError
from ..runs.cell_arguments import (
    arguments_from_json,
    arguments_from_pairs,
    arguments_from_row,
    parameters_of,
    plan_columns,
)
from ..runs.in_order import run_batch
from ..runs.one_call import Call, CallOutcome, Dispatcher, failed_call
from ..runs.resuming import JournalAltered, to_resume
from ..tools.caller.results_layout import plan_results
from ..tools.caller.results_table import ResultsWriter
from ..tools.caller.run import EarlierRun
from ..tools.caller.summary import RunSummary
from ..types.column_kinds import ROW_ID
from ..types.columns import ColumnForm
from ..types.errors import ArgumentsInvalid, Canceled
from .errors import CommandError
from .files import JSON, TableFile, open_journal, writing
from .json_output import json_record
from .progress import batch_progress
from .terminal import one_line, show, table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from ..audit.journal import Journal, JournalContent
    from ..audit.table_formats import FileTable
    from ..runs.cell_arguments import ColumnPlan, Parameter
    from ..types.tool import MCPTool
    from .executors import CallExecutor
    from .sessions import Sessions

    Sink: TypeAlias = Callable[[CallOutcome], None]
    """Takes finished calls in the order of the rows."""


@dataclass(slots=True, kw_only=True)
class BatchRun:
    """A run of a tool over a table.

    Attributes:
        sessions: The connections.
        tool: The tool of all calls.
        parameters: The table.
        column: The column that holds all arguments as JSON; None for one column per argument.
        fail: Whether the first call that fails ends the run.
        journal_file: The journal for finished calls, or None.
        earlier_file: The journal of an earlier run whose results are used again, or None.
        summary: Counts of the calls' outcomes.
        canceled: Whether the person stopped the run.
    """

    sessions: Sessions
    tool: MCPTool
    parameters: FileTable
    column: str | None
    fail: bool
    journal_file: Path | None
    earlier_file: Path | None
    summary: RunSummary = field(init=False)
    canceled: bool = field(init=False, default=False)
    _known: dict[str, Parameter] = field(init=False)
    _plan: ColumnPlan = field(init=False)

    def __post_init__(self) -> None:
        columns = self.parameters.columns
        self._known = parameters_of(self.tool, columns)
        self._plan = plan_columns(self._known, columns)
        unmatched = self._plan.unmatched if self.column is None else ()
        self.summary = RunSummary(total=self.parameters.total, unmatched=unmatched)

    def execute(
        self, dispatcher: Dispatcher, executor: CallExecutor, out: Path | None, *, as_json: bool
    ) -> None:
        """Makes all calls and writes their outcomes.

        Args:
            dispatcher: The objects that all calls share.
            executor: Makes the calls.
            out: The file for the results, or None.
            as_json: Whether to print the records as JSON; without this and ``out`` a table is printed.

        Raises:
            CommandError: The journal to resume from cannot be read, or results cannot be written.
        """
        content = None if self.earlier_file is None else _content(self.earlier_file)
        earlier = None if content is None else EarlierRun(content.records, dispatcher)
        with ExitStack() as stack:
            sinks: list[Sink] = []
            if out is not None:
                is_json = out.suffix.lower() == JSON
                sinks.append(stack.enter_context(_json(out) if is_json else _table(out, self.parameters)))
            if as_json:
                sinks.append(stack.enter_context(_json(None)))
            elif out is None:
                sinks.append(stack.enter_context(_terminal()))
            journal = stack.enter_context(
                open_journal(
                    self.journal_file,
                    run=dispatcher.run,
                    about=f"knime-mcp batch {self.tool.route.display} {self.tool.tool_name}",
                    calls=self.summary.total,
                    follows="" if content is None else content.head,
                )
            )
            self._run(dispatcher, executor, sinks, journal, earlier)
            if journal is not None and self.summary.finished < self.summary.total:
                journal.close("canceled" if self.canceled else "failed")

    def _run(
        self,
        dispatcher: Dispatcher,
        executor: CallExecutor,
        sinks: list[Sink],
        journal: Journal | None,
        earlier: EarlierRun | None,
    ) -> None:
        def kept(outcome: CallOutcome) -> CallOutcome:
            return outcome if journal is None else replace(outcome, record=journal.append(outcome.record))

        def failed(call: Call, error: Exception) -> CallOutcome:
            if isinstance(error, JournalWriteError):
                raise error
            return kept(failed_call(call, error, dispatcher))

        def work(call: Call) -> CallOutcome:
            outcome = None if earlier is None else earlier.find(call)
            return kept(executor.make(call)) if outcome is None else outcome

        if earlier is not None:
            earlier.take_over(self._calls(), journal)
            self.summary.notes |= dict.fromkeys(earlier.notes)
        interrupt, stop = self.sessions.interrupt, self.sessions.stop
        with (
            batch_progress(self.summary.total) as progress,
            closing(
                run_batch(
                    self._calls(),
                    work,
                    failed=failed,
                    concurrency=executor.concurrency,
                    is_canceled=lambda: interrupt() or stop.is_set(),
                    on_cancel=stop.set,
                    on_finished=progress,
                )
            ) as results,  # calls in flight end before the journal is closed
        ):
            for outcome in results:
                self._take(outcome, sinks)
                if self.fail and not outcome.record.ok:
                    stop.set()  # calls in flight are canceled, and have rows
        self.canceled = interrupt() and self.summary.finished < self.summary.total
        why = Canceled("The run was stopped before this call")
        for call in self._calls(start=self.summary.statuses.total()):
            self._take(failed_call(call, why, dispatcher), sinks)

    def _take(self, outcome: CallOutcome, sinks: list[Sink]) -> None:
        self.summary.add(outcome)
        for add in sinks:
            add(outcome)

    def _calls(self, start: int = 0) -> Iterator[Call]:
        for number, row in enumerate(self.parameters.rows(start), start=start + 1):
            try:
                yield Call(tool=self.tool, arguments=self._arguments(row), input_row=str(number))
            except ArgumentsInvalid as error:
                yield Call(tool=self.tool, input_row=str(number), error=error)

    def _arguments(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.column is not None:
            return arguments_from_json(row[self.column], source=f"column '{self.column}'")
        if self.parameters.typed:
            return arguments_from_row(row, self._plan, self._known)
        cells = ((name, row[column]) for name, column in self._plan.arguments.items())
        return arguments_from_pairs([(name, text) for name, text in cells if text is not None], self._known)


def _content(file: Path) -> JournalContent:
    try:
        return to_resume(file)
    except JournalAltered as error:
        error.fix = "Restore the file; or leave out --resume, so that every call is made again"
        raise
    except JournalError as error:
        raise CommandError(f"{file} cannot be resumed from: {error}.") from None


@contextmanager
def _table(out: Path, parameters: FileTable) -> Generator[Sink]:
    """Opens the sink for a CSV or Parquet file with the columns of the node's output table."""
    import pyarrow as pa

    row_ids = pa.array([str(number + 1) for number in range(parameters.total)], pa.string())
    columns = dict(zip(parameters.columns, parameters.table.columns, strict=True))
    rows = pa.table({ROW_ID: row_ids, **columns})
    layout = plan_results(parameters.columns, form=ColumnForm.PORTABLE, images=False)
    with TableFile(out) as file:
        writer = ResultsWriter(layout, rows, file.write, equal=False)
        try:
            yield writer.add
        finally:
            writer.close()


@contextmanager
def _json(out: Path | None) -> Generator[Sink]:
    """Opens the sink for a JSON array of records, in a file or on standard output."""
    stream = sys.stdout if out is None else out.open("w", encoding="utf-8")
    comma = ""

    def write(text: str) -> None:
        with nullcontext() if out is None else writing(out):
            stream.write(text)

    def add(outcome: CallOutcome) -> None:
        nonlocal comma
        write(f"{comma}\n  {json.dumps(json_record(outcome.record), ensure_ascii=out is None)}")
        comma = ","

    write("[")
    try:
        yield add
    finally:
        write("\n]\n" if comma else "]\n")
        if out is not None:
            with writing(out):
                stream.close()


@contextmanager
def _terminal() -> Generator[Sink]:
    """Opens the sink for a table for people: row, status, and the beginning of the result."""
    rows: list[tuple[str, str, str]] = []

    def add(outcome: CallOutcome) -> None:
        record = outcome.record
        rows.append((record.input_row or "", record.status.value, one_line(record.result or record.error)))

    yield add
    show(table(None, ("row", "status", "result"), rows))
