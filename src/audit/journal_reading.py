"""Reads journals: the calls of a run, what was on its way when it ended, and how it ended.

A journal is read one line at a time, so that it may be larger than the memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .journal import SUFFIX, Outcome, SentCall
from .journal_lines import LINES, OTHERS, JournalError, JournalLine, journal_lines
from .record import CallRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class JournalContent:
    run: str  # id of the run (of the last one, in a file that holds several)
    about: str  # the tool and settings of the run
    records: tuple[CallRecord, ...]  # the calls in the order in which they finished
    outcome: Outcome | None  # None if the run was killed, or is still going on
    torn: bool  # whether the last line was incomplete, and skipped
    unanswered: tuple[SentCall, ...] = ()  # what was sent in any of the runs, and has no line of its end
    chain: str = ""  # of the last line
    opened: str = ""  # tells whether the workflow was opened anew since

    @property
    def head(self) -> str:
        """Hash of the last finished call, "" if there is none."""
        return (self.records[-1].hash or "") if self.records else ""


def read_journal(path: Path) -> JournalContent:
    """Reads a journal, finished or not; `JournalError` if it has other lines, or only a torn one."""
    reading = JournalReading(path)
    records = tuple(record for _, record in reading)
    return replace(reading.content, records=records)


class JournalReading:
    """Goes through a journal, see `read_journal`, and yields each finished call with its line.

    Attributes:
        content: What else was read until now; it has no records.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.content = JournalContent("", "", (), None, False)

    def __iter__(self) -> Iterator[tuple[JournalLine, CallRecord]]:
        run, about, outcome, torn, opened = "", "", None, False, ""
        sent: dict[str, SentCall] = {}
        chain = ""
        for line in journal_lines(self._path):
            torn = line.torn
            if torn and line.number > 1:
                continue
            record = None
            try:
                entry = line.entry()
                match entry.get("kind"):
                    case "start":
                        run, about, outcome = entry["run"], entry["about"], None
                        opened = str(entry["what"].get("opened", "")) if entry.get("what") else ""
                    case "sent":
                        key, row = str(entry["key"]), entry.get("row")
                        plan, tool = str(entry["plan"]), str(entry["tool"])
                        sent[key] = SentCall(key=key, plan=plan, tool_name=tool, input_row=row)
                    case "call":
                        record = CallRecord.from_json(entry)
                        sent.pop(record.key or "", None)
                    case "end":
                        outcome = entry["outcome"]
                    case kind if kind in OTHERS or kind in {"checkpoint", "next", "part"}:
                        pass
                    case str(kind) if kind not in LINES:  # of a newer version, which `verify` says
                        pass
                    case kind:
                        raise JournalError(f"its kind is {kind!r}")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
                name = self._path.name
                raise JournalError(f"{name}, line {line.number} is not a line of a journal: {why}") from error
            if record is not None:
                yield line, record
            chain = line.linked(chain)[1]
        self.content = JournalContent(run, about, (), outcome, torn, tuple(sent.values()), chain, opened)


def latest(folder: Path, about: str) -> Path | None:
    """Finds the journal with the highest run id and the same ``about`` in a folder, which need not exist.

    Files that cannot be read, or are not journals, are skipped.
    """
    # Run ids begin with their time, so the names sort by it.
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        try:
            if _about_of(path) == about:
                return path
        except OSError:
            continue
    return None


def is_complete(path: Path, about: str) -> bool:
    """Whether a journal is that of a complete run with this ``about``; False if it cannot be read."""
    try:
        return _about_of(path) == about and read_journal(path).outcome == "complete"
    except (OSError, JournalError):
        return False


def _about_of(path: Path) -> str | None:
    """Reads ``about`` from the first line only, as journals may be large."""
    with path.open("rb") as file:
        try:
            return json.loads(file.readline())["about"]
        except (ValueError, KeyError, TypeError):
            return None
