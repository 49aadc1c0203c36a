"""A replay from the command line: makes the calls, writes the files, and prints the result."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..runs.replay_comparison import entry_of
from ..runs.replaying import Replayer, ReplaySummary, replay_table, routes_of
from ..tools.views.replay_page import replay_page, replay_step
from ..tools.views.run_page import Steps
from ..types.errors import MCPError
from ..types.texts import counted
from .command_errors import ExitCode
from .executors import call_executor
from .files import TableFile, open_journal, writing
from .sessions import CommandSessions
from .terminal import batch_progress, complain, note, one_line, print_json, say, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..runs.replaying import Recording, ReplayedCall, ReplayOptions
    from .command_errors import Interrupt
    from .connection_options import ConnectionOptions

_MOST_PRINTED = 200


class ReplayRun:
    """A replay from the command line; its `summary` and the calls `shown` on the page.

    `head` is the hash that the last call of a run on record must have, None for any; with `as_json`, `print`
    prints JSON for other programs.
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
