"""The values of a replay: a recorded call, and the verdict with its reasons."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO, Self

from ..audit.calls_table import tool_of
from ..audit.journal_lines import JournalError, JournalLine, part_file
from ..audit.journal_reading import JournalReading
from ..audit.record import CallRecord
from ..types.errors import ToolFormatError
from .server_questions import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..types.tool import Tool
    from .replay_rules import ReplayRule


class ReplayVerdict(StrEnum):
    """The outcome of replaying a call; the text of the *Verdict* column."""

    SAME = "same"
    DIFFERENT = "different"
    TOOL_CHANGED = "tool changed"
    """The tool's definition differs from the recorded one; the call was not made."""
    TOOL_MISSING = "tool missing"
    SKIPPED = "skipped"
    """Not made, and nothing is wrong as far as a dry run can tell; or made, and no result is on record."""
    FAILED = "failed"
    """The call could not be made, so that there is nothing to compare."""

    @property
    def is_good(self) -> bool:
        """True if the call needs no attention."""
        return self in (ReplayVerdict.SAME, ReplayVerdict.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call on record, at its place in the table or file, from 1.

    `tool` is None if its cell is lost, `row_id` outside KNIME. `has_result` is False if the record comes from
    a table that has lost the columns of results, `has_secrets` if that table does not say what is a mark.
    """

    record: CallRecord
    tool: Tool | None
    place: int
    row_id: str | None = None
    has_result: bool = True
    has_secrets: bool = True

    @property
    def names_no_server(self) -> bool:
        """True if there is a tool's name and nothing that says where the tool is."""
        return self.tool is None and not self.record.server and bool(self.record.tool_name)

    @property
    def tool_is_request(self) -> bool:
        """True if a request of the protocol stands in the place of the tool: such a one has no digest."""
        return self.record.tool_name in REQUESTS and self.record.digest is None

    @classmethod
    def of(cls, record: CallRecord, place: int, *, has_result: bool = True, has_secrets: bool = True) -> Self:
        """The call of a record with its tool; the tool is None if it cannot be read.

        Spreadsheets cut off long cells.
        """
        try:
            tool = tool_of(record.tool) if record.tool else None
        except ToolFormatError:
            tool = None
        return cls(record=record, tool=tool, place=place, has_result=has_result, has_secrets=has_secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """A recorded call and the outcome of its replay."""

    recorded: RecordedCall  # the call on record
    verdict: ReplayVerdict  # the verdict of the comparison, or why there was no comparison
    reason: str | None = None  # the reason for the verdict, as a sentence, or None
    new: CallRecord | None = None  # the record of the new call, None if the call was not made
    # JSON text of the patch from the recorded to the new result, None without a difference
    patch: str | None = None
    rules: tuple[ReplayRule, ...] = ()  # the rules that left something out of the comparison
    changes: tuple[str, ...] = ()  # parts of the tool's definition that differ from the recorded ones
    digest: str | None = None  # digest of the current definition, None if it is not known


class JournalCalls(Collection[RecordedCall]):
    """The calls of a journal in recorded order, read again by each iteration.

    An iteration raises `JournalError` if the file was changed since it was opened.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        # Where the lines begin, and in which file of the journal: twelve bytes for each of a million calls.
        self._starts, self._parts = array("Q"), array("I")
        self._order: list[int] = []  # none, if the calls are in order already
        last, in_order = ("", 0), True
        for line, record in JournalReading(file):
            self._starts.append(line.start)
            self._parts.append(line.part)
            in_order, last = in_order and (record.run, record.call) >= last, (record.run, record.call)
        if not in_order:  # files that somebody put one behind the other
            keys = [(call.record.run, call.record.call) for call in self]
            self._order = sorted(range(len(keys)), key=keys.__getitem__)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[RecordedCall]:
        with ExitStack() as stack:
            files: dict[int, BinaryIO] = {}
            for index in self._order or range(len(self._starts)):
                part, start = self._parts[index], self._starts[index]
                if part not in files:
                    files[part] = stack.enter_context(part_file(self._file, part).open("rb"))
                files[part].seek(start)
                line = JournalLine(0, start, files[part].readline())
                try:
                    record = CallRecord.from_json(line.entry())
                except (ValueError, RecursionError):
                    raise JournalError(f"{self._file.name} was changed while it was read") from None
                yield RecordedCall.of(record, index + 1)

    def __contains__(self, call: object) -> bool:
        return any(call == recorded for recorded in self)
