"""The journal of a run: JSON Lines, one line per finished call, written as the calls finish.

The first line says which run it is (``"kind": "start"``), then comes one line per call (``"kind": "call"``),
and the last line closes the run (``"kind": "end"``). Every line goes to the operating system in one write
before the next call is reported, so that a process that is killed loses at most the line that it was
writing; readers ignore such a torn last line. A journal without an end, or with one that is not
``complete``, belongs to a run that was canceled, failed or killed: its calls can be filled in when the run
is repeated.
"""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

from ..types.canonical import canonical_json, without_surrogates
from .record import CallRecord, utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

Outcome = Literal["complete", "failed", "canceled"]
SUFFIX = ".jsonl"


class JournalError(ValueError):
    """A journal that cannot be read: names the file and the line."""


def new_run_id(now: datetime | None = None) -> str:
    """Makes the id of a run: sorts by time, is unique, and is a file name on every system.

    Args:
        now: The moment to name, the present one by default.

    Returns:
        Such as ``20260131T120000.123456Z-9f86d0``.
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(3)}"


class Journal:
    """A journal that is being written. Safe to use from several threads; closes on exit.

    Args:
        path: The file; its folder is created. Written anew, unless ``append``.
        run: Id of the run.
        about: What identifies the run for `latest`: which tool, which settings. No secrets.
        calls: How many calls the run is going to make, if known.
        append: Whether to keep what is in the file. A torn last line is cut off first.

    Attributes:
        path: The file.
        run: Id of the run.
        count: Number of calls written by this journal.
    """

    def __init__(
        self, path: Path, *, run: str, about: str = "", calls: int | None = None, append: bool = False
    ) -> None:
        self.path = path
        self.run = run
        self.count = 0
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        if append and path.exists():
            _cut_torn_line(path)
        self._file: BinaryIO = path.open("ab" if append else "wb", buffering=0)
        self._write({"kind": "start", "run": run, "about": about, "calls": calls, "at": _now()})

    def append(self, record: CallRecord) -> CallRecord:
        """Writes a finished call.

        Args:
            record: The call; its ``call`` is ignored.

        Returns:
            The record as written, with its completion number.
        """
        with self._lock:
            written = replace(record, call=self.count + 1)
            self._write({"kind": "call", **written.to_json()})
            self.count += 1
        return written

    def close(self, outcome: Outcome = "complete") -> None:
        """Closes the run. Closing again does nothing.

        Args:
            outcome: How the run ended. Only what is not ``complete`` can be resumed.
        """
        with self._lock:
            if not self._file.closed:
                self._write({"kind": "end", "calls": self.count, "outcome": outcome, "at": _now()})
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close("complete" if kind is None else "failed")

    def _write(self, line: dict[str, Any]) -> None:
        # One unbuffered write per line: whatever happens to this process, the operating system has it.
        data = without_surrogates(canonical_json(line)).encode() + b"\n"
        while data:
            data = data[self._file.write(data) :]


@dataclass(frozen=True, slots=True)
class JournalContent:
    """What a journal holds.

    Attributes:
        run: Id of the run (of the last one, in a file that holds several).
        about: What identifies the run.
        records: The finished calls in the order in which they finished.
        outcome: How the run ended; None if it was killed, or is still going on.
        torn: Whether the last line was incomplete, and ignored.
    """

    run: str
    about: str
    records: tuple[CallRecord, ...]
    outcome: Outcome | None
    torn: bool


def read_journal(path: Path) -> JournalContent:
    """Reads a journal, finished or not.

    Args:
        path: The file.

    Returns:
        Its content.

    Raises:
        JournalError: A line other than the last one is not what a journal writes.
        OSError: The file cannot be read.
    """
    run, about, outcome, torn = "", "", None, False
    records: list[CallRecord] = []
    for number, line, last in _lines(path):
        try:
            entry: dict[str, Any] = json.loads(line)
            match entry["kind"]:
                case "start":
                    run, about, outcome = entry["run"], entry["about"], None
                case "call":
                    records.append(CallRecord.from_json(entry))
                case "end":
                    outcome = entry["outcome"]
                case other:
                    raise JournalError(f"unknown kind of line {other!r}")
        except (ValueError, KeyError, TypeError) as error:
            if last:
                torn = True
                break
            raise JournalError(f"{path.name}, line {number} is not a line of a journal: {error}") from error
    return JournalContent(run, about, tuple(records), outcome, torn)


def latest(folder: Path, about: str) -> JournalContent | None:
    """Finds the last run of its kind in a folder of journals.

    Args:
        folder: The folder; need not exist.
        about: What identifies the run.

    Returns:
        The journal with the highest run id whose start says the same; None if there is none. Files that
        are no journals are passed over.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        try:
            if _about(path) == about:
                return read_journal(path)
        except (JournalError, OSError):
            continue
    return None


def _about(path: Path) -> str | None:
    """What the first line says about the run: enough to pass over a large journal without reading it."""
    with path.open("rb") as file:
        try:
            return json.loads(file.readline())["about"]
        except (ValueError, KeyError, TypeError):
            return None


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yields number, bytes and whether it is a last line without its line end (a torn one)."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield number, line, not line.endswith(b"\n")


def _cut_torn_line(path: Path) -> None:
    with path.open("rb+") as file:
        data = file.read()
        if data and not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)


def _now() -> str:
    return utc_text(datetime.now(UTC))
