"""Reads the journal of an interrupted run, to resume it. Only calls in the journal count as done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..audit.journal import JournalContent, JournalError, latest, read_journal
from ..audit.record import CallStatus
from ..audit.verify import Verdict, verify_file
from ..types.errors import MCPError, ToolFormatError
from ..types.fields import from_json_text
from ..types.short_texts import counted
from ..types.tool import MCPTool

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ..audit.record import CallRecord

_HARMLESS: Final = (Verdict.INTACT, Verdict.TRUNCATED)
_NOT_SENT: Final = frozenset({CallStatus.INVALID_ARGUMENTS, CallStatus.NOT_FOUND, CallStatus.DENIED})
_SHOWN_CALLS: Final = 5


class JournalAltered(MCPError):  # noqa: N818
    """A journal was altered, so that its calls may not have been made."""


def to_resume(path: Path) -> JournalContent:
    """Reads the journal of a run that is to be resumed.

    Args:
        path: The file. Its end may be missing, as the run was interrupted.

    Returns:
        The content of the journal.

    Raises:
        JournalAltered: Records were altered, or some are missing between others.
        JournalError: The file is not a journal.
        OSError: The file cannot be read.
    """
    content = read_journal(path)
    wrong = [finding for finding in verify_file(path).findings if finding.verdict not in _HARMLESS]
    if wrong:
        raise _altered(path, wrong[0].text)
    return content


def latest_to_resume(folder: Path, about: str) -> JournalContent | None:
    """Finds the last run of its kind in a folder of journals, if that run is not complete.

    Args:
        folder: The folder; need not exist.
        about: The tool and settings of the run, see `Journal`.

    Returns:
        The content of its journal, None if there is no such run or the run is complete.

    Raises:
        JournalAltered: See `to_resume`.
    """
    path = latest(folder, about)
    try:
        content = None if path is None else read_journal(path)
        if path is None or content is None or content.outcome == "complete":
            return None
        return to_resume(path)
    except JournalError as error:
        assert path is not None
        raise _altered(path, str(error)) from None


def repeated_calls(records: Iterable[CallRecord]) -> str:
    """Lists tools and rows of the calls that may have changed something, as the new run may repeat them."""
    repeated = (record for record in records if _may_change(record))
    named = list(dict.fromkeys(_call_name(record) for record in repeated))
    more = [counted(len(named) - _SHOWN_CALLS, "other")] if len(named) > _SHOWN_CALLS else []
    return ", ".join([*named[:_SHOWN_CALLS], *more])


def _call_name(record: CallRecord) -> str:
    row = f" (row {record.input_row})" if record.input_row is not None else ""
    return f"{record.tool_name}{row}"


def _may_change(record: CallRecord) -> bool:
    if record.tool is None or record.started_at is None or record.status in _NOT_SENT:
        return False
    if record.duration is not None and not record.attempts:  # the call ended before it was sent
        return False
    try:
        tool = from_json_text(record.tool)
        return not (isinstance(tool, MCPTool) and tool.may_repeat)
    except ToolFormatError:  # unknown
        return True


def _altered(path: Path, why: str) -> JournalAltered:
    return JournalAltered(
        f"The journal {path} is not as it was written, so nothing is taken from it: {why.rstrip('.')}",
        fix="Restore the file; or switch off resuming, so that every call is made again, also those that"
        " changed something",
    )
