"""The journal of an interrupted run, to go on from: only what was really written counts as done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types.errors import MCPError
from .journal import JournalContent, JournalError, latest, read_journal
from .verify import Verdict, verify_file

if TYPE_CHECKING:
    from pathlib import Path

_HARMLESS = (Verdict.INTACT, Verdict.TRUNCATED)


class JournalAltered(MCPError):  # noqa: N818
    """A journal that somebody changed: what it says is done may not be."""


def to_resume(path: Path) -> JournalContent:
    """Reads the journal of a run to go on from.

    Args:
        path: The file. Its end may be missing: that is what an interrupted run leaves.

    Returns:
        Its content.

    Raises:
        JournalAltered: Its records are not what was written, or some are missing between others.
        JournalError: It is no journal.
        OSError: It cannot be read.
    """
    content = read_journal(path)
    wrong = [found for found in verify_file(path).findings if found.verdict not in _HARMLESS]
    if wrong:
        raise _altered(path, wrong[0].text)
    return content


def latest_to_resume(folder: Path, about: str) -> JournalContent | None:
    """Finds the last run of its kind in a folder of journals, if it did not come to its end.

    Args:
        folder: The folder; need not exist.
        about: What identifies the run.

    Returns:
        Its content, None if there is no such run, or it is complete.

    Raises:
        JournalAltered: See `to_resume`.
    """
    found = latest(folder, about)
    try:
        content = None if found is None else read_journal(found)
        if found is None or content is None or content.outcome == "complete":
            return None
        return to_resume(found)
    except JournalError as error:
        assert found is not None
        raise _altered(found, str(error)) from None


def _altered(path: Path, why: str) -> JournalAltered:
    return JournalAltered(
        f"The journal {path} is not as it was written, so nothing is taken from it: {why.rstrip('.')}",
        fix="Restore the file; or switch off resuming, so that every call is made again, also those that"
        " changed something",
    )
