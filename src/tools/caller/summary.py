"""Counts and examples of a run of the Caller, for the node's one warning and for its view.

Both are collected as calls finish, so that only a few calls are kept in memory.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from ...audit.record import CallStatus
from ...types.short_texts import beginning, counted
from ..hidden_text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...audit.record import CallRecord
    from ...runs.one_call import CallOutcome
    from ...types.tool import Tool

_SHOWN_CALLS: Final = 50
_SHOWN_TEXT: Final = 2000
_SHOWN_NAMES: Final = 8
_SHOWN_NOTES: Final = 5


@dataclass(slots=True)
class RunSummary:
    """Counts and examples of a run.

    Attributes:
        total: The number of calls to make.
        statuses: The number of calls by status.
        failures: The first calls without a result.
        successes: The first calls with a result.
        tools: The tools that were called.
        unmatched: Columns of the parameter table that match no parameter.
        coerced: Calls whose arguments were converted.
        first_coercion: The conversion in the first of these calls, in words.
        notes: Further warnings, each once.
        resumed: Calls that were taken over from an earlier run.
        unfit: Structured values that did not fit their column.
        absent: Properties with a structured column that no structured result had.
        properties: Some properties that structured results had.
    """

    total: int
    statuses: Counter[CallStatus] = field(default_factory=Counter[CallStatus])
    failures: list[CallRecord] = field(default_factory=list["CallRecord"])
    successes: list[CallRecord] = field(default_factory=list["CallRecord"])
    tools: dict[tuple[str | None, str], Tool] = field(default_factory=dict[tuple["str | None", str], "Tool"])
    unmatched: tuple[str, ...] = ()
    coerced: int = 0
    first_coercion: str = ""
    notes: dict[str, None] = field(default_factory=dict[str, None])
    resumed: int = 0
    unfit: int = 0
    absent: Iterable[str] = ()
    properties: Iterable[str] = ()

    @property
    def failed(self) -> int:
        """The number of calls without a result."""
        return self.statuses.total() - self.statuses[CallStatus.OK]

    @property
    def finished(self) -> int:
        """The number of calls that ended before the run was canceled."""
        return self.statuses.total() - self.statuses[CallStatus.CANCELED]

    def add(self, outcome: CallOutcome) -> None:
        """Adds the next finished call, in the order of the rows."""
        record = outcome.record
        self.statuses[record.status] += 1
        examples = self.successes if record.ok else self.failures
        if len(examples) < _SHOWN_CALLS:
            examples.append(_short(record))
        if outcome.tool is not None:
            self.tools.setdefault((record.server, outcome.tool.name), outcome.tool)
        if outcome.coercions:
            self.coerced += 1
            self.first_coercion = self.first_coercion or outcome.coercions[0]
        if outcome.note:
            self.notes[outcome.note] = None
        if record.resumed_from:
            self.resumed += 1

    def warning(self) -> str | None:
        """All warnings, one sentence each; None without warnings."""
        sentences = [self._failures()] if self.failed else []
        if self.unmatched:
            columns = "the column" if len(self.unmatched) == 1 else "the columns"
            sentences.append(f"No tool has a parameter for {columns} {_listed(self.unmatched)}: not sent.")
        if self.coerced:
            sentences.append(
                f"Converted arguments of {counted(self.coerced, 'call')}: {self.first_coercion}."
            )
        sentences += [f"{note.rstrip('.')}." for note in islice(self.notes, _SHOWN_NOTES)]
        if len(self.notes) > _SHOWN_NOTES:
            sentences.append(f"And {len(self.notes) - _SHOWN_NOTES} more of this kind.")
        if self.unfit:
            values = counted(self.unfit, "structured value")
            sentences.append(f"Missing, because they did not fit the type of their column: {values}.")
        if self.absent and self.statuses[CallStatus.OK]:
            there = f"there are {_listed(sorted(self.properties))}"
            there = there if self.properties else "all there is stands in 'Result'"
            sentences.append(f"No structured result has {_listed(self.absent)}; {there}.")
        return visible(" ".join(sentences)) or None

    def _failures(self) -> str:
        first = self.failures[0]
        where = f"row {first.input_row}, " if first.input_row is not None else ""
        if self.total == 1:
            return f"The call failed: {first.error or first.status.value}"
        return (
            f"{self.failed} of {self.total} calls failed; first: {where}{first.error or first.status.value}"
        )


def _short(record: CallRecord) -> CallRecord:
    """The record without the tool, and with long texts cut to what the view shows."""
    return replace(
        record,
        tool=None,
        arguments=_cut(record.arguments),
        result=_cut(record.result),
        structured_result=_cut(record.structured_result),
        error=_cut(record.error),
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else beginning(text, _SHOWN_TEXT)


def _listed(names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    more = [f"and {len(quoted) - _SHOWN_NAMES} more"] if len(quoted) > _SHOWN_NAMES else []
    return ", ".join(quoted[:_SHOWN_NAMES] + more)
