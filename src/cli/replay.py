"""``knime-mcp replay``: makes recorded calls again and compares the results."""

from __future__ import annotations

import json
import os
import re
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..audit.table_formats import WRITABLE, either
from ..runs.replay_decision import ReplayOptions, RowSelection, routes_of
from ..runs.replay_rules import ReplayRules, entry_of
from ..runs.replaying import Replayer, ReplaySummary, read_recording, replay_table
from ..tools.node_settings.named_servers import known_entries
from ..tools.views.replay_page import replay_page, replay_step
from ..tools.views.run_page import Steps
from ..types.errors import MCPError
from ..types.routing import OPTIONS, ServerRoute
from ..types.texts import counted
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions, is_command
from .executors import Concurrency, ExecutorOption, call_executor, check_executor
from .files import (
    TableFile,
    check_journal,
    check_output,
    check_page,
    check_table,
    is_same,
    open_journal,
    read_text,
    reading_records,
    write_page,
    writing,
)
from .named_servers import is_known
from .sessions import CommandSessions
from .shared_options import SELDOM, RawCsvOption, RecordsArgument, options_under, pairs, seldom, takes
from .terminal import batch_progress, complain, note, one_line, print_json, say, show_table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..runs.recorded_calls import RecordedCall, ReplayedCall
    from ..runs.replaying import Recording


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


_MOST_PRINTED = 200


class ReplayRun:
    """A replay from the command line; its `summary` and the calls `shown` on the page.

    With `as_json`, `print` prints JSON for other programs.
    """

    def __init__(
        self,
        recording: Recording,
        options: ReplayOptions,
        connection: ConnectionOptions,
        interrupt: Interrupt,
        *,
        as_json: bool,
    ) -> None:
        self._recording = recording
        self._options = options
        self._connection = connection
        self._interrupt = interrupt
        # Only the printed values; results are not kept, as they may be large.
        self._json: list[dict[str, Any]] | None = [] if as_json else None
        self._rows: list[Sequence[str]] = []
        self._bad_rows: list[Sequence[str]] = []
        self.summary = ReplaySummary(recording.verification, options.rules)
        self.shown = Steps()

    def execute(
        self, executor: str, concurrency: int | None, audit: Path | None, out: Path | None, *, raw_csv: bool
    ) -> None:
        """Replays with the options ``--executor`` (checked) and ``--concurrency``, and writes the files."""
        with CommandSessions(self._connection, self._interrupt) as sessions:
            if self._options.credentials or self._options.servers:  # otherwise no credentials are sent
                for route in routes_of(self._recording.calls, self._options):
                    with suppress(MCPError):  # the calls that need it report the error
                        sessions.credentials(route.credential)
            run = sessions.run_for([])
            with ExitStack() as stack:
                at_once = stack.enter_context(call_executor(executor, concurrency, self._connection, run))
                open_journal(audit, run, about="knime-mcp replay", what={"kind": "replay"})
                table_file = None if out is None else stack.enter_context(TableFile(out, raw_csv=raw_csv))
                progress = stack.enter_context(batch_progress(len(self._recording.calls)))
                replayer = Replayer(
                    run,
                    replace(self._options, concurrency=at_once),
                    is_canceled=self._interrupt,
                    on_cancel=sessions.stop.set,
                )

                def write(calls: list[ReplayedCall]) -> None:
                    if table_file is not None:
                        table_file.write(replay_table(calls))

                self.summary = replayer.replay_all(
                    self._recording, take=self._take, write=write, on_finished=progress
                )
        if out is not None:
            note(f"Wrote {counted(self._done, 'row')} to {out}")

    def _take(self, call: ReplayedCall) -> None:
        self.shown.add(replay_step(call))
        if self._json is not None:
            self._json.append(_call_json(call))
            return
        if len(self._rows) < _MOST_PRINTED:
            self._rows.append(_row(call))
        if not call.verdict.is_good and len(self._bad_rows) < _MOST_PRINTED:
            self._bad_rows.append(_row(call))

    def page(self, name: str) -> str:
        return replay_page(f"Replay of {name}", self.summary, self.shown)

    def print(self) -> None:
        """Prints the result, for people or for other programs."""
        if self._json is not None:
            print_json(
                {
                    "good": self._good,
                    "records": self._recording.verification.verdict.value,
                    "counts": {verdict.value: count for verdict, count in self.summary.counts.items()},
                    "rules": [
                        {**entry_of(rule), "calls": self.summary.used[rule]}
                        for rule in self._options.rules.rules
                    ],
                    "learned": [entry_of(rule) for rule in self.summary.learned.rules],
                    "calls": self._json,
                }
            )
            return
        # Of many calls only those that need attention: printing all would take longer than the replay.
        rows = self._rows if self._done <= _MOST_PRINTED else self._bad_rows
        if rows:
            heads = ("run", "call", "verdict", "tool", "arguments", "why")
            first = 0 if len(self._recording.verification.runs) > 1 else 1
            show_table(None, heads[first:], [row[first:] for row in rows])
        if len(rows) < self._done:
            note(f"{counted(self._done - len(rows), 'more call')} not shown. All: --out FILE, or --json")
        for text in self.summary.rule_texts():
            note(f"Rule {text}")
        say(self.summary.text(), "bold green" if self._good else "bold red")

    def write_rules(self, file: Path) -> None:
        """Writes the rules that were given and learned."""
        rules = self._options.rules.and_(self.summary.learned.rules)
        with writing(file):
            file.write_text(rules.to_json(), encoding="utf-8")
        note(f"Wrote {counted(len(rules.rules), 'rule')} to {file}")

    def report(self) -> ExitCode:
        """Writes the warnings and returns the exit code."""
        checked = self._recording.verification
        for text in checked.unfinished:
            note(text)
        for finding in checked.findings:
            complain(f"Records {finding.verdict.value}: {finding.text}")
        if self.summary.canceled:
            complain(f"Canceled after {self._done:,} of {counted(len(self._recording.calls), 'call')}.")
            return ExitCode.CANCELED
        if not self.summary.called and self._done:
            note("No call was made: nothing was compared.")
        return ExitCode.OK if self._good else ExitCode.FAILED

    @property
    def _done(self) -> int:
        return self.summary.counts.total()

    @property
    def _good(self) -> bool:
        checked = self._recording.verification
        is_trusted = checked.has_heads and not checked.is_false
        return self.summary.is_good and is_trusted and not self.summary.canceled


