"""The journal of a run: JSON Lines, one line per finished call, written as the calls finish.

The first line says which run it is (``"kind": "start"``), then comes one line per call (``"kind": "call"``),
and the last line closes the run (``"kind": "end"``) with the number of its calls and the hash of the last
one. The calls are chained as `chain` describes. Every line goes to the operating system in one write
before the next call is reported, so that a process that is killed loses at most the line that it was
writing; readers ignore such a torn last line. A journal without an end, or with one that is not
``complete``, belongs to a run that was canceled, failed or killed: its calls can be filled in when the run
is repeated. The calls that the new run takes over become records of its own, and its chain goes on from the
last record of the interrupted run. A file may hold several runs, one after the other.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, cast

from ..types.canonical import canonical_json
from .chain import chained_with_text
from .record import CallRecord, utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

Outcome = Literal["complete", "failed", "canceled"]
SUFFIX = ".jsonl"


class JournalError(ValueError):
    """A journal that cannot be read: names the file and the line."""


class JournalWriteError(OSError):
    """A line could not be written: names the file and why.

    A call that has run must not become a record that says otherwise, and no further call should be made.
    """


def new_run_id() -> str:
    """Makes the id of a run: sorts by time, is unique, and is a file name on every system.

    Returns:
        Such as ``20260131T120000.123456Z-9f86d0``.
    """
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(3)}"


class Journal:
    """A journal that is being written. Safe to use from several threads; closes on exit.

    Args:
        path: The file; its folder is created. Never overwritten: what is in it stays, or is refused.
        run: Id of the run.
        about: What identifies the run for `latest`: which tool, which settings. No secrets.
        calls: How many calls the run is going to make, if known.
        append: Whether the file may hold other runs. A torn last line is cut off first, and the chain goes
            on from the last record in the file unless ``follows`` says otherwise.
        follows: Hash of the last record of the run that this one resumes, "" for none.

    Attributes:
        path: The file.
        run: Id of the run.
        count: Number of calls written by this journal.
        head: Hash of the last record; that of the resumed run, or "", before the first one.

    Raises:
        JournalError: The file to append to is no journal.
        OSError: The file cannot be written, or holds something although it may not.
    """

    def __init__(
        self,
        path: Path,
        *,
        run: str,
        about: str = "",
        calls: int | None = None,
        append: bool = False,
        follows: str = "",
    ) -> None:
        self.path = path
        self.run = run
        self.count = 0
        self.head = follows
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        if append and path.exists():
            self.head = follows or read_journal(path).head
            _cut_torn_line(path)  # only now that nothing in the file contradicts its being a journal
        elif path.exists() and path.stat().st_size:
            raise FileExistsError(errno.EEXIST, "The journal exists already", str(path))
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._can_tell_deleted = self._links() > 0  # some shared folders count no links at all
        try:
            start = {"kind": "start", "run": run, "about": about, "calls": calls, "at": _now()}
            self._write(canonical_json(start))
        except BaseException:
            self._file.close()
            raise

    def append(self, record: CallRecord) -> CallRecord:
        """Writes a finished call.

        Args:
            record: The call; its ``call`` is ignored.

        Returns:
            The record as written, with its completion number and its place in the chain.

        Raises:
            JournalWriteError: It could not be written. The journal stays whole, without it.
        """
        with self._lock:
            written, text = chained_with_text(record, self.head, call=self.count + 1)
            self._write(text)
            self.count, self.head = written.call, written.hash or ""
        return written

    def close(self, outcome: Outcome = "complete") -> None:
        """Closes the run. Closing again does nothing.

        Args:
            outcome: How the run ended. Only what is not ``complete`` can be resumed.
        """
        with self._lock:
            if not self._file.closed:
                end = {"run": self.run, "calls": self.count, "head": self.head, "outcome": outcome}
                try:
                    self._write(canonical_json({"kind": "end", **end, "at": _now()}))
                finally:
                    self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close("complete" if kind is None else "failed")

    def _links(self) -> int:
        return os.fstat(self._file.fileno()).st_nlink

    def _write(self, line: str) -> None:
        if self._can_tell_deleted and not self._links():
            raise JournalWriteError(errno.ENOENT, "It was deleted while it was written", str(self.path))
        # One unbuffered write per line: whatever happens to this process, the operating system has it.
        data = memoryview(line.encode() + b"\n")
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:])
        except BaseException as error:
            with contextlib.suppress(OSError):  # half of a line would make all that follow it unreadable
                self._file.truncate(self._file.seek(0, 2) - written)
            if isinstance(error, OSError):
                raise JournalWriteError(error.errno, error.strerror, str(self.path)) from error
            raise


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

    @property
    def head(self) -> str:
        """Hash of the last finished call, "" if there is none."""
        return (self.records[-1].hash or "") if self.records else ""


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
    for line in journal_lines(path):
        if line.unended:
            torn = True
            break
        try:
            entry = line.entry()
            match entry["kind"]:
                case "start":
                    run, about, outcome = entry["run"], entry["about"], None
                case "call":
                    records.append(CallRecord.from_json(entry))
                case "end":
                    outcome = entry["outcome"]
                case other:
                    raise JournalError(f"unknown kind of line {other!r}")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise JournalError(
                f"{path.name}, line {line.number} is not a line of a journal: {error}"
            ) from error
    return JournalContent(run, about, tuple(records), outcome, torn)


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A line of a journal, as it stands in the file.

    Attributes:
        number: Its number, from 1.
        data: Its bytes.
    """

    number: int
    data: bytes

    @property
    def unended(self) -> bool:
        """Whether it has no line end, thus is the last one and may be torn."""
        return not self.data.endswith(b"\n")

    def entry(self) -> dict[str, Any]:
        """Parses it.

        Returns:
            The JSON object.

        Raises:
            ValueError: It is no JSON object.
        """
        value = json.loads(self.data)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return cast("dict[str, Any]", value)


def journal_lines(path: Path) -> Iterator[JournalLine]:
    """Reads the lines of a journal one by one.

    Args:
        path: The file.

    Yields:
        Each line, whatever it holds.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        for number, data in enumerate(file, start=1):
            yield JournalLine(number, data)


def latest(folder: Path, about: str) -> Path | None:
    """Finds the last run of its kind in a folder of journals.

    Args:
        folder: The folder; need not exist.
        about: What identifies the run.

    Returns:
        The journal with the highest run id whose start says the same; None if there is none. Files that
        cannot be read, or begin as no journal does, are passed over.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        try:
            if _about(path) == about:
                return path
        except OSError:
            continue
    return None


def _about(path: Path) -> str | None:
    """What the first line says about the run: enough to pass over a large journal without reading it."""
    with path.open("rb") as file:
        try:
            return json.loads(file.readline())["about"]
        except (ValueError, KeyError, TypeError):
            return None


def _cut_torn_line(path: Path) -> None:
    with path.open("rb+") as file:
        data = file.read()
        if data and not data.startswith(b"{"):
            raise JournalError(f"{path.name}, line 1 is not a line of a journal")
        if data and not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)


def _now() -> str:
    return utc_text(datetime.now(UTC))
