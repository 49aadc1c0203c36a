"""``knime-mcp batch``: one call per row of a table."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..audit.table_formats import READABLE, WRITABLE, either, read_parameters
from ..types.texts import counted
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions, ToolArgument, UrlArgument
from .executors import Concurrency, ExecutorOption, call_executor, check_executor
from .files import (
    JSON,
    check_folder,
    check_journal,
    check_readable,
    check_resume,
    check_table,
    going_on,
    is_same,
    reading_records,
    split_pairs,
    with_pairs,
)
from .shared_options import RawCsvOption, SaveDirOption, pairs, seldom, takes
from .terminal import complain, note, typed_again

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..audit.table_formats import FileTable
    from ..runs.table_run import RunEnding, TableRun
    from ..runs.typed_results import EarlierResults
    from ..types.tool import MCPTool


@reports_errors
@takes(ConnectionOptions, "connection", seldom=True)
@seldom("all_columns", "raw_csv", "decimal_comma", "arguments_column", "limit", "only_failed", "concurrency")
@seldom("executor", "repeat_unknown", "save_dir")
def batch(
    url: UrlArgument = None,
    tool: ToolArgument = None,
    table_file: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help=f"A {either(*READABLE)} file with a row per call. Columns named like the"
            " tool's parameters are its arguments; a missing cell is an argument left out, or"
            " null where the tool demands the argument and accepts null.",
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arguments of every call; a column of the same name wins. KEY:=JSON says it in JSON.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Write the results into a {either(*WRITABLE, JSON)} file."),
    ] = None,
    all_columns: Annotated[
        bool,
        typer.Option(
            "--all-columns",
            help="In --out, also the result as JSON, paths of files, the tool and its server, protocol and"
            " digest, the arguments as sent, times and attempts.",
        ),
    ] = False,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the lists of records in the results as rows with typed columns into a"
            f" {either(*WRITABLE)} file.",
        ),
    ] = None,
    raw_csv: RawCsvOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON array with the record of each call.")
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARAMETER=COLUMN",
            help="Take this parameter from a column that is called differently; may be repeated.",
        ),
    ] = None,
    decimal_comma: Annotated[
        bool,
        typer.Option(
            "--decimal-comma",
            help="Texts in the table are numbers such as 1.234,5; for parameters that are numbers.",
        ),
    ] = False,
    arguments_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Take all arguments from this column, which holds JSON."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be sent, and make no call.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="ROWS", help="Make the calls of the first rows only.")
    ] = None,
    only_failed: Annotated[
        bool,
        typer.Option(
            "--only-failed",
            help="The table is an earlier --out: make the calls of its rows whose Status is not ok, and write"
            " all of its rows anew.",
        ),
    ] = False,
    concurrency: Concurrency = None,
    executor: ExecutorOption = "threads",
    on_error: Annotated[
        Literal["row", "fail"], typer.Option(help="A call that fails becomes a row, or ends the run.")
    ] = "row",
    audit: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Write a line per finished call there, as they finish."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Take the results in this earlier --audit file from there, and make only the other calls.",
        ),
    ] = None,
    repeat_unknown: Annotated[
        bool,
        typer.Option(
            "--repeat-unknown",
            help="With --resume: make calls again of which nobody knows whether they were carried out.",
        ),
    ] = False,
    save_dir: SaveDirOption = None,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Call a tool once per row of a table.

    Every row has a result, in the order of the table; a call that fails is a row that says why. The exit
    code is 1 if any failed.

    Example: knime-mcp batch http://127.0.0.1:8931/mcp count_words examples/demo/parameters.csv
    """
    check_executor(executor)
    route, words = connection.one_route(url, tool, table_file, *(arguments or ()))
    if len(words) < 2:
        raise UsageError("Name the tool and the table of its parameters, in this order, after the server.")
    tool, table, constants = words[0], Path(words[1]), split_pairs(words[2:])
    journal = audit or resume
    check_resume(resume, repeat_unknown=repeat_unknown)
    _check_files(table, out, records, audit, resume)
    # All of it before the first call: a file that cannot be written must not cost the results.
    check_folder(save_dir)
    check_readable(table)
    from ..runs.argument_sources import PlannedCalls
    from ..runs.parameter_rows import ParameterRows
    from ..runs.typed_results import EarlierResults
    from ..tools.caller.calls_report import outcome_columns
    from .batch_run import run_and_write, say_what_is_sent, table_run
    from .sessions import CommandSessions

    with (
        Interrupt() as interrupt,
        going_on(resume, journal),
        CommandSessions(connection, interrupt) as sessions,
    ):
        found = sessions.find_tool(route, tool)
        named_columns = pairs(column, "--column")
        parameters = _read(table, found, named_columns, arguments_column)
        rows = parameters.filled_rows()
        left_out = sorted({*range(parameters.total)}.difference(rows))
        earlier, outcomes = None, outcome_columns(parameters.columns)
        if only_failed:
            with reading_records():
                earlier = EarlierResults.of_file(parameters, _failed(parameters, rows, table), limit, found)
            _check_columns(earlier, table, out, all_columns=all_columns)
            rows, outcomes = list(earlier.again), outcomes.union(earlier.typed)
            if not rows:
                note(f"Each row of {table} has a result: there is nothing to call again.")
                return ExitCode.OK
        plan = PlannedCalls(
            tool=found,
            values=with_pairs({}, constants, found.parameter_schema),
            parameters=ParameterRows.of_file(parameters.only(rows[:limit])),
            json_column=arguments_column,
            named_columns=named_columns,
            decimal_comma=decimal_comma,
            outcomes=outcomes,
            demands_arguments=True,
        )
        calls = sessions.run_for([route], save_dir)
        numbers = [parameters.numbers[index] for index in left_out]
        say_what_is_sent(table, parameters, numbers, plan, calls)
        if dry_run:
            return ExitCode.OK
        calls.repeat_unknown = repeat_unknown
        with call_executor(executor, concurrency, connection, calls) as at_once:
            run = table_run(
                plan,
                found,
                sessions=sessions,
                concurrency=at_once,
                fail=on_error == "fail",
                journal_file=journal,
                earlier_file=resume,
            )
            began = monotonic()
            try:
                ending = run_and_write(
                    run,
                    interrupt,
                    out,
                    records=records,
                    all_columns=all_columns,
                    raw_csv=raw_csv,
                    as_json=as_json,
                    earlier=earlier,
                )
            except (CommandError, OSError):  # results or records cannot be written
                if journal is not None and run.summary.finished:
                    note(f"What has finished is in {journal}. Go on with: {_go_on(journal)}")
                raise
    _say_what_was_written(run, out, records, earlier)
    _sum_up(run, monotonic() - began, journal, out, table)
    return _report(run, ending, journal, resume)