def _row(call: ReplayedCall) -> tuple[str, ...]:
    record = call.recorded.record
    return (
        record.run,
        str(record.call or call.recorded.place),
        call.verdict.value,
        record.tool_name or "",
        one_line(record.arguments, 60),
        one_line(call.reason or call.patch, 90),
    )


def _call_json(call: ReplayedCall) -> dict[str, Any]:
    record = call.recorded.record
    members: dict[str, Any] = {
        "run": record.run or None,
        "call": record.call or None,
        "tool_name": record.tool_name,
        "server": record.server,
        "input_row": record.input_row,
        "verdict": call.verdict.value,
        "reason": call.reason,
        "changes": list(call.changes) or None,
        "rules": [str(rule) for rule in call.rules] or None,
        "patch": None if call.patch is None else json.loads(call.patch),
        "new_status": None if call.new is None else call.new.status.value,
    }
    return {name: value for name, value in members.items() if value is not None}


_SERVERS = r"(.+?)=((?:https?|stdio):.+)"
_TOOLS = r"\s*([^=]*[^=\s])\s*=\s*(.*\S)\s*"
_COMMAND = re.compile(r"stdio:([A-Za-z0-9][\w.-]*)=(?!https?://)(.+)", re.ASCII | re.DOTALL)
_ANOTHER = "https://another.invalid"
_SECRET = re.compile(r"[0-9a-f]{12}=.*", re.DOTALL)


