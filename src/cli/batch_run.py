"""The calls of ``knime-mcp batch``: made from rows, run side by side, journaled, written in order."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..audit.dispatch import Call, CallOutcome, Dispatcher, failed_call
from ..audit.journal import JournalError, JournalWriteError
from ..audit.resume import to_resume
from ..tools.caller.batch import run_batch
from ..tools.caller.mapping import (
    arguments_from_json,
    arguments_from_pairs,
    arguments_from_row,
    parameters_of,
    plan_columns,
)
from ..tools.caller.results_layout import plan_results
from ..tools.caller.results_table import ResultsWriter
from ..tools.caller.run import EarlierRun
from ..tools.caller.summary import RunSummary
from ..types.columns import ColumnForm
from ..types.errors import ArgumentsInvalid, Canceled
from .exits import CommandError
from .files import open_journal, writing
from .progress import BatchProgress
from .tables import TableFile, json_record
from .terminal import one_line, show, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from ..audit.journal import Journal, JournalContent
    from ..types.tool import MCPTool
    from .executors import CallExecutor
    from .parameters import Parameters
    from .sessions import Sessions

    Sink: TypeAlias = Callable[[CallOutcome], None]
    """Takes finished calls in the order of the rows."""


class BatchRun:
    """One run over a table.

    Args:
        sessions: The connections.
        tool: The tool of all calls.
        parameters: The table.
        column: The column that holds all arguments as JSON; None for one column per argument.
        fail: Whether the first call that fails ends the run.
        journal_file: Where finished calls are written as they finish, or None.
        earlier_file: The journal of an earlier run whose results are taken over, or None.

    Attributes:
        summary: What became of the calls.
        canceled: Whether the person stopped the run.
    """

    def __init__(
        self,
        sessions: Sessions,
        tool: MCPTool,
        parameters: Parameters,
        column: str | None,
        *,
        fail: bool,
        journal_file: Path | None,
        earlier_file: Path | None,
    ) -> None:
        self.summary = RunSummary(total=len(parameters.rows))
        self.canceled = False
        self._fail = fail
        self._journal_file = journal_file
        self._earlier_file = earlier_file
        self._sessions = sessions
        self._tool = tool
        self._parameters = parameters
        self._column = column
        self._known = parameters_of(tool)
        self._plan = plan_columns(self._known, parameters.columns)
        if column is None:
            self.summary.unmatched = self._plan.unmatched

    def execute(
        self, dispatcher: Dispatcher, executor: CallExecutor, out: Path | None, *, as_json: bool
    ) -> None:
        """Makes all calls and writes what becomes of them.

        Args:
            dispatcher: What the calls share.
            executor: Who makes them.
            out: The file for the results, or None.
            as_json: Whether to print the records as JSON; without this and ``out`` a table is printed.

        Raises:
            CommandError: The journal to resume from cannot be read.
        """
        content = None if self._earlier_file is None else _content(self._earlier_file)
        earlier = None if content is None else EarlierRun(content.records, dispatcher)
        with ExitStack() as stack:
            sinks: list[Sink] = []
            if out is not None:
                sinks.append(stack.enter_context(_file_sink(out, self._parameters)).add)
            if as_json:
                sinks.append(stack.enter_context(_JsonSink(None)).add)
            elif out is None:
                sinks.append(stack.enter_context(_TerminalSink()).add)
            journal = stack.enter_context(
                open_journal(
                    self._journal_file,
                    run=dispatcher.run,
                    about=f"knime-mcp batch {self._tool.route.display} {self._tool.tool_name}",
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
            found = None if earlier is None else earlier.find(call)
            return kept(executor.make(call)) if found is None else found

        if earlier is not None:
            earlier.take_over(self._calls(), journal)
        interrupt, stop = self._sessions.interrupt, self._sessions.stop
        with BatchProgress(self.summary.total) as progress:
            results = run_batch(
                self._calls(),
                work,
                failed=failed,
                concurrency=executor.concurrency,
                is_canceled=lambda: interrupt() or stop.is_set(),
                on_cancel=stop.set,
                on_finished=progress,
            )
            for outcome in results:
                self._take(outcome, sinks)
                if self._fail and not outcome.record.ok:
                    stop.set()  # what is in flight ends, and has its rows
        self.canceled = interrupt() and self.summary.finished < self.summary.total
        why = Canceled("The run was stopped before this call")
        for call in self._calls(start=self.summary.statuses.total()):
            self._take(failed_call(call, why, dispatcher), sinks)

    def _take(self, outcome: CallOutcome, sinks: list[Sink]) -> None:
        self.summary.add(outcome)
        for add in sinks:
            add(outcome)

    def _calls(self, start: int = 0) -> Iterator[Call]:
        rows = self._parameters.rows
        for number in range(start, len(rows)):
            row_id = str(number + 1)
            try:
                yield Call(tool=self._tool, arguments=self._arguments(rows[number]), input_row=row_id)
            except ArgumentsInvalid as error:
                yield Call(tool=self._tool, input_row=row_id, error=error)

    def _arguments(self, row: dict[str, Any]) -> dict[str, Any]:
        if self._column is not None:
            return arguments_from_json(row[self._column], source=f"column '{self._column}'")
        if self._parameters.typed:
            return arguments_from_row(row, self._plan, self._known)
        cells = ((name, row[column]) for name, column in self._plan.arguments.items())
        return arguments_from_pairs([(name, text) for name, text in cells if text is not None], self._known)


def _content(file: Path) -> JournalContent:
    try:
        return to_resume(file)
    except JournalError as error:
        raise CommandError(f"{file} cannot be resumed from: {error}.") from None


class _TableSink:
    """Results as a CSV or Parquet file, with the columns of the node's output table."""

    def __init__(self, out: Path, parameters: Parameters) -> None:
        self._file = TableFile(out)
        layout = plan_results(parameters.columns, form=ColumnForm.PORTABLE, images=False)
        self._writer = ResultsWriter(layout, _with_row_ids(parameters.table), self._file.write, equal=False)

    def __enter__(self) -> _TableSink:
        return self

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._writer.close()

    def add(self, outcome: CallOutcome) -> None:
        self._writer.add(outcome)


