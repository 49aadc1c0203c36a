"""``knime-mcp replay``: recorded calls made again and compared."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path  # noqa: TC003 - typer evaluates annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exits import CommandError, ExitCode, UsageError, reports_errors
from .interrupt import Interrupt
from .options import ConnectionOptions, takes_connection
from .tables import TableFile, check_ending
from .terminal import complain, note, one_line, print_json, say, show, table

if TYPE_CHECKING:
    from ..audit.replay_calls import ReplayedCall
    from ..audit.replay_options import ReplayOptions
    from ..audit.replay_table import Recording, ReplaySummary
    from ..tools.views.replay import ShownCalls

_SERVER = re.compile(r"(.+?)=((?:https?|stdio):.+)", re.DOTALL)
_STDIO = re.compile(r"stdio:([A-Za-z0-9][\w.-]*)=(.+)", re.ASCII | re.DOTALL)
_MOST_PRINTED = 200
_WHAT = "What is called"


@reports_errors
@takes_connection
def replay(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A journal (.jsonl), or a table Tool calls as .parquet, .csv or .tsv file."
        ),
    ],
    call: Annotated[
        list[str] | None,
        typer.Option(
            "--call",
            metavar="PATTERN",
            help="Also call tools of this name, with * for any text, although they are not declared as"
            " read-only: each does again what it did. May be repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    call_changed: Annotated[
        bool,
        typer.Option(
            "--call-changed",
            help="Also call tools whose definition is not the one on record.",
            rich_help_panel=_WHAT,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Call nothing: ask the servers for their present tools, and check the arguments.",
            rich_help_panel=_WHAT,
        ),
    ] = False,
    rows: Annotated[
        str,
        typer.Option(
            metavar="ROWS",
            help="Replay only these: numbers of calls, ranges, RowIDs, such as 3,7-12,Row5.",
            rich_help_panel=_WHAT,
        ),
    ] = "",
    stop: Annotated[
        bool,
        typer.Option("--stop", help="Stop at the first difference.", rich_help_panel=_WHAT),
    ] = False,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="Call the server NEW instead of OLD; may be repeated. For a server that was a command:"
            " stdio:NAME='COMMAND'.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="The tool OLD on record is called NEW now; may be repeated."),
    ] = None,
    with_credential: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD[=NEW]",
            help="Send the credential that the file names OLD, or NEW in its place. A file can name any"
            " server: without this option none of your credentials is sent. May be repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIGITS=VARIABLE",
            help="The secret argument whose mark has these twelve digits is in this environment variable.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="What may differ: a JSON pointer with * such as /items/*/id, or a regular expression. May be"
            " repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=256, help="How many read-only calls may run at the same time.")
    ] = 4,
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="The hash that the last call of a run must have.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table Replay as .csv or .parquet file.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="OUT.html", help="Write a page with the differences side by side.")
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Write the calls that are made now into this journal."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Make recorded calls again and say what is different.

    Only tools run that are declared as read-only and have not changed; all others get a dry run and are
    skipped. The exit code is 0 only if every call that ran is the same, nothing is missing, changed or
    failed, and the records are not altered.

    Example: knime-mcp replay run.jsonl --ignore /time
    """
    _check_files(file, out, html, audit)
    _check_connection(connection)
    from ..audit.replay_table import read_recording
    from .audit_files import read

    options = _options(call, rows, server, with_credential, secret, ignore, concurrency=concurrency)
    options = replace(options, call_changed=call_changed, dry_run=dry_run, stop_at_first_difference=stop)
    options = replace(options, tools=_tools(tool or []))
    connection = _with_commands(connection, server or ())
    recording = read(lambda: read_recording(file, head=head))
    with Interrupt() as interrupt:
        run = _Run(recording, options, connection, interrupt)
        try:
            run.execute(audit, out)
        finally:
            if html is not None:
                html.write_text(run.page(file.name), encoding="utf-8")
                note(f"Wrote {html}")
    if as_json:
        print_json(run.as_json())
    else:
        run.print()
    return run.report()


