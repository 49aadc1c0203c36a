"""The calls of ``knime-mcp batch``: planned from a table of parameters, written in order as they finish."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing, contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..audit.journal_lines import JournalError
from ..client.validation.argument_schemas import parameters_of
from ..runs.first_look import first_look
from ..runs.parameter_rows import ParameterRows
from ..runs.result_records import RecordsCollector
from ..runs.table_run import RunEnding, TableRun
from ..runs.typed_results import TypedResults
from ..tools.caller.calls_report import ResultsWriter, plan_results
from ..types.columns import ColumnForm
from ..types.texts import beginning, compact_json, counted, listed, visible
from .command_errors import CommandError, UsageError
from .files import JSON, TableFile, journal_to_resume, json_record, writing
from .terminal import LONGEST_ERROR, batch_progress, note, one_line, say, show_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence
    from pathlib import Path

    from ..audit.table_formats import FileTable
    from ..runs.argument_sources import PlannedCalls
    from ..runs.call_values import CallOutcome
    from ..runs.engine import Run
    from ..runs.typed_results import EarlierResults
    from ..types.tool import MCPTool
    from .sessions import CommandSessions

    Sink: TypeAlias = Callable[[CallOutcome], None]
    """Takes finished calls in the order of the rows."""

_ERRORS_SHOWN: Final = 10
_ROWS_NAMED: Final = 5
_LONGEST_VALUE: Final = 40


def say_what_is_sent(
    file: Path, read: FileTable, left_out: Sequence[int], plan: PlannedCalls, run: Run
) -> None:
    """Says what the calls send, and refuses a table of which nothing or something wrong would be sent."""
    among = "" if plan.total == read.total else f"{plan.total:,} of "
    rows = f"{among}{counted(read.total, 'row')}"
    note(f"{file}: {', '.join(filter(None, (read.understood, rows)))}")
    look = first_look(plan, run.secrets)
    if look is None:
        return
    for name, values in look.values.items():
        column = look.columns.get(name)
        source = f" <- {column}" if column not in (name, None) else ""
        note(f"  {visible(name)}{visible(source)}: {', '.join(map(_shown, values))}")
    if look.not_sent:
        note(f"not sent: {visible(listed(look.not_sent))}")
    if left_out:
        note(f"left out, as they have no value: row {listed(map(str, left_out))}")
    sent = set(look.columns.values())
    for remark in (*read.notes, *look.notes, *_doubtful(read, sent)):
        note(f"note: {visible(remark)}.")
    if look.unfit:
        raise UsageError(f"{look.unfit}. Rename a column, or name it: --column PARAMETER=COLUMN.")
    if look.mixed:
        raise UsageError(f"{look.mixed}. Write all of them in one way.")
    if look.comma:
        raise UsageError(f"{look.comma}. Add --decimal-comma.")


def _shown(value: Any) -> str:
    return one_line(compact_json(value), _LONGEST_VALUE)


def _doubtful(read: FileTable, sent: Collection[str]) -> Iterator[str]:
    if unreadable := [cell.why for column, cell in read.unreadable if column in sent]:
        yield f"rows that are not called, because of {listed(unreadable)}"
    if disguised := [cell for column, cell in read.disguised if column in sent]:
        yield f"cells whose format shows another text than is sent: {listed(disguised)}"


def table_run(
    plan: PlannedCalls,
    tool: MCPTool,
    *,
    sessions: CommandSessions,
    concurrency: int,
    fail: bool,
    journal_file: Path | None,
    earlier_file: Path | None,
) -> TableRun:
    """Prepares the run of a tool over a table.

    Raises `JournalAltered` or `CommandError` if the journal to resume from cannot be used.
    """
    return TableRun(
        plan=plan,
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
    all_columns: bool,
    raw_csv: bool,
    as_json: bool,
    earlier: EarlierResults | None = None,
) -> RunEnding:
    """Makes all calls and writes their outcomes: as JSON, into the file, or both; or prints a table.

    The lists of records in the results go into the file ``records``. A table has all rows of the ``earlier``
    results.

    Raises `CommandError` if the journal cannot be added to, or results cannot be written.
    """
    assert run.plan.parameters is not None
    with ExitStack() as stack:
        sinks: list[Sink] = []
        if out is not None:
            is_json = out.suffix.lower() == JSON
            sink = _json(out) if is_json else _table(out, run, earlier, all_columns, raw_csv=raw_csv)
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
    return ending


@contextmanager
def _table(
    out: Path, run: TableRun, earlier: EarlierResults | None, all_columns: bool, *, raw_csv: bool
) -> Generator[Sink]:
    """Opens the sink for a file of a table with the input's columns, what the tool gave, and how it ended.

    With `all_columns` it has those of the node's output table instead of what the tool gave. The rows of the
    ``earlier`` results that are not called again stand in their places.
    """
    parameters, tool = run.plan.parameters, run.plan.tool
    assert parameters is not None
    assert tool is not None
    known = () if earlier is None else earlier.typed
    if earlier is not None:
        there = ColumnForm.PORTABLE if earlier.has_all_columns else None
        parameters = ParameterRows.of_file(
            earlier.without(name for name, *_ in plan_results((), all_columns=there).columns)
        )
    layout = plan_results(parameters.columns, all_columns=ColumnForm.PORTABLE if all_columns else None)
    typed = TypedResults(parameters_of(tool), known)
    with closing(typed), TableFile(out, raw_csv=raw_csv) as file:
        writer = ResultsWriter(
            layout, parameters.table, file.write if all_columns else typed.write, equal=False
        )
        before = iter(() if earlier is None else earlier.rows)

        def take(outcome: CallOutcome | None) -> None:
            for kept, given in before:
                if kept is None:
                    break
                writer.add(kept)
                if known:
                    typed.keep(given)
                else:
                    typed.add(kept)
            if outcome is not None:
                writer.add(outcome)
                typed.add(outcome)

        try:
            yield take
        finally:
            take(None)  # what stands behind the last row that is called
            # The last piece is waiting in it, also when the run was canceled.
            writer.close()
            # Only now: the types of the columns depend on the results of all calls.
            for piece in typed.pieces(before=1 + len(layout.inputs)):
                file.write(piece)
            if typed.several:
                calls = counted(typed.several, "call")
                run.summary.notes[f"{calls} gave several records; --records FILE writes them as rows"] = None


@contextmanager
def _records(out: Path, run: TableRun, *, raw_csv: bool) -> Generator[Sink]:
    """Opens the sink for the records in the results, which are written when all of them are known."""
    with closing(RecordsCollector()) as found, TableFile(out, raw_csv=raw_csv) as file:
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
