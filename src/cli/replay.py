"""``knime-mcp replay``: makes recorded calls again and compares the results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from ..audit.table_formats import WRITABLE, either
from ..types.routing import OPTIONS
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions
from .executors import Concurrency, ExecutorOption, check_executor
from .files import (
    check_journal,
    check_output,
    check_page,
    check_table,
    is_same,
    reading_records,
    write_page,
)
from .shared_options import SELDOM, RawCsvOption, RecordsArgument, options_under, seldom, takes

_often = options_under("What is called and compared")
_seldom = options_under(SELDOM, hidden=True)
_ON_RECORD: Final = ("credential", "bearer_env", *OPTIONS)


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """The options of a replay, described by their help texts."""

    call: list[str] | None = _often(
        "Also call tools of this name, with * for any text, that are not declared as read-only; may be"
        " repeated.",
        "--call",
        metavar="PATTERN",
    )
    call_changed: bool = _seldom(
        "Also call tools whose definition is not the one on record.", "--call-changed", default=False
    )
    dry_run: bool = _often(
        "Call nothing: ask the servers for their present tools, and check the arguments.",
        "--dry-run",
        default=False,
    )
    force_altered: bool = _seldom(
        "Replay records that are not as they were written, too; otherwise nothing is called.",
        "--force-altered",
        default=False,
    )
    rows: str = _often("Replay only these calls, such as 3,7-12,Row5.", metavar="ROWS", default="")
    stop: bool = _seldom("Stop at the first difference.", "--stop", default=False)
    server: list[str] | None = _often(
        "Call the server NEW instead of OLD; may be repeated. For a server that was a command:"
        " stdio:NAME='COMMAND'. NAME alone: use the server of knime-mcp config, with its secrets.",
        metavar="OLD=NEW",
    )
    tool: list[str] | None = _seldom(
        "The tool OLD on record is called NEW now; may be repeated.", metavar="OLD=NEW"
    )
    with_credential: list[str] | None = _often(
        "Send the credential that the file names OLD, or NEW in its place; without this option none is"
        " sent, as a file can name any server. May be repeated.",
        metavar="OLD[=NEW]",
    )
    secret: list[str] | None = _seldom(
        "The secret argument whose mark has these twelve digits is in this environment variable.",
        metavar="DIGITS=VARIABLE",
    )
    ignore: list[str] | None = _often(
        "What may differ: a JSON pointer with * such as /items/*/id, or a regular expression. May be"
        " repeated.",
        metavar="RULE",
    )
    unordered: list[str] | None = _seldom(
        "The list there may have another order; of a text, its lines. May be repeated.", metavar="POINTER"
    )
    tolerance: float = _seldom(
        "Numbers may differ by this part of the larger one, such as 1e-9. Of two integers each digit counts.",
        min=0.0,
        max=0.5,
        default=0.0,
    )
    rules: Path | None = _seldom("Take rules from a file of --write-rules.", metavar="RULES.json")
    twice: bool = _seldom(
        "Make each read-only call twice, a moment apart: what differs then differs by itself, and"
        " may differ from the record. Each rule that is learned is named.",
        "--twice",
        default=False,
    )
    write_rules: Path | None = _seldom(
        "Write all rules of this replay, also what --twice learned, for --rules.", metavar="RULES.json"
    )


@reports_errors
@takes(ConnectionOptions, "connection", hidden=_ON_RECORD, seldom=True)
@takes(ReplaySettings, "settings")
@seldom("concurrency", "executor", "raw_csv", "head")
def replay(
    file: RecordsArgument,
    concurrency: Concurrency = None,
    executor: ExecutorOption = "threads",
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="The hash that the last call of a run must have.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Write the table Replay into a {either(*WRITABLE)} file."),
    ] = None,
    raw_csv: RawCsvOption = False,
    html: Annotated[
        Path | None, typer.Option(metavar="OUT.html", help="Write a page with the differences side by side.")
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Write the calls that are made now into this journal."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    *,
    settings: ReplaySettings,
    connection: ConnectionOptions,
) -> ExitCode:
    """Make recorded calls again and say what is different.

    Only tools run that are declared as read-only and have not changed; all others get a dry run and are
    skipped. The exit code is 0 only if every call that ran is the same, nothing is missing, changed or
    failed, and the records are not changed and have the --head.

    Example: knime-mcp replay run.jsonl --ignore /time
    """
    _check_files(file, out, html, audit)
    check_output(settings.write_rules)
    _check_connection(connection)
    check_executor(executor)
    from ..runs.replaying import read_recording
    from .replay_run import ReplayRun, check_on_record, replay_options, with_commands

    connection = with_commands(connection, settings.server or ())
    options = replay_options(settings, connection)
    with Interrupt() as interrupt:
        with reading_records():
            recording = read_recording(file, head=head)
        if not recording.calls and not recording.verification.runs:
            raise CommandError(f"{file} holds no calls to replay.")
        check_on_record(options, recording.calls, connection)
        run = ReplayRun(recording, options, connection, interrupt, as_json=as_json)
        try:
            with reading_records():
                run.execute(executor, concurrency, audit, out, raw_csv=raw_csv)
        finally:
            # Also of a replay that was canceled or failed: the page has what there is.
            if html is not None:
                write_page(html, run.page(file.name))
    run.print()
    if settings.write_rules is not None:
        run.write_rules(settings.write_rules)
    return run.report()


def _check_connection(connection: ConnectionOptions) -> None:
    """Refuses options with credentials for a single server, as a file may have several servers."""
    usual = ConnectionOptions()
    if any(getattr(connection, name) != getattr(usual, name) for name in _ON_RECORD):
        raise UsageError(
            "Credentials, headers and transport are those that the file names. Allow a credential with"
            " --with-credential NAME, or say it for a server: --server OLD=https://host/mcp#credential=NAME."
        )


def _check_files(file: Path, out: Path | None, html: Path | None, audit: Path | None) -> None:
    check_table(out)
    check_page(html)
    check_journal(audit)
    for written in (out, audit):
        if written is not None and is_same(written, file):
            raise UsageError(f"{written} is the file to replay. Write into another one.")