def replay_options(settings: ReplaySettings, connection: ConnectionOptions) -> ReplayOptions:
    """Converts the command's settings into the options of the replay. Only named credentials may be sent.

    Servers that are commands are handled by `with_commands`.
    """
    servers = [_by_name(text, connection) for text in settings.server or () if not _COMMAND.fullmatch(text)]
    credentials = [text if "=" in text else f"{text}={text}" for text in settings.with_credential or ()]
    return ReplayOptions(
        also_call=tuple(settings.call or ()),
        call_changed=settings.call_changed,
        dry_run=settings.dry_run,
        force_altered=settings.force_altered,
        rows=RowSelection.parse(settings.rows),
        servers=pairs(
            servers,
            "--server",
            form=_SERVERS,
            wrong="does not say which server to call instead of which. Write --server OLD=NEW, both as URLs,"
            " or --server stdio:NAME='COMMAND', or the name of a server of knime-mcp config.",
        ),
        tools=pairs(
            settings.tool,
            "--tool",
            form=_TOOLS,
            wrong="does not say what a tool is called now. Write --tool OLD=NEW.",
        ),
        credentials=pairs(credentials, "--with-credential"),
        named_credentials_only=True,
        secrets=_secrets(settings.secret or ()),
        stop_at_first_difference=settings.stop,
        rules=_rules(settings),
        twice=settings.twice,
    )


def _by_name(text: str, connection: ConnectionOptions) -> str:
    """A server of `knime-mcp config` in place of its URL on record, of which a file alone starts nothing."""
    # Where no server has a name, a word alone is more likely half of OLD=NEW.
    route = None if "=" in text or not known_entries() else connection.by_name(text)
    return text if route is None else f"{route.url}={route.uri}"


def _rules(settings: ReplaySettings) -> ReplayRules:
    """The rules of the options, and those of the file."""
    given = ReplayRules.parse(settings.ignore or (), settings.unordered or (), settings.tolerance)
    if settings.rules is None:
        return given
    return given.and_(ReplayRules.of_json(read_text(settings.rules), str(settings.rules)).rules)


def with_commands(connection: ConnectionOptions, servers: Sequence[str]) -> ConnectionOptions:
    """Adds the commands that ``--server stdio:NAME='COMMAND'`` gives for servers on record."""
    commands = [f"{match[1]}={match[2]}" for text in servers if (match := _COMMAND.fullmatch(text))]
    return replace(connection, stdio=[*(connection.stdio or ()), *commands]) if commands else connection


def check_on_record(
    options: ReplayOptions, calls: Collection[RecordedCall], connection: ConnectionOptions
) -> None:
    """Refuses options with calls, servers or tools that are not on record, which are usually mistakes."""
    started = {server.url for server in connection.servers} | set(connection.named)
    for route in routes_of(calls, options):
        if is_command(route) and route.url not in started and is_known(name := route.url[len("stdio:") :]):
            note(f"{route.url} is a server of knime-mcp config, too, which is used with: --server {name}")
    if calls and not any(options.rows.has(call.record, call.place) for call in calls):
        numbers = sorted(call.record.call or call.place for call in calls)
        raise UsageError(f"No call on record is one of --rows; they are {numbers[0]} to {numbers[-1]}.")
    routes = routes_of(calls, ReplayOptions()) if options.servers else set[ServerRoute]()
    for old in options.servers:
        # By the rules of the replay themselves: a beginning of a URL counts as well.
        if all(ReplayOptions(servers={old: _ANOTHER}).route(route) == route for route in routes):
            named = ", ".join(sorted({route.url for route in routes})) or "none"
            raise UsageError(f"No call on record is to the server {old} of --server; they are to: {named}.")
    tools = {call.record.tool_name for call in calls} | {call.tool.name for call in calls if call.tool}
    for old in options.tools:
        if old not in tools:
            named = ", ".join(sorted(filter(None, tools))) or "none"
            raise UsageError(f"No call on record is of the tool {old} of --tool; they are of: {named}.")


def _secrets(texts: Sequence[str]) -> dict[str, str]:
    if not all(map(_SECRET.fullmatch, texts)):
        # The text is not shown, as it may be the secret itself.
        raise UsageError(
            "--secret takes the twelve digits of a mark and the name of an environment variable, as in"
            " 0123456789ab=MY_PASSWORD."
        )
    variables = pairs(texts, "--secret")
    for digits, variable in variables.items():
        if variable not in os.environ:
            raise UsageError(f"The environment variable of --secret {digits} is not set.")
    return {digits: os.environ[variable] for digits, variable in variables.items()}