def _read(file: Path, tool: MCPTool, columns: Mapping[str, str], arguments_column: str | None) -> FileTable:
    """The table, which has the columns that are named."""
    from ..client.validation.argument_schemas import parameters_in

    named = [*columns.values(), *([] if arguments_column is None else [arguments_column])]
    with reading_records():
        table = read_parameters(file, [*parameters_in(tool.parameter_schema), *named])
    for name in named:
        if name not in table.columns:
            raise UsageError(f"{file} has no column '{name}'. Its columns are {', '.join(table.columns)}.")
    for parameter in columns:
        if parameter in table.columns:
            raise UsageError(f"{file} has a column '{parameter}' already. Leave out --column, or rename it.")
    return table


def _failed(table: FileTable, rows: list[int], file: Path) -> list[int]:
    """Those of some rows of an earlier run's results that have no result."""
    if "Status" not in table.columns:
        raise UsageError(f"{file} has no column 'Status'. --only-failed goes on with the file of an --out.")
    status = table.table.column("Status").to_pylist()
    return [index for index in rows if status[index] != "ok"]


def _check_columns(earlier: EarlierResults, file: Path, out: Path | None, *, all_columns: bool) -> None:
    """Refuses to write other columns than the earlier results have: nobody knows their values."""
    if out is None or out.suffix.lower() == JSON or all_columns == earlier.has_all_columns:
        return
    if all_columns:
        raise UsageError(f"{file} was written without --all-columns. Leave it out.")
    raise UsageError(f"{file} was written with --all-columns. Add --all-columns.")


