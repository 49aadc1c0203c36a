"""Tables around a replay: the table *Tool calls* read as calls, the tables *Replay* and *Summary* written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ...types.column_kinds import ROW_ID, arrow_columns
from ..journal import SUFFIX
from ..table import read_table, records_of
from ..verify import verify_file, verify_table
from .calls import RecordedCall, ReplayVerdict
from .journal_calls import JournalCalls

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from ...types.column_kinds import ColumnKind
    from ...types.tool import Tool
    from ..verify import Verification
    from .calls import ReplayedCall

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
    """The calls to replay.

    Attributes:
        calls: The calls, in recorded order: by run and number.
        verification: The result of verifying the records.
    """

    calls: Collection[RecordedCall]
    verification: Verification


def read_recording(file: Path, *, head: str | None = None) -> Recording:
    """Reads a journal, or a table in a file.

    Args:
        file: A ``.jsonl``, ``.parquet``, ``.csv`` or ``.tsv`` file.
        head: The hash that the last call must have, see `verify.verify_file`.

    Returns:
        The calls.

    Raises:
        JournalError: The journal cannot be read.
        TableError: The table cannot be read, or holds no calls.
        OSError: The file cannot be opened.
    """
    if file.suffix.lower() == SUFFIX:
        return Recording(JournalCalls(file), verify_file(file, head=head))
    return recording_of(read_table(file), head=head)


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
        RecordedCall.of(record, place, has_result=has_result)
        for place, record in enumerate(records_of(table, tools), start=1)
    ]
    if tools is not None:
        calls = [replace(call, tool=tool) for call, tool in zip(calls, tools, strict=True)]
    if row_ids is not None:
        calls = [replace(call, row_id=row_id) for call, row_id in zip(calls, row_ids, strict=True)]
    calls.sort(key=lambda call: (call.record.run, call.record.call))
    return Recording(calls, verify_table(table, tools, head=head))


def replay_table(calls: Iterable[ReplayedCall]) -> pa.Table:
    """Makes the table *Replay*.

    Args:
        calls: The replayed calls, one row each.

    Returns:
        `REPLAY_COLUMNS`, without RowIDs.
    """
    import pyarrow as pa

    return pa.table(arrow_columns(REPLAY_COLUMNS, [_row(call) for call in calls]))


@dataclass(slots=True)
class ReplaySummary:
    """Counts of a replay, and its first differences.

    Attributes:
        verification: The result of verifying the records.
        counts: The number of calls by verdict.
        called: The number of calls that were made.
        first: The first call of each verdict that needs attention.
        reasons: The number of times that each reason was given, by verdict.
    """

    verification: Verification
    counts: Counter[ReplayVerdict] = field(default_factory=Counter[ReplayVerdict])
    called: int = 0
    first: dict[ReplayVerdict, ReplayedCall] = field(default_factory=dict[ReplayVerdict, "ReplayedCall"])
    reasons: dict[ReplayVerdict, Counter[str]] = field(default_factory=dict[ReplayVerdict, Counter[str]])

    @property
    def is_good(self) -> bool:
        """True if every call that ran is the same, no tool is missing or changed, and no call failed."""
        return all(verdict.is_good for verdict in self.counts)

    def add(self, call: ReplayedCall) -> None:
        """Counts a call.

        Args:
            call: The call.
        """
        self.counts[call.verdict] += 1
        self.called += call.new is not None
        self.first.setdefault(call.verdict, call)
        if call.reason:
            self.reasons.setdefault(call.verdict, Counter())[call.reason] += 1

    def text(self) -> str:
        """The outcome in one line, such as ``3 same, 1 different``."""
        counts = [
            f"{self.counts[verdict]} {verdict.value}" for verdict in ReplayVerdict if self.counts[verdict]
        ]
        return ", ".join(counts) or "no calls"

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
        if not self.verification.intact:
            problems = " ".join(finding.text for finding in self.verification.findings)
            sentences.append(f"The records are {self.verification.verdict.value}: {problems}")
        return " ".join(sentences) or None

    def table(self) -> pa.Table:
        """Makes the table *Summary*, with RowIDs as its first column."""
        import pyarrow as pa

        rows = [(verdict.value, self.counts[verdict], self._details(verdict)) for verdict in ReplayVerdict]
        checked = self.verification
        remarks = [finding.text for finding in checked.findings] + list(checked.notes)
        count = sum(run.count for run in checked.runs)
        rows.append((checked.verdict.value, count, "\n".join(remarks) or None))
        row_ids = pa.array([*(verdict.value for verdict in ReplayVerdict), "records"], pa.string())
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
