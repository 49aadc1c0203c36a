"""Replay: makes the calls on record again, as far as that changes nothing, and compares the results.

Safe by default: an MCP tool is called only if the server's current definition declares it as read-only and is
the same as the recorded one. A server's word is not proof; but a tool that was not read-only when it was
recorded cannot become callable by a new annotation, because its definition has changed. All other MCP tools
get a dry run: their arguments are checked against the current definition, and nothing is sent. A workflow can
do anything, and runs only if a person names it.

Calls are made in recorded order. Read-only calls may overlap; every other call waits for all before it.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..audit.calls_table import is_journal, records_of
from ..audit.record import CallStatus
from ..audit.table_formats import read_table_file
from ..audit.verify import verify_file, verify_table
from ..client.clock import POLL_SECONDS
from ..types.columns import ROW_ID, arrow_columns
from ..types.errors import Canceled, MCPError
from ..types.texts import counted
from ..types.tool import WorkflowTool
from .recorded_calls import JournalCalls, RecordedCall, ReplayedCall, ReplayVerdict
from .replay_comparison import Comparison, compare, learn
from .replay_decision import Decider, ReadyToReplay
from .replay_rules import ReplayRules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from ..audit.record import CallRecord
    from ..audit.verdicts import Verification
    from ..types.columns import ColumnKind
    from ..types.tool import Tool
    from .engine import Run
    from .replay_decision import ReplayOptions
    from .replay_rules import ReplayRule


_AHEAD: Final = 4
_ROWS_PER_PIECE: Final = 256
_PAUSE_SECONDS: Final = 1.1  # between two calls of a tool that are to tell what differs by itself: a clock
_MOST_PAUSES: Final = 3  # for each tool
_Made: TypeAlias = "tuple[CallRecord, CallRecord | None]"


@dataclass(slots=True)
class Replayer:
    """Replays the calls of one table or file."""

    run: Run  # the run that the new calls belong to; its journal has them as they finish
    options: ReplayOptions  # the options of the replay
    is_canceled: Callable[[], bool] = lambda: False  # called in the calling thread, at least every 0.25 s
    # called once if the replay ends early, so that calls in flight stop
    on_cancel: Callable[[], None] = lambda: None
    # what differed between two calls a moment apart; it counts for all calls that end later
    learned: ReplayRules = field(init=False, default_factory=ReplayRules)
    _pauses: Counter[str | None] = field(init=False, default_factory=Counter["str | None"])

    def __post_init__(self) -> None:
        self.run.secrets.learn(self.options.secrets.values())

    def replay_all(
        self,
        recording: Recording,
        *,
        take: Callable[[ReplayedCall], None],
        write: Callable[[list[ReplayedCall]], None],
        on_finished: Callable[[int], None],
    ) -> ReplaySummary:
        """Replays a recording, and ends the run. A person may have stopped it, see `ReplaySummary.canceled`.

        ``take`` is called with each replayed call, in recorded order; ``write`` with them in pieces, for
        tables, and once with none if there are none; ``on_finished`` with the number of finished calls.
        """
        summary = ReplaySummary(recording.verification, self.options.rules)
        if recording.verification.is_false and not (self.options.force_altered or self.options.dry_run):
            raise _altered(recording.verification)
        piece: list[ReplayedCall] = []
        with self.run:
            try:
                for call in self.replay(recording.calls):
                    summary.add(call)
                    take(call)
                    piece.append(call)
                    if len(piece) == _ROWS_PER_PIECE:
                        write(piece)
                        piece = []
                    on_finished(summary.counts.total())
            except Canceled:
                summary.canceled = True
                self.run.close("canceled")
            summary.learned = self.learned
            if piece or not summary.counts:
                write(piece)
        return summary

    def replay(self, calls: Collection[RecordedCall]) -> Iterator[ReplayedCall]:
        """Replays calls, which are made and reported in the order in which they come.

        Raises `Canceled` if a person stopped the replay; calls in flight were canceled and have ended.
        """
        decider = Decider(self.run, self.options, calls, self.is_canceled)
        # The calls in their order, finished or not: what is reported keeps it while calls overlap.
        window: deque[ReplayedCall | tuple[ReadyToReplay, Future[_Made]]] = deque()
        stopped = False
        with ThreadPoolExecutor(self.options.concurrency, thread_name_prefix="mcp-replay") as pool:
            try:
                for recorded in calls:
                    if stopped:
                        yield _not_made(recorded)
                        continue
                    step = decider.decide(recorded)
                    overlaps = isinstance(step, ReplayedCall) or step.overlaps
                    # A call that changes something is made alone, after all before it:
                    # their order may matter.
                    yield from self._drained(window, room=self.options.concurrency if overlaps else 0)
                    if isinstance(step, ReplayedCall):
                        window.append(step)
                    elif isinstance(step.call.tool, WorkflowTool):
                        # KNIME runs a workflow in the context of the thread that executes the node.
                        window.append(self._finished(step, self._make(step)))
                    else:
                        window.append((step, pool.submit(self._make, step)))
                    if not overlaps or self.options.stop_at_first_difference:
                        for done in self._drained(window, room=0):
                            stopped = self.options.stop_at_first_difference and not done.verdict.is_good
                            yield done
                yield from self._drained(window, room=0)
            except BaseException:
                for entry in window:
                    if isinstance(entry, tuple):
                        entry[1].cancel()
                self.on_cancel()
                raise

    def _drained(
        self, window: deque[ReplayedCall | tuple[ReadyToReplay, Future[_Made]]], *, room: int
    ) -> Iterator[ReplayedCall]:
        """Yields finished calls, and waits until fewer than `room` calls are in flight."""
        while True:
            if self.is_canceled():
                raise Canceled("The replay was canceled")
            while window:
                entry = window[0]
                if isinstance(entry, ReplayedCall):
                    window.popleft()
                    yield entry
                elif entry[1].done():
                    window.popleft()
                    yield self._finished(entry[0], entry[1].result())
                else:
                    break
            flying = [e[1] for e in window if isinstance(e, tuple) and not e[1].done()]
            if not window or (room and len(flying) < room and len(window) < room * _AHEAD):
                return
            wait(flying, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)

    def _make(self, ready: ReadyToReplay) -> _Made:
        """Makes a call; twice if that is wanted and changes nothing, so far apart that clocks differ."""
        first = self.run.call(ready.call).record
        if not (self.options.twice and ready.overlaps and first.attempts):
            return first, None
        # The first calls of a tool show whether it has a clock; a pause for each would take hours.
        self._pauses[first.tool_name] += 1
        until = time.monotonic() + (_PAUSE_SECONDS if self._pauses[first.tool_name] <= _MOST_PAUSES else 0)
        while time.monotonic() < until and not self.is_canceled():
            time.sleep(POLL_SECONDS)
        return first, self.run.call(ready.call).record

    def _finished(self, ready: ReadyToReplay, made: _Made) -> ReplayedCall:
        new, again = made
        if again is not None:
            self.learned = self.learned.and_(learn(new, again))
        recorded = ready.recorded.record
        has_answer = ready.recorded.has_result or recorded.error is not None
        verdict, reason, found = ReplayVerdict.SAME, None, Comparison(None)
        match new.status:
            case CallStatus.CANCELED:
                verdict, reason = ReplayVerdict.SKIPPED, new.error
            case CallStatus.NOT_FOUND:
                verdict, reason = ReplayVerdict.TOOL_MISSING, new.error
            case CallStatus.FAILED if new.result is None and new.structured_result is None:
                verdict, reason = ReplayVerdict.FAILED, new.error
            case _ if not has_answer:
                verdict = ReplayVerdict.SKIPPED
                reason = f"It is '{new.status.value}' now, but the table has no column Result to compare with"
            case _:
                found = compare(recorded, new, self.options.rules.and_(self.learned.rules))
                if found.patch is not None:
                    verdict = ReplayVerdict.DIFFERENT
                    reason = _status_change(recorded, new)
                reason = ". ".join(filter(None, (reason, _of_rules(found)))) or None
        for message in ready.remarks:
            reason = f"{message}. {reason}" if reason else message
        return ReplayedCall(
            recorded=ready.recorded,
            verdict=verdict,
            reason=reason,
            new=new,
            patch=found.patch,
            rules=found.used,
            changes=ready.changes,
            digest=ready.digest,
        )


def _altered(verification: Verification) -> MCPError:
    verdict = verification.verdict
    found = next(f.text for f in verification.findings if f.verdict is verdict)
    return MCPError(
        f"The records are {verification.in_words}, so nothing was called: {found.rstrip('.')}",
        fix="Restore them; or, if you know what was changed, use knime-mcp replay --force-altered",
    )


def _status_change(recorded: CallRecord, new: CallRecord) -> str | None:
    if recorded.status is new.status:
        return None
    error_text = f": {new.error}" if new.error else ""
    return f"It was '{recorded.status.value}' on record and is '{new.status.value}' now{error_text}"


def _of_rules(found: Comparison) -> str | None:
    """What the rules have to do with the outcome of a comparison."""
    said: list[str] = []
    if found.used:
        said.append(f"Left out by rules: {', '.join(map(str, found.used))}")
    if found.would_allow:
        listed = ", ".join(map(str, found.would_allow))
        said.append(f"Only order or rounding differs; these rules would allow it: {listed}")
    return ". ".join(said) or None


def _not_made(recorded: RecordedCall) -> ReplayedCall:
    reason = "The replay was to stop at the first difference"
    return ReplayedCall(recorded=recorded, verdict=ReplayVerdict.SKIPPED, reason=reason)


REPLAY_COLUMNS: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Verdict", "string"),
    ("Reason", "string"),
    ("Patch", "string"),
    ("Tool name", "string"),
    ("Tool type", "string"),
    ("Server", "string"),
    ("Run", "string"),
    ("Call", "int32"),
    ("Iteration", "int32"),
    ("Input row", "string"),
    ("Arguments", "string"),
    ("Recorded status", "string"),
    ("Recorded result", "string"),
    ("Recorded structured result", "string"),
    ("Recorded error", "string"),
    ("Recorded at", "moment"),
    ("Recorded duration (s)", "double"),
    ("Recorded digest", "string"),
    ("New status", "string"),
    ("New result", "string"),
    ("New structured result", "string"),
    ("New error", "string"),
    ("New at", "moment"),
    ("New duration (s)", "double"),
    ("New digest", "string"),
    ("New server", "string"),
)
"""Name and kind of each column of the table *Replay*. Results that were JSON when recorded stay JSON."""

SUMMARY_COLUMNS: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Verdict", "string"),
    ("Calls", "int32"),
    ("Details", "string"),
)
"""Name and kind of each column of the table *Summary*: a row per verdict and one for the records' chain."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls to replay in recorded order (by run and number), and what verifying their records found."""

    calls: Collection[RecordedCall]
    verification: Verification


