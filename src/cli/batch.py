"""``knime-mcp batch``: one call per row of a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..audit.table_formats import READABLE, WRITABLE, either
from ..types.texts import counted
from . import completion
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions, ToolArgument, UrlArgument, takes_connection
from .executors import Concurrency, ExecutorOption, call_executor, check_executor
from .files import (
    JSON,
    check_folder,
    check_journal,
    check_resume,
    check_table,
    going_on,
    is_same,
    read_table,
    split_pairs,
    with_pairs,
)
from .shared_options import RawCsvOption, SaveDirOption, pairs
from .terminal import complain, note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..audit.table_formats import FileTable
    from ..runs.table_run import RunEnding, TableRun
    from ..types.tool import MCPTool


_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")
_COMMA_IN_ERROR = re.compile(r'is text "[+-]?[\d.]+,\d+"')


@reports_errors
@takes_connection
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
            autocompletion=completion.arguments,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Write the results into a {either(*WRITABLE, JSON)} file."),
    ] = None,
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
            help="Numbers in the CSV file are written as 1.234,5; for parameters that are numbers.",
        ),
    ] = False,
    arguments_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Take all arguments from this column, which holds JSON."),
    ] = None,
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
    check_executor(executor, connection)
    route, words = connection.one_route(url, tool, table_file, *(arguments or ()))
    if len(words) < 2:
        raise UsageError("Name the tool and the table of its parameters, in this order, after the server.")
    tool, table, constants = words[0], Path(words[1]), split_pairs(words[2:])
    journal = audit or resume
    check_resume(resume, repeat_unknown=repeat_unknown)
    _check_files(table, out, records, audit, resume)
    # All of it before the first call: a file that cannot be written must not cost the results.
    check_folder(save_dir)
    from .batch_run import run_and_write, table_run
    from .sessions import CommandSessions

    parameters = _renamed(read_table(table), pairs(column, "--column"), table)
    if arguments_column is not None and arguments_column not in parameters.columns:
        raise UsageError(
            f"{table} has no column '{arguments_column}'. Its columns are {', '.join(parameters.columns)}."
        )
    with (
        Interrupt() as interrupt,
        going_on(resume, journal),
        CommandSessions(connection, interrupt) as sessions,
    ):
        found = sessions.find_tool(route, tool)
        if decimal_comma:
            parameters = _with_decimal_points(parameters, found)
        calls = sessions.run_for([route], save_dir)
        calls.repeat_unknown = repeat_unknown
        with call_executor(executor, concurrency, connection, calls) as at_once:
            run = table_run(
                parameters,
                found,
                column=arguments_column,
                constants=with_pairs({}, constants, found.parameter_schema),
                sessions=sessions,
                concurrency=at_once,
                fail=on_error == "fail",
                journal_file=journal,
                earlier_file=resume,
            )
            try:
                ending = run_and_write(run, interrupt, out, records=records, raw_csv=raw_csv, as_json=as_json)
            except (CommandError, OSError):  # results or records cannot be written
                if journal is not None and run.summary.finished:
                    note(f"What has finished is in {journal}. Go on with: --resume {journal}")
                raise
    if out is not None:
        note(f"Wrote {counted(run.summary.total, 'row')} to {out}")
    if records is not None:
        note(f"Wrote the records to {records}")
    return _report(run, ending, journal, resume)


def _renamed(table: FileTable, columns: Mapping[str, str], file: Path) -> FileTable:
    """The table with the columns of ``--column`` under the names of their parameters."""
    for parameter, column in columns.items():
        if column not in table.columns:
            raise UsageError(f"{file} has no column '{column}'. Its columns are {', '.join(table.columns)}.")
        if parameter in table.columns:
            raise UsageError(f"{file} has a column '{parameter}' already. Leave out --column, or rename it.")
    return table.renamed({column: parameter for parameter, column in columns.items()})


def _with_decimal_points(table: FileTable, tool: MCPTool) -> FileTable:
    """The table with ``1.234,5`` as ``1234.5`` in the columns of numbers; other texts stay as they are."""
    from ..client.validation.argument_schemas import parameters_in

    # A file with types has numbers, not texts that look like some.
    if table.typed:
        return table
    wanted = parameters_in(tool.parameter_schema)
    numbers = {name for name, parameter in wanted.items() if parameter.kinds & {"number", "integer"}}
    return table.mapped(numbers & set(table.columns), _with_point)


def _with_point(text: str | None) -> str | None:
    # A point that is not before three digits separates no thousands: `1.5` stays one and a half.
    if text is None or not _COMMA.fullmatch(text.strip()):
        return text
    return text.strip().replace(".", "").replace(",", ".")


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
            f" --resume {audit}."
        )


def _report(run: TableRun, ending: RunEnding, journal: Path | None, earlier: Path | None) -> ExitCode:
    from ..audit.record import CallStatus
    from ..types.texts import visible

    summary = run.summary
    total = summary.total
    calls = counted(total, "call")
    if earlier is not None:
        note(f"{summary.resumed:,} of {calls} taken from {earlier}")
    if ending == "canceled":
        go_on = f"Go on with: --resume {journal}" if journal else "With --audit FILE it could go on."
        complain(f"Canceled after {summary.finished:,} of {calls}. {go_on}")
        return ExitCode.CANCELED
    if run.failure is not None:
        first = run.failure.record
        complain(f"Ended at the first failure, row {first.input_row}: {first.error}")
        complain(f"{summary.statuses[CallStatus.CANCELED]:,} of {calls} not made.")
        return ExitCode.FAILED
    warning = visible(summary.warning() or "")
    if summary.failed:
        complain(warning)
        if _COMMA_IN_ERROR.search(warning):
            note("If the numbers in the table have a decimal comma, add --decimal-comma.")
        return ExitCode.FAILED
    if warning:
        note(warning)
    note(f"{total:,} of {calls} gave a result")
    return ExitCode.OK
