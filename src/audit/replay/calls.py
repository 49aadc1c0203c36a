"""The values of a replay: a call on record, the verdict on it, and what it is based on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from ...types.errors import ToolFormatError
from ..table import tool_of

if TYPE_CHECKING:
    from ...types.tool import Tool
    from ..record import CallRecord


class ReplayVerdict(StrEnum):
    """The outcome of replaying a call; the text of the *Verdict* column."""

    SAME = "same"
    DIFFERENT = "different"
    TOOL_CHANGED = "tool changed"
    """The definition is not the one on record; the call was not made."""
    TOOL_MISSING = "tool missing"
    SKIPPED = "skipped"
    """Not made, as far as is known without harm: it would fit the tool as it is now."""
    FAILED = "failed"
    """Could not be made, so that there is nothing to compare."""

    @property
    def is_good(self) -> bool:
        """Whether nobody needs to look into the call."""
        return self in (ReplayVerdict.SAME, ReplayVerdict.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call on record.

    Attributes:
        record: The record.
        tool: The tool, None where its cell is lost.
        place: Its place in the table or file, from 1.
        row_id: RowID of its row, None outside KNIME.
    """

    record: CallRecord
    tool: Tool | None
    place: int
    row_id: str | None = None

    @classmethod
    def of(cls, record: CallRecord, place: int) -> Self:
        """The call of a record, with the tool in it; one that cannot be read is lost.

        Spreadsheets cut long cells off.
        """
        try:
            tool = tool_of(record.tool) if record.tool else None
        except ToolFormatError:
            tool = None
        return cls(record=record, tool=tool, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """A call on record, and what became of it.

    Attributes:
        recorded: The call on record.
        verdict: What came of comparing them.
        reason: Why, as a sentence; None where the verdict says it all.
        new: The record of the call that was made now, None if none was.
        patch: JSON text of the patch from the recorded to the new result, None without a difference.
        changes: Parts of the tool's definition that are not those on record.
        digest: Digest of the present definition, None where it is not known.
    """

    recorded: RecordedCall
    verdict: ReplayVerdict
    reason: str | None = None
    new: CallRecord | None = None
    patch: str | None = None
    changes: tuple[str, ...] = ()
    digest: str | None = None
