"""The calls of ``knime-mcp batch``: planned from a table of parameters, written in order as they finish."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..audit.journal_lines import JournalError
from ..runs.argument_sources import ParameterRows, PlannedCalls
from ..runs.result_records import RecordsCollector
from ..runs.table_run import RunEnding, TableRun
from ..tools.caller.calls_report import ResultsWriter, plan_results
from ..types.columns import ColumnForm
from ..types.texts import beginning, counted, visible
from .command_errors import CommandError
from .files import JSON, TableFile, journal_to_resume, json_record, writing
from .terminal import LONGEST_ERROR, batch_progress, note, one_line, say, show_table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from ..audit.table_formats import FileTable
    from ..runs.call_values import CallOutcome
    from ..types.tool import MCPTool
    from .sessions import CommandSessions

    Sink: TypeAlias = Callable[[CallOutcome], None]
    """Takes finished calls in the order of the rows."""

_ERRORS_SHOWN: Final = 10
_ROWS_NAMED: Final = 5


def table_run(
    parameters: FileTable,
    tool: MCPTool,
    *,
    column: str | None,
    constants: dict[str, Any],
    sessions: CommandSessions,
    concurrency: int,
    fail: bool,
    journal_file: Path | None,
    earlier_file: Path | None,
) -> TableRun:
    """Prepares the run of a tool over a table.

    ``column`` holds all arguments as JSON; None for one column per argument. ``constants`` are arguments of
    every call, over which those of a row win. Raises `JournalAltered` or
    `CommandError` if the journal to resume from cannot be used.
    """
    return TableRun(
        plan=PlannedCalls(
            tool=tool, values=constants, parameters=ParameterRows.of_file(parameters), json_column=column
        ),
        run=sessions.run,
        stop=sessions.stop,
        concurrency=concurrency,
        fail=fail,
        journal_file=journal_file,
        about=f"knime-mcp batch {tool.route.url} {tool.tool_name}",
        # A device or pipe has no earlier runs.
        append=journal_file is not None and journal_file.is_file() and journal_file.stat().st_size > 0,
        earlier=None if earlier_file is None else journal_to_resume(earlier_file),
        rows_for_unmade=True,
    )


def run_and_write(
    run: TableRun,
    interrupt: Callable[[], bool],
    out: Path | None,
    *,
    records: Path | None = None,
    raw_csv: bool,
    as_json: bool,
) -> RunEnding:
    """Makes all calls and writes their outcomes: as JSON, into the file, or both; or prints a table.

    The lists of records in the results go into the file ``records``.

    Raises `CommandError` if the journal cannot be added to, or results cannot be written.
    """
    assert run.plan.parameters is not None
    with ExitStack() as stack:
        sinks: list[Sink] = []
        if out is not None:
            is_json = out.suffix.lower() == JSON
            sink = _json(out) if is_json else _table(out, run.plan.parameters, raw_csv=raw_csv)
            sinks.append(stack.enter_context(sink))
        if records is not None:
            sinks.append(stack.enter_context(_records(records, run, raw_csv=raw_csv)))
        if as_json:
            sinks.append(stack.enter_context(_json(None)))
        elif out is None:
            sinks.append(stack.enter_context(_terminal()))
        progress = stack.enter_context(batch_progress(run.plan.total))

        def take(outcome: CallOutcome) -> None:
            for add in sinks:
                add(outcome)

        try:
            ending = run.make_calls(take, is_canceled=interrupt, on_finished=progress)
        except JournalError as error:
            fix = "" if run.earlier is not None else " Name another file for --audit."
            raise CommandError(f"{error}.{fix}") from None
    run.summary.unmatched = run.plan.unmatched
    return ending


@contextmanager
def _table(out: Path, parameters: ParameterRows, *, raw_csv: bool) -> Generator[Sink]:
    """Opens the sink for a CSV or Parquet file with the columns of the node's output table."""
    layout = plan_results(parameters.columns, form=ColumnForm.PORTABLE, images=False)
    with TableFile(out, raw_csv=raw_csv) as file:
        writer = ResultsWriter(layout, parameters.table, file.write, equal=False)
        try:
            yield writer.add
        finally:
            # The last piece is waiting in it, also when the run was canceled.
            writer.close()


@contextmanager
def _records(out: Path, run: TableRun, *, raw_csv: bool) -> Generator[Sink]:
    """Opens the sink for the records in the results, which are written when all of them are known."""
    with RecordsCollector() as found, TableFile(out, raw_csv=raw_csv) as file:
        try:
            yield found.add
        finally:
            # Only now: the types of the columns depend on the records of all calls.
            rows = 0
            for piece in found.pieces():
                rows += piece.num_rows
                file.write(piece)
            if not rows:
                run.summary.notes[f"No result has records, so {out} has no rows; see what came in --out"] = (
                    None
                )
            if found.warning:
                run.summary.notes[found.warning] = None


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
        # Standard output may have another encoding than UTF-8, which the file always has.
        write(f"{comma}\n  ")
        write(json.dumps(json_record(outcome.record), ensure_ascii=out is None))
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
    """Opens the sink for a table for people: row, status, and the beginning of the result.

    What to do about an error stands at its end, so those that are cut off stand below the table, whole unless
    a tool wrote very much.
    """
    rows: list[tuple[str, str, str]] = []
    cut_off: dict[str, list[str]] = {}

    def add(outcome: CallOutcome) -> None:
        record = outcome.record
        row, told = record.input_row or "", record.result or record.error
        rows.append((row, record.status.value, one_line(told)))
        if told == record.error and told != one_line(told):
            # The same error of many rows names each of them, see `MCPError`.
            error = beginning(record.error or "", LONGEST_ERROR).replace(f", row {row})", ")")
            cut_off.setdefault(error, []).append(row)

    yield add
    show_table(None, ("row", "status", "result"), rows)
    for error, where in islice(cut_off.items(), _ERRORS_SHOWN):
        named = ", ".join(where[:_ROWS_NAMED])
        more = f" and {len(where) - _ROWS_NAMED:,} more" if len(where) > _ROWS_NAMED else ""
        say(f"{'row' if len(where) == 1 else 'rows'} {named}{more}: {visible(error)}")
    if len(cut_off) > _ERRORS_SHOWN:
        left = counted(len(cut_off) - _ERRORS_SHOWN, "further error")
        note(f"{left} cut off in the table; --out FILE writes all of them whole")