def read_recording(file: Path, *, head: str | None = None) -> Recording:
    """Reads a journal, or a table in a file.

    Args:
        file: A journal, or a table in one of `table_formats.FORMATS`.
        head: The hash that the last call must have, see `verify.verify_file`.

    Returns:
        The calls.

    Raises:
        JournalError: The journal cannot be read.
        TableError: The table cannot be read, or holds no calls.
        OSError: The file cannot be opened.
    """
    if is_journal(file):
        return Recording(JournalCalls(file), verify_file(file, head=head))
    return recording_of(read_table_file(file).table, head=head)


def recording_of(
    table: pa.Table,
    tools: Sequence[Tool | None] | None = None,
    row_ids: Sequence[str] | None = None,
    *,
    head: str | None = None,
) -> Recording:
    """Reads a table *Tool calls*; columns may be missing.

    Args:
        table: The table; needs *Tool name* and *Arguments*.
        tools: The tools of the rows, if the caller has read them already.
        row_ids: The RowIDs, if the table has any.
        head: See `read_recording`.

    Returns:
        The calls.

    Raises:
        TableError: A column that is needed is missing, or a cell cannot be read.
    """
    has_result = not {"Result", "Structured result"}.isdisjoint(table.column_names)
    calls = [
        RecordedCall.of(record, place, has_result=has_result, has_secrets="Secrets" in table.column_names)
        for place, record in enumerate(records_of(table, tools), start=1)
    ]
    if tools is not None:
        calls = [replace(call, tool=tool) for call, tool in zip(calls, tools, strict=True)]
    if row_ids is not None:
        calls = [replace(call, row_id=row_id) for call, row_id in zip(calls, row_ids, strict=True)]
    # A table may have been sorted by others, and calls may depend on the ones before.
    calls.sort(key=lambda call: (call.record.run, call.record.call))
    return Recording(calls, verify_table(table, tools, head=head))


