"""The journal of a run: JSON Lines, written while the calls are made.

The first line identifies the run (``"kind": "start"``), the last one closes it (``"kind": "end"``) with the
number of its calls and the hash of the last call. Between them stands a line for each finished call
(``"kind": "call"``), and before a call that must not be made twice is sent, a line that it is going to be
(``"kind": "sent"``): a call that was sent and has no line of its end may have been carried out, and nobody
knows. Every line goes to the operating system in one write before anything else happens, so that a process
that is killed loses at most the line that it was writing. Readers skip such a torn line, at the end of the
file or before the start of another run.

Calls are chained by their hashes, in tables as well (see `record`). In the file, all lines are chained: the
last member of each, ``chain``, is the SHA-256 of the ``chain`` of the line before, a line break, and the line
up to this member. So a line that was changed, removed, added or moved shows, whatever it is about; what was
made anew from there to the end shows only if the last ``chain`` is kept elsewhere.

A journal without an end line, or with an outcome other than ``complete``, belongs to a run that was canceled,
failed or killed. When the run is repeated, the new run takes over the finished calls as its own records, and
its chain of calls continues from the last record of the interrupted run. A file may hold several runs, one
after the other; a lock, which ends with its process, keeps two writers apart. A large journal goes on in
further files (see `journal_reading`).
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import logging
import os
import platform
import re
import secrets
import stat
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, TypedDict

from ..system import try_to_lock
from ..types.texts import canonical_json, listed
from ..version import VERSION
from .journal_reading import SECOND, JournalEnd, JournalError, end_of, part_file
from .record import CallRecord, chained, line_chain, line_of, simple_json, utc_text

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from types import TracebackType

    from .journal_reading import Outcome, SentCall
    from .signatures import Sealer

FORMAT: Final = 2
_KEYS: Final = "KNIME_MCP_AUDIT_KEYS"
_FSYNC: Final = "KNIME_MCP_AUDIT_FSYNC"
_FSYNCS: Final = ("never", "second", "call")
_PART: Final = "KNIME_MCP_AUDIT_PART"
_PART_SIZE: Final = "1GB"
_OUR_KEYS: Final = "~/.knime-mcp/audit-keys.json"
_TIME_STAMPS: Final = "KNIME_MCP_AUDIT_TSA"
_LARGE: Final = 1 << 24  # bytes
_CALLS_PER_CHECKPOINT: Final = 1_000  # a signature takes 0.1 ms
_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.5  # somebody may just look whether the run goes on, as `knime-mcp open` does
_LOCK_SECONDS: Final = 10.0  # single calls of many processes may be kept in one file


class JournalBusy(JournalError):  # noqa: N818
    """Another run writes the journal, or goes on with its run."""


class JournalWriteError(OSError):
    """A line could not be written; the message names the file and the reason.

    The call has run and must not be recorded as failed; no further calls should be made.
    """

    error_code = "KMCP-JOURNAL-WRITE"


def new_run_id() -> str:
    """An id that sorts by time, is unique, and is a file name everywhere: 20260131T120000.123456Z-9f86d0."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(3)}"


class JournalOptions(TypedDict, total=False):
    """The options of a `Journal` beside its file and run."""

    about: str
    what: Mapping[str, Any]
    calls: int | None
    append: bool
    follows: str
    after: str | None