class _Run:
    """One replay from the command line."""

    def __init__(
        self,
        recording: Recording,
        options: ReplayOptions,
        connection: ConnectionOptions,
        interrupt: Interrupt,
    ) -> None:
        from ..audit.replay_table import ReplaySummary
        from ..tools.views.replay import ShownCalls

        self._recording = recording
        self._options = options
        self._connection = connection
        self._interrupt = interrupt
        self._done: list[ReplayedCall] = []
        self.canceled = False
        self.summary: ReplaySummary = ReplaySummary(recording.verification)
        self.shown: ShownCalls = ShownCalls(ignore=options.ignore)

    def execute(self, audit: Path | None, out: Path | None) -> None:
        """Replays, and writes what was asked for."""
        from ..audit.replay import Replayer
        from ..audit.replay_decision import routes_of
        from ..audit.replay_table import replay_table
        from ..types.errors import Canceled, MCPError
        from .progress import BatchProgress
        from .sessions import Sessions

        calls = self._recording.calls
        with Sessions(self._connection, self._interrupt) as sessions:
            for route in routes_of(calls, self._options):
                try:
                    sessions.credentials(route.credential)
                except MCPError:
                    continue  # the calls that need it say so
            dispatcher = sessions.dispatcher([])
            with _journal(audit, dispatcher.run) as journal, BatchProgress(len(calls)) as progress:
                replayer = Replayer(
                    dispatcher=dispatcher,
                    options=self._options,
                    keep=(lambda record: record) if journal is None else journal.append,
                    is_canceled=self._interrupt,
                    on_cancel=sessions.stop.set,
                )
                try:
                    for number, done in enumerate(replayer.replay(calls), start=1):
                        self._done.append(done)
                        self.summary.add(done)
                        self.shown.add(done)
                        progress(number)
                except Canceled:
                    self.canceled = True
                    if journal is not None:
                        journal.close("canceled")
        if out is not None:
            with TableFile(out) as written:
                written.write(replay_table(self._done))
            note(f"Wrote {len(self._done)} rows to {out}")

    def page(self, name: str) -> str:
        """The page with the differences."""
        from ..tools.views.replay import replay_page

        return replay_page(f"Replay of {name}", self.summary, self.shown)

    def as_json(self) -> dict[str, Any]:
        """The result for other programs."""
        checked = self._recording.verification
        return {
            "good": self._good,
            "records": checked.verdict.value,
            "counts": {verdict.value: count for verdict, count in self.summary.counts.items()},
            "calls": [_call_json(call) for call in self._done],
        }

    def print(self) -> None:
        """The result for people."""
        # Of many calls those that have to be looked into; a terminal takes longer for all than the replay.
        bad = [call for call in self._done if not call.verdict.is_good]
        chosen = self._done if len(self._done) <= _MOST_PRINTED else bad[:_MOST_PRINTED]
        rows = [
            (
                str(call.recorded.record.call or call.recorded.place),
                call.verdict.value,
                call.recorded.record.tool_name or "",
                one_line(call.recorded.record.arguments, 60),
                one_line(call.reason or call.patch, 90),
            )
            for call in chosen
        ]
        if rows:
            show(table(None, ("call", "verdict", "tool", "arguments", "why"), rows))
        if len(chosen) < len(self._done):
            note(f"{len(self._done) - len(chosen)} more calls are not shown. All: --out FILE, or --json")
        say(self.summary.text(), "bold green" if self._good else "bold red")

    def report(self) -> ExitCode:
        """Says what is to say and how the process ends."""
        checked = self._recording.verification
        for finding in checked.findings:
            complain(f"Records {finding.verdict.value}: {finding.text}")
        if self.canceled:
            complain(f"Canceled after {len(self._done)} of {len(self._recording.calls)} calls.")
            return ExitCode.CANCELED
        if not self.summary.called and self._done:
            note("No call was made: nothing was compared.")
        return ExitCode.OK if self._good else ExitCode.FAILED

    @property
    def _good(self) -> bool:
        from ..audit.verify import Verdict

        altered = self._recording.verification.verdict is Verdict.ALTERED
        return self.summary.is_good and not altered and not self.canceled