def replay_table(calls: Iterable[ReplayedCall]) -> pa.Table:
    """The table *Replay* with `REPLAY_COLUMNS`, without RowIDs."""
    import pyarrow as pa

    return pa.table(arrow_columns(REPLAY_COLUMNS, [_row(call) for call in calls]))


@dataclass(slots=True)
class ReplaySummary:
    """Counts of a replay, and its first differences.

    `called` counts the calls that were made; `first` has the first call of each verdict that needs attention,
    and `reasons` how many times each reason was given. `canceled` says whether a person stopped the replay.
    """

    verification: Verification
    rules: ReplayRules = field(default_factory=ReplayRules)  # those that were given
    learned: ReplayRules = field(default_factory=ReplayRules)
    used: Counter[ReplayRule] = field(
        default_factory=Counter["ReplayRule"]
    )  # how many calls each left something out of
    counts: Counter[ReplayVerdict] = field(default_factory=Counter[ReplayVerdict])
    called: int = 0
    first: dict[ReplayVerdict, ReplayedCall] = field(default_factory=dict[ReplayVerdict, "ReplayedCall"])
    reasons: dict[ReplayVerdict, Counter[str]] = field(default_factory=dict[ReplayVerdict, Counter[str]])
    canceled: bool = False

    @property
    def is_good(self) -> bool:
        """True if every call that ran is the same, no tool is missing or changed, and no call failed."""
        return all(verdict.is_good for verdict in self.counts)

    def add(self, call: ReplayedCall) -> None:
        self.counts[call.verdict] += 1
        self.called += call.new is not None and bool(call.new.attempts)
        self.used.update(call.rules)
        self.first.setdefault(call.verdict, call)
        if call.reason:
            self.reasons.setdefault(call.verdict, Counter())[call.reason] += 1

    def text(self) -> str:
        """The outcome in one line, such as ``3 same, 1 different``."""
        counts = [
            f"{self.counts[verdict]} {verdict.value}" for verdict in ReplayVerdict if self.counts[verdict]
        ]
        return ", ".join(counts) or "no calls"

    def rule_texts(self) -> list[str]:
        """Each rule, and how many calls it left something out of: nothing is ignored silently."""
        rules = self.rules.and_(self.learned.rules).rules
        return [
            f"{rule}{'' if rule in self.rules.rules else ' (learned)'}: left something out of"
            f" {counted(self.used[rule], 'call')}"
            for rule in rules
        ]

    def warning(self) -> str | None:
        """Everything that needs a person's attention, in one text, or None."""
        sentences: list[str] = []
        if not self.is_good:
            bad = next(verdict for verdict in self.first if not verdict.is_good)
            first = self.first[bad]
            record = first.recorded.record
            where = f"call {record.call}" if record.call else f"row {first.recorded.place}"
            why = f": {first.reason.rstrip('.')}" if first.reason else ""
            sentences.append(
                f"{self.text()}. First: {where} of {record.tool_name or 'no tool'}, {bad.value}{why}."
            )
        if not self.verification.consistent:
            problems = " ".join(finding.text for finding in self.verification.findings)
            sentences.append(f"The records are {self.verification.in_words}: {problems}")
        return " ".join(sentences) or None

    def table(self) -> pa.Table:
        """Makes the table *Summary*, with RowIDs as its first column."""
        import pyarrow as pa

        rows = [(verdict.value, self.counts[verdict], self._details(verdict)) for verdict in ReplayVerdict]
        checked = self.verification
        remarks = [finding.text for finding in checked.findings] + list(checked.notes)
        count = sum(run.count for run in checked.runs)
        rows.append((checked.in_words, count, "\n".join(remarks) or None))
        names = [*(verdict.value for verdict in ReplayVerdict), "records"]
        if texts := self.rule_texts():
            rows.append(("rules", sum(1 for rule in self.used if self.used[rule]), "\n".join(texts)))
            names.append("rules")
        row_ids = pa.array(names, pa.string())
        return pa.table({ROW_ID: row_ids, **arrow_columns(SUMMARY_COLUMNS, rows)})

    def _details(self, verdict: ReplayVerdict) -> str | None:
        reasons = self.reasons.get(verdict, Counter())
        return "\n".join(f"{count} × {reason}" for reason, count in reasons.most_common(20)) or None


def _row(call: ReplayedCall) -> tuple[Any, ...]:
    record, new = call.recorded.record, call.new
    now = (
        (None,) * 6
        if new is None
        else (new.status.value, new.result, new.structured_result, new.error, new.moment, new.duration)
    )
    return (
        *(call.verdict.value, call.reason, call.patch),
        *(record.tool_name, record.tool_type, record.server),
        *(record.run or None, record.call or None, record.iteration, record.input_row, record.arguments),
        *(record.status.value, record.result, record.structured_result, record.error),
        *(record.moment, record.duration, record.digest),
        *(*now, call.digest, None if new is None else new.server),
    )