class _JsonSink:
    """Results as one JSON array of records, written as they come."""

    def __init__(self, out: Path | None) -> None:
        self._out = out
        self._stream = sys.stdout if out is None else out.open("w", encoding="utf-8")
        self._first = True

    def __enter__(self) -> _JsonSink:
        self._write("[")
        return self

    def __exit__(self, *_: object) -> None:
        self._write("]\n" if self._first else "\n]\n")
        if self._out is not None:
            with writing(self._out):
                self._stream.close()

    def add(self, outcome: CallOutcome) -> None:
        text = json.dumps(json_record(outcome.record), ensure_ascii=self._out is None)
        self._write(("\n  " if self._first else ",\n  ") + text)
        self._first = False

    def _write(self, text: str) -> None:
        with nullcontext() if self._out is None else writing(self._out):
            self._stream.write(text)


class _TerminalSink:
    """Results as a table for people: row, status, and the beginning of what came of it."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, str]] = []

    def __enter__(self) -> _TerminalSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            show(table(None, ("row", "status", "result"), self._rows))

    def add(self, outcome: CallOutcome) -> None:
        record = outcome.record
        self._rows.append(
            (record.input_row or "", record.status.value, one_line(record.result or record.error))
        )


def _file_sink(out: Path, parameters: Parameters) -> _TableSink | _JsonSink:
    return _JsonSink(out) if out.suffix.lower() == ".json" else _TableSink(out, parameters)


def _with_row_ids(found: pa.Table) -> pa.Table:
    import pyarrow as pa

    row_ids = pa.array([str(number + 1) for number in range(found.num_rows)], pa.string())
    return found.add_column(0, "<RowID>", row_ids)