def _options(
    call: list[str] | None,
    rows: str,
    server: list[str] | None,
    credentials: list[str] | None,
    secrets: list[str] | None,
    ignore: list[str] | None,
    *,
    concurrency: int,
) -> ReplayOptions:
    from ..audit.replay_ignore import IgnoreRules
    from ..audit.replay_options import ReplayOptions, RowSelection, pairs

    named = (text.partition("=") for text in credentials or ())
    return ReplayOptions(
        also_call=tuple(call or ()),
        rows=RowSelection.parse(rows),
        servers=pairs((_server_pair(text) for text in server or () if not _STDIO.match(text)), "server"),
        credentials=pairs(((old, new if equals else old) for old, equals, new in named), "with_credential"),
        named_credentials_only=True,
        secrets=dict(map(_secret, secrets or ())),
        ignore=IgnoreRules.parse(ignore or ()),
        concurrency=concurrency,
    )


def _tools(texts: list[str]) -> dict[str, str]:
    from ..audit.replay_options import pairs

    named = [text.partition("=") for text in texts]
    if not all(old.strip() and new.strip() for old, _, new in named):
        raise UsageError("--tool has to say what a tool is called now. Write --tool OLD=NEW.")
    return pairs(((old, new) for old, _, new in named), "tool")


def _server_pair(text: str) -> tuple[str, str]:
    found = _SERVER.fullmatch(text)
    if found is None:
        raise UsageError(
            f"'{text}' does not say which server to call instead of which. Write --server OLD=NEW, both as"
            " URLs, or --server stdio:NAME='COMMAND'."
        )
    return found[1], found[2]


def _secret(text: str) -> tuple[str, str]:
    digits, equals, variable = text.partition("=")
    if not equals or not re.fullmatch(r"[0-9a-f]{12}", digits):
        # The text is not shown: it may be the secret itself.
        raise UsageError(
            "--secret takes the twelve digits of a mark and the name of an environment variable, as in"
            " 0123456789ab=MY_PASSWORD."
        )
    if variable not in os.environ:
        raise UsageError(f"The environment variable of --secret {digits} is not set.")
    return digits, os.environ[variable]


def _with_commands(connection: ConnectionOptions, servers: list[str] | tuple[str, ...]) -> ConnectionOptions:
    commands = [f"{found[1]}={found[2]}" for text in servers if (found := _STDIO.fullmatch(text))]
    return replace(connection, stdio=[*(connection.stdio or ()), *commands]) if commands else connection


def _check_connection(connection: ConnectionOptions) -> None:
    """Refuses options that say who to be at one server: a file names several, and each has its own."""
    said = connection.credential or connection.bearer_env or connection.bearer_prompt or connection.header
    if said:
        raise UsageError(
            "Credentials and headers are those that the file names. Allow a credential with --with-credential"
            " NAME, or name one for a server: --server OLD=https://host/mcp#credential=NAME."
        )


def _check_files(file: Path, out: Path | None, html: Path | None, audit: Path | None) -> None:
    check_ending(out, (".csv", ".parquet"))
    if html is not None and html.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"{html} should end in .html: it gets a page for a browser.")
    if audit is not None and audit.suffix.lower() != ".jsonl":
        raise UsageError(f"{audit} should end in .jsonl: it gets one line of JSON per call.")
    for written in (out, audit):
        if written is not None and written.resolve() == file.resolve():
            raise UsageError(f"{written} is the file to replay. Write into another one.")


def _journal(file: Path | None, run: str) -> Any:
    from contextlib import nullcontext

    from ..audit.journal import Journal, JournalError

    if file is None:
        return nullcontext()
    try:
        return Journal(file, run=run, about="knime-mcp replay", append=True)
    except JournalError as error:
        raise CommandError(f"{error}. Name another file for --audit.") from None


def _call_json(call: ReplayedCall) -> dict[str, Any]:
    record = call.recorded.record
    found: dict[str, Any] = {
        "run": record.run or None,
        "call": record.call or None,
        "tool_name": record.tool_name,
        "server": record.server,
        "input_row": record.input_row,
        "verdict": call.verdict.value,
        "reason": call.reason,
        "changes": list(call.changes) or None,
        "patch": None if call.patch is None else json.loads(call.patch),
        "new_status": None if call.new is None else call.new.status.value,
    }
    return {name: value for name, value in found.items() if value is not None}