class Journal:
    """A journal that is being written, from any thread; closes on exit.

    Args:
        path: The file; its folder is created. Existing content is never overwritten: without ``append`` the
            file must be empty.
        run: Id of the run.
        about: The run's tool and settings, by which `latest` finds the run. No secrets.
        what: What the run was told to do, see `journal_reading.LINES`. No secrets.
        calls: The number of calls that the run is going to make, if known.
        append: Whether the file may hold other runs. The chain continues from the last record in the file
            unless ``follows`` is given.
        follows: Hash of the last record of the run that this one resumes, "" for none.

    Attributes:
        count: Number of calls written by this journal.
        head: Hash of the last record; before the first record, the resumed run's hash or "".
    """

    def __init__(
        self,
        path: str | Path,
        *,
        run: str,
        about: str = "",
        what: Mapping[str, Any] | None = None,
        calls: int | None = None,
        append: bool = False,
        follows: str = "",
        after: str | None = None,
    ) -> None:
        path = self.path = Path(path)
        self.run = run
        self.count = 0
        self.head = follows
        self._lock = threading.Lock()
        self._chain, self._lines = "", 0
        self._sealer, self._signed_at = _sealer(), 0
        self._fsync, self._synced_at = os.environ.get(_FSYNC, "never"), 0.0
        self._lost: list[CallRecord] = []  # calls that ended and could not be written
        self._why_lost: JournalWriteError | None = None
        if self._fsync not in _FSYNCS:
            raise JournalError(f"{_FSYNC} is {self._fsync!r}; it can be {', '.join(_FSYNCS)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not append and path.exists() and path.stat().st_size:
            raise FileExistsError(errno.EEXIST, "The journal exists already", str(path))
        # Its lines would be read as a continuation of this journal.
        if not append and path.with_name(path.name + SECOND).exists():
            raise FileExistsError(errno.EEXIST, "It belongs to an earlier journal", f"{path}{SECOND}")
        self._most = _most_bytes()
        # The first file is locked as long as the journal is written, also if that goes on in another file.
        # For appending, so that the operating system itself never lets two writes overlap.
        self._first: BinaryIO = path.open("ab", buffering=0)
        self._file, self._part, self._size = self._first, 1, 0
        self._finished: list[_Written] = []
        try:
            # Who resumes hardly waits: another run that holds the file has begun to go on with it.
            _lock(self._first, path, seconds=_LOCK_SECONDS if after is None else _LOOK_SECONDS)
            end = end_of(path) if append else JournalEnd()
            if after not in {None, end.chain}:
                raise JournalError(
                    f"{path.name} was written by another run meanwhile; resume again to go on after it"
                )
            self.head, self._chain, self._lines = follows or end.head, end.chain, end.lines
            self._written = _Written.at(path)
            for part in range(1, end.part):
                self._finished.append(_Written.at(part_file(path, part)))
            if end.part > 1:
                self._go_on_in(part_file(path, end.part).open("ab", buffering=0), end.part)
            # Not of a device, and not in shared folders where a name leads to another number each time.
            self._can_tell = self._written.is_file and os.path.samestat(
                self._written.known, os.fstat(self._file.fileno())
            )
            if end.is_new:  # at most half of its first line is there, which says nothing
                self._file.truncate(0)
            self._size = self._file.seek(0, 2)
            start = {"kind": "start", "run": run, "about": about, "calls": calls, "at": _now()}
            start |= {"format": FORMAT, "who": who(), "what": dict(what or {})}
            # A torn line stays, and the start of the next run shows that it is torn.
            self._write(canonical_json(start).encode(), before=b"\n" if end.due else b"")
        except BaseException:
            self._close_files()
            raise

    def sent(self, call: SentCall) -> None:
        """Writes that a call is going to be sent.

        Raises:
            JournalWriteError: The line could not be written; the call must not be made.
        """
        line = {"key": call.key, "plan": call.plan, "tool": call.tool_name, "row": call.input_row}
        with self._lock:
            self._write(simple_json({"kind": "sent", "run": self.run, "at": _now(), **line}))

    def note(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Writes a line of another kind than a call, see `journal_reading.LINES`. No secrets.

        Raises:
            JournalWriteError: The line could not be written.
        """
        with self._lock:
            self._write(canonical_json({"kind": kind, "run": self.run, "at": _now(), **fields}).encode())

    def append(self, record: CallRecord) -> CallRecord:
        """Writes a finished call, and returns it with its completion number and its place in the chain.

        After a `JournalWriteError` the journal is intact without the line; or somebody else cut, extended,
        renamed or removed it meanwhile, which each line notices.
        """
        with self._lock:
            # Count and head move only when the line is written: a failed write leaves no gap in the chain.
            written = chained(record, self.head, call=self.count + 1)
            try:
                self._write(line_of(written))
            except JournalWriteError as error:
                self._why_lost = self._why_lost or error
                self._lost.append(record)
                raise
            self.count, self.head = written.call, written.hash or ""
            if self._sealer is not None and self.count - self._signed_at >= _CALLS_PER_CHECKPOINT:
                self._seal(self._sealer)
        return written

    @property
    def anchor(self) -> str:
        """What proves the whole file if it is kept elsewhere, see `anchor_of`."""
        return anchor_of(self.head, self._chain)

    def close(self, outcome: Outcome = "complete") -> None:
        """Closes the run. Closing again does nothing; a ``complete`` run cannot be resumed."""
        with self._lock:
            if not self._file.closed:
                end = {"run": self.run, "calls": self.count, "head": self.head, "outcome": outcome}
                self._synced_at = 0.0  # the last line is worth the sync, whatever was saved on before
                try:
                    self._refuse_if_lost()
                    self._write(canonical_json({"kind": "end", **end, "at": _now()}).encode())
                    if self._sealer is not None:
                        self._seal(self._sealer, with_time_stamp=True)
                    self._refuse_if_touched()
                finally:
                    self._close_files()

    def _close_files(self) -> None:
        self._file.close()
        self._first.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close("complete" if kind is None else "failed")

    def _seal(self, sealer: Sealer, *, with_time_stamp: bool = False) -> None:
        """Writes a checkpoint of all lines until now."""
        from .signatures import SignatureError

        if sealer.key is None and not with_time_stamp:
            return
        stamp, note = None, ""
        if with_time_stamp:
            self._make_room()  # nothing may stand between a checkpoint and the lines that it counts
            note = sealer.note(self._lines, self._chain, _now(), signed=False)
            try:
                stamp = sealer.time_stamp(note)
            except SignatureError as error:  # the calls were made: their record is kept without it
                _log.warning("%s: %s", self.path.name, error)
        # In a line of its own, so that a signature covers the time-stamp, and nothing stands beside it.
        if stamp is not None:
            self._put(simple_json({"kind": "checkpoint", "note": note, "time_stamp": stamp}))
        if sealer.key is not None:
            self._make_room()
            note = sealer.note(self._lines, self._chain, _now())
            self._put(simple_json({"kind": "checkpoint", "note": note}))
        self._signed_at = self.count

    def _refuse_if_lost(self) -> None:
        """A run whose calls are not all on record has no end: it must not look as if it were whole."""
        if self._why_lost is not None:
            lost = listed(record.named for record in self._lost)
            text = f"{self._why_lost.strerror}; calls that ended are in no record: {lost}"
            raise JournalWriteError(self._why_lost.errno, text, str(self.path))

    def _refuse_if_touched(self) -> None:
        """A run whose journal is not what it wrote must not end as if it were."""
        earlier = [(part, part.known.st_size) for part in self._finished]
        for written, size in (*earlier, (self._written, self._size)) if self._can_tell else ():
            if what := written.touched(size):
                raise JournalWriteError(errno.EIO, f"{what} while it was written", str(written.path))

    def _go_on_in(self, file: BinaryIO, part: int) -> None:
        if self._file is not self._first:
            self._file.close()
        self._file, self._part, self._size = file, part, 0
        self._written = _Written.at(part_file(self.path, part))

    def _begin_part(self) -> None:
        """Goes on in the next file, which is there before the present one says so."""
        path = part_file(self.path, self._part + 1)
        try:
            file = path.open("xb", buffering=0)
        except OSError as error:  # no call is lost for want of another file
            self._most = None
            _log.warning("%s goes on in one file: %s", self.path.name, error)
            return
        try:
            self._put(simple_json({"kind": "next", "part": self._part + 1}))
            # Now, as nobody syncs this file later: the next line goes into another one.
            if self._fsync != "never":
                os.fsync(self._file.fileno())
        except BaseException:
            file.close()
            path.unlink(missing_ok=True)
            raise
        self._finished.append(_Written.at(self._written.path))
        self._go_on_in(file, self._part + 1)

    def _write(self, line: bytes, *, before: bytes = b"") -> None:
        """Writes a line, which is a JSON object, with its place in the chain."""
        self._refuse_if_touched()
        self._make_room()
        self._put(line, before=before)

    def _make_room(self) -> None:
        if self._most is not None and self._size >= self._most:
            self._begin_part()
        if self._part > 1 and not self._size:
            self._put(simple_json({"kind": "part", "number": self._part}))

    def _put(self, line: bytes, *, before: bytes = b"") -> None:
        # Unbuffered, and one write per line, so that the operating system has it even if this process dies.
        # Without the closing brace, before which the chain is put.
        text = memoryview(line)[:-1]
        chain = line_chain(self._chain, text)
        pieces: tuple[bytes | memoryview, ...] = (before, text, b',"chain":"%b"}\n' % chain.encode())
        if len(text) < _LARGE:  # a copy of a large one would be as much memory again
            pieces = (b"".join(pieces),)
        written = 0
        try:
            for piece in pieces:
                left = memoryview(piece)
                while left:
                    count = self._file.write(left)
                    written, left = written + count, left[count:]
        except BaseException as error:
            with contextlib.suppress(OSError):  # after half a line, nothing could be read
                self._file.truncate(self._file.seek(0, 2) - written)
            if isinstance(error, OSError):
                raise JournalWriteError(error.errno, error.strerror, str(self.path)) from error
            raise
        self._chain, self._lines, self._size = chain, self._lines + 1, self._size + written
        if self._fsync != "never" and (self._fsync == "call" or time.monotonic() - self._synced_at >= 1.0):
            os.fsync(self._file.fileno())
            self._synced_at = time.monotonic()


@dataclass(frozen=True, slots=True)
class _Written:
    """A file of a journal, as it was when its writer knew it."""

    path: Path  # whatever folder the process goes into
    known: os.stat_result

    @classmethod
    def at(cls, path: Path) -> Self:
        return cls(path.absolute(), path.stat())

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.known.st_mode)

    def touched(self, size: int) -> str | None:
        """What somebody else did to the file, which is to have this size; the beginning of a sentence."""
        try:
            there = os.stat(self.path)  # noqa: PTH116  # half of the time
        except (FileNotFoundError, NotADirectoryError):
            return "It was deleted or renamed"
        if not os.path.samestat(there, self.known):
            return "Another file was put in its place"
        if there.st_size != size:
            return "It was cut" if there.st_size < size else "Somebody else wrote into it"
        return None


def _most_bytes() -> int | None:
    """How large a file may become before the journal goes on in the next one; None for any size."""
    text = os.environ.get(_PART, _PART_SIZE).strip()
    match = re.fullmatch(r"([1-9][0-9]{0,12}) ?([KMGT]?)B?", text, re.IGNORECASE)
    if match is None and text.lower() != "never":
        raise JournalError(f"{_PART} is {text!r}; write a size such as 200MB, or never")
    return None if match is None else int(match[1]) * 1000 ** " KMGT".index(match[2].upper() or " ")


class MemoryJournal:
    """Numbers and chains calls like a journal, but without a file."""

    path: Final = None

    def __init__(self) -> None:
        self.count = 0
        self.head = ""
        self._lock = threading.Lock()

    @property
    def anchor(self) -> str:
        return self.head

    def append(self, record: CallRecord) -> CallRecord:
        with self._lock:
            kept = chained(record, self.head, call=self.count + 1)
            self.count, self.head = kept.call, kept.hash or ""
        return kept

    def close(self, outcome: Outcome = "complete") -> None: ...


def anchor_of(head: str, chain: str) -> str:
    """What to keep elsewhere: it covers the calls, also in tables, and all lines of the journal."""
    return f"{head or 'sha256:'}-{chain}"


def keys_file() -> Path:
    """Where our own keys are, if we have any."""
    # A process without a home has no keys; `Path.expanduser` would raise an error.
    return Path(os.environ.get(_KEYS) or os.path.expanduser(_OUR_KEYS))  # noqa: PTH111


def known_keys_file() -> Path:
    """Where other people's public keys are whose signatures count here."""
    return keys_file().with_name("known-keys.json")


def _sealer() -> Sealer | None:
    """What signs, or lets sign, our journals; None if nobody asked for that."""
    keys, server = keys_file(), os.environ.get(_TIME_STAMPS)
    if not server and not keys.exists():
        return None
    from .signatures import Sealer, SignatureError

    try:
        return Sealer.of(keys, server or None)
    except SignatureError as error:
        raise JournalError(f"The journal cannot be signed: {error}") from None


@cache
def who() -> dict[str, str]:
    """The user, the machine and the product, for the beginning of a run."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a process without a name for its user
        user = ""
    system = f"{platform.system()} {platform.release()}".strip()
    return {"user": user, "machine": platform.node(), "system": system, "product": f"knime-mcp {VERSION}"}


@contextlib.contextmanager
def held(path: Path, *, seconds: float = _LOOK_SECONDS) -> Generator[None]:
    """Keeps others from writing a journal, and from going on with its run; `JournalBusy` if they do."""
    with path.open("rb") as file:
        _lock(file, path, seconds=seconds)
        yield


def _lock(file: BinaryIO, path: Path, *, seconds: float) -> None:
    """Locks a file until it is closed, or its process ends; `JournalBusy` if another run has for so long."""
    until = time.monotonic() + seconds
    while not try_to_lock(file):
        if time.monotonic() >= until:
            raise JournalBusy(f"{path.name} is being written by another run: wait for its end, or stop it")
        time.sleep(0.02)


def _now() -> str:
    return utc_text(datetime.now(UTC))