def _check_files(
    table: Path, out: Path | None, records: Path | None, audit: Path | None, resume: Path | None
) -> None:
    check_table(out, as_json=True)
    check_table(records)
    check_journal(audit)
    written = [file for file in (out, records, audit) if file is not None]
    if out is not None and records is not None and is_same(out, records):
        raise UsageError("--out and --records are the same file. Name two.")
    for file in written:
        if is_same(file, table):
            raise UsageError(f"{file} is the table of parameters itself. Write into another file.")
    goes_on = audit is not None and resume is not None and is_same(audit, resume)
    if audit is not None and not goes_on and audit.exists() and audit.stat().st_size:
        raise UsageError(
            f"{audit} exists and would be overwritten. Name another file, or go on with that run:"
            f" {_go_on(audit)}"
        )


def _go_on(journal: Path) -> str:
    return typed_again("--resume", str(journal), without=("--audit", "--resume"))


def _say_what_was_written(
    run: TableRun, out: Path | None, records: Path | None, earlier: EarlierResults | None
) -> None:
    from ..audit.record import CallStatus

    total = run.summary.total if earlier is None else earlier.table.total
    if out is not None:
        is_whole = out.suffix.lower() != JSON
        note(f"Wrote {counted(total if is_whole else run.summary.total, 'row')} to {out}")
    if records is not None:
        note(f"Wrote the records to {records}{'' if earlier is None else ', of the calls made now'}")
    if earlier is not None:
        right = total - len(earlier.failed) + run.summary.statuses[CallStatus.OK]
        note(f"{right:,} of {counted(total, 'row')} have a result now")


def _sum_up(run: TableRun, seconds: float, journal: Path | None, out: Path | None, table: Path) -> None:
    """Says what came of the calls, and how to go on with those that failed."""
    made = counted(run.summary.total - run.summary.resumed, "call")
    statuses = ", ".join(f"{count:,} {status.value}" for status, count in run.summary.statuses.most_common())
    note(f"{made} in {seconds:.1f} s: {statuses or 'none'}")
    if not run.summary.failed:
        return
    if out is not None and out.suffix.lower() in {*READABLE} - {JSON}:
        stem = re.sub(r"-\d$", "", out.stem)
        names = (out.with_stem(f"{stem}-{number}") for number in count(2))
        again = typed_again(
            *("--out", str(next(name for name in names if not name.exists())), "--only-failed"),
            without=("--audit", "--resume", "--out", "--records"),  # the records of all rows are in no file
            instead={str(table): str(out), "--only-failed": None},
        )
        note(f"Correct the rows in {out} that failed, and call them again: {again}")
    if journal is not None:
        note(f"Or make them again as they are: {_go_on(journal)}")


def _report(run: TableRun, ending: RunEnding, journal: Path | None, earlier: Path | None) -> ExitCode:
    from ..audit.record import CallStatus
    from ..types.texts import visible

    summary = run.summary
    total = summary.total
    calls = counted(total, "call")
    if earlier is not None:
        note(f"{summary.resumed:,} of {calls} taken from {earlier}")
    if ending == "canceled":
        go_on = f"Go on with: {_go_on(journal)}" if journal else "With --audit FILE it could go on."
        complain(f"Canceled after {summary.finished:,} of {calls}. {go_on}")
        return ExitCode.CANCELED
    if run.failure is not None:
        first = run.failure.record
        complain(f"Ended at the first failure, row {first.input_row}: {first.error}")
        complain(f"{summary.statuses[CallStatus.CANCELED]:,} of {calls} not made.")
        return ExitCode.FAILED
    for warning in summary.warnings():
        (complain if summary.failed else note)(visible(warning))
    if summary.failed:
        return ExitCode.FAILED
    note(f"{total:,} of {calls} gave a result")
    return ExitCode.OK
