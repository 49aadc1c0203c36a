"""Reads journals: their lines, which may be in several files; the calls of a run, and how it ended.

A journal that grows goes on in another file: ``run.jsonl``, ``run.jsonl.2``, ``run.jsonl.3`` and so on. A
line at the end of each file says that there is another one (``"kind": "next"``), and one at the beginning
which one it is (``"kind": "part"``). The chain goes on through all files, as if they were one, and so do the
numbers of lines here: the files one behind the other are the journal. It is read one line at a time, so that
it may be larger than the memory.

`LINES` is the one table of what lines beside the calls hold: `verify` names what is not in it, and the list
in ``docs/audit.md`` is made from it. The fields of a call are in `record.FIELDS`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple, cast

from ..types.texts import canonical_json
from .record import FIELDS, CallRecord, line_chain, simple_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from pathlib import Path

Outcome = Literal["complete", "failed", "canceled"]
SUFFIX = ".jsonl"
START = b'{"about":'  # the beginning of a run's first line in canonical JSON
SECOND: Final = ".2"  # what is behind the name of a journal's second file
_NEXT: Final = b'"kind":"next"'
_KIND: Final = b'"kind":"'
_CALL: Final = b'"kind":"call"'  # within a text the marks would be escaped
_CHAINED: Final = re.compile(rb'(?:\xef\xbb\xbf)?(\{.*),"chain":"([0-9a-f]{64})"\}\s*', re.DOTALL)

LINES: Final[Mapping[str, Mapping[str, str]]] = {
    "start": {
        "run": "Id of the run.",
        "about": "Its tool and settings, by which it is found again.",
        "calls": "How many calls it is going to make, if that is known.",
        "at": "When it began, in UTC.",
        "format": "2.",
        "who": "The user, the machine, and the product with its version.",
        "what": "What it was told to do: for an agent its model, endpoint, system prompt, rules and settings;"
        " the tools with their servers and the digests of their definitions.",
    },
    "prompt": {
        "run": "Id of the run.",
        "row": "RowID of the prompt.",
        "text": "The question.",
        "history": "Digest of the conversation before it.",
        "at": "When it was asked.",
    },
    "turn": {
        "run": "Id of the run.",
        "row": "RowID of the prompt.",
        "iteration": "The agent's turn.",
        "text": "What the model said.",
        "calls": "The tools that it called, with arguments.",
        "usage": "How many tokens it read and wrote.",
        "at": "When it was asked.",
    },
    "answer": {
        "run": "Id of the run.",
        "row": "RowID of the prompt.",
        "text": "The answer, or the error in its place.",
        "ending": "How the conversation ended.",
        "at": "When it ended.",
    },
    "read": {
        "run": "Id of the run.",
        "what": "`resource` or `prompt`.",
        "server": "The server's URL without secrets.",
        "name": "The resource's URI, or the prompt's name.",
        "arguments": "The prompt's arguments.",
        "row": "RowID of the row of parameters.",
        "digest": "SHA-256 of the answer as canonical JSON; of a prompt also of its definition.",
        "error": "The error in place of an answer.",
        "at": "When it was answered, in UTC.",
    },
    "sent": {
        "run": "Id of the run.",
        "key": "The idempotency key.",
        "plan": "Digest of row, tool, server and arguments.",
        "tool": "The name of the tool.",
        "row": "RowID of the row of parameters.",
        "at": "When it was about to be sent.",
    },
    "end": {
        "run": "Id of the run.",
        "calls": "How many calls it made.",
        "head": "Hash of its last call.",
        "outcome": "`complete`, `failed` or `canceled`.",
        "at": "When it ended.",
    },
    "next": {"part": "The journal goes on in the file with this number: here is the end of a file."},
    "part": {"number": "The number of this file of the journal: here is its beginning."},
    "checkpoint": {
        "note": "How many lines stand before it, and the `chain` of the last of them, as a signed note.",
        "time_stamp": "An RFC 3161 response for the note, in base64.",
    },
}
"""The fields of each kind of line, but for ``kind`` and ``chain``, which all have."""
OTHERS: Final = LINES.keys() - {"start", "end", "checkpoint", "next", "part"}
"""Lines of a run, beside its calls, that only have to follow the line before."""
_EVERYWHERE: Final = frozenset({"kind", "chain"})
_KNOWN: Final = {kind: _EVERYWHERE | fields.keys() for kind, fields in LINES.items()}
_KNOWN["call"] = _EVERYWHERE | FIELDS.keys()


class JournalError(ValueError):
    """A journal cannot be read; the message names the file and the line."""

    error_code = "KMCP-JOURNAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCall:
    """A call that is going to be sent, and must not be made twice."""

    key: str  # the idempotency key: the same when the call is repeated after an interruption
    plan: str  # a digest, see `record.plan_digest`, by which the call is found among those of a later run
    tool_name: str  # for people, as is the row
    input_row: str | None = None


@dataclass(frozen=True, slots=True)
class JournalLine:
    number: int  # from 1, through all files of the journal
    start: int  # offset of its first byte in its file
    data: bytes
    torn: bool = False  # its writer was stopped in the middle of the line
    part: int = 1  # number of its file

    def follows(self, previous: str) -> bool:
        """Returns whether the line follows the one with that ``chain``, unchanged."""
        return self.linked(previous)[0]

    def linked(self, previous: str) -> tuple[bool, str]:
        """Whether the line follows the one with that ``chain``, and its own, which is "" if it has none."""
        match = _CHAINED.fullmatch(self.data)
        if match is None:
            return False, ""
        chain = match[2].decode()
        return line_chain(previous, match[1]) == chain, chain

    def says(self, entry: Mapping[str, Any]) -> bool:
        """Whether the line is this entry's only spelling: no name twice, no other order, blank or escape."""
        match = _CHAINED.fullmatch(self.data)
        if match is None:
            return False
        said = {name: value for name, value in entry.items() if name != "chain"}
        try:
            # Twice, as orjson spells few numbers in another way.
            return match[1] == simple_json(said)[:-1] or match[1] == canonical_json(said).encode()[:-1]
        except (ValueError, RecursionError):  # numbers that are none
            return False

    @property
    def is_as_written(self) -> bool:
        """Whether its line break is ours, and no space was put around it."""
        return self.data[:1] == b"{" and (self.data[-2:] == b"}\n" or self.torn)

    def begins_anew(self, previous: str) -> bool:
        """Whether a chain of its own begins here: files of several runs, one behind the other."""
        return self.data.startswith(START) and not self.follows(previous) and self.follows("")

    def entry(self) -> dict[str, Any]:
        """Parses the line; `ValueError` if it is not a JSON object in UTF-8."""
        try:
            value = json.loads(self.data.removeprefix(b"\xef\xbb\xbf").decode())
        except UnicodeDecodeError:
            raise ValueError("not UTF-8") from None
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return cast("dict[str, Any]", value)


def unknown_fields(line: Mapping[str, Any]) -> list[str]:
    """The fields of a line that this version does not know; all of a kind that it does not know."""
    known = _KNOWN.get(str(line.get("kind")), _EVERYWHERE)
    return [] if line.keys() <= known else [name for name in line if name not in known]


def part_file(path: Path, number: int) -> Path:
    """The file of a journal with that number; the first one has the journal's name."""
    return path if number == 1 else path.with_name(f"{path.name}.{number}")


def journal_parts(path: Path) -> dict[int, Path]:
    """The files of a journal by their number, in order; one that is missing or empty is left out."""
    numbers = [1]
    for file in path.parent.iterdir():
        name, _, number = file.name.rpartition(".")
        if name == path.name and re.fullmatch("[1-9][0-9]{0,8}", number) and int(number) > 1:
            numbers.append(int(number))
    parts = {number: part_file(path, number) for number in sorted(numbers)}
    for part in parts.values():
        if part.is_dir():
            raise JournalError(f"{part.name} is a folder, and has the name of a part of a journal")
    return {number: part for number, part in parts.items() if number == 1 or part.stat().st_size}


def journal_lines(path: Path, behind: JournalLine | None = None) -> Iterator[JournalLine]:
    """Yields each line of a journal that is not empty, also if it is not one of a journal.

    With ``behind`` those behind that line, which were perhaps not there yet when it was read.
    """
    from .table_formats import is_device  # with all formats, which a run that writes a journal does not need

    if is_device(path):
        raise JournalError(f"{path.name} is a device or a pipe, not a file")  # it may have no end
    first = 1 if behind is None else behind.number + 1
    for part, part_path in journal_parts(path).items():
        if behind is not None and part < behind.part:
            continue
        with part_path.open("rb") as file:
            if behind is not None and part == behind.part:
                file.seek(behind.start + len(behind.data))
            first = yield from _lines_in(file, part, first)


def _lines_in(file: BinaryIO, part: int, number: int) -> Generator[JournalLine, None, int]:
    """Yields the lines of a file, the first of that number, and returns the number of the line behind it."""
    start, held = file.tell(), (0, 0, b"")
    for data in file:
        if not data.isspace():
            if held[2]:
                yield _line(held, part, after=data)
            # Held back by one line, as the next one tells whether this one may be torn.
            held = (number, start, data)
        number += 1
        start += len(data)
    if held[2]:
        yield _line(held, part, after=b"")
    return number


def _line(held: tuple[int, int, bytes], part: int, *, after: bytes) -> JournalLine:
    number, start, data = held
    # Only the last line of a run can be torn; parsing each line to find out would take most of the time.
    may_be_torn = not data.endswith(b"\n") or after.startswith(START)
    return JournalLine(number, start, data, may_be_torn and not _is_json(data), part)


class JournalEnd(NamedTuple):
    head: str = ""  # hash of its last call
    chain: str = ""  # of its last line
    due: bool = False  # whether a line break is due
    lines: int = 0  # since its chain began
    part: int = 1  # number of the file to go on in
    is_new: bool = False  # whether that file has no whole line: its writer was stopped before it


def end_of(path: Path) -> JournalEnd:
    """Parses few of the journal's lines."""
    last_call, last, chain, due, count, part = None, None, "", False, 0, 1
    for line in journal_lines(path):
        due, part = not line.data.endswith(b"\n"), line.part
        if line.number == 1 and (line.torn or not _is_of_kind(line, "start")):
            raise JournalError(f"{path.name}, line 1 is not a line of a journal")
        if line.torn:
            continue
        count = 1 if line.begins_anew(chain) else count + 1
        chain, last = line.linked(chain)[1], line
        # Arguments in the line of a model's turn may have such a member, too.
        if _CALL in line.data and (line.data.count(_KIND) == 1 or _is_of_kind(line, "call")):
            last_call = line
    is_new = last is not None and _NEXT in last.data and _is_of_kind(last, "next")
    if last is not None and is_new:
        part, due = last.part + 1, False
    if last_call is None:
        return JournalEnd("", chain, due, count, part, is_new)
    # Until here a mark in the bytes was enough, so that only this line is parsed.
    if not _is_of_kind(last_call, "call"):
        raise JournalError(f"{path.name}, line {last_call.number} is not a line of a journal")
    return JournalEnd(str(last_call.entry().get("hash", "")), chain, due, count, part, is_new)


def _is_of_kind(line: JournalLine, kind: str) -> bool:
    try:
        return line.entry().get("kind") == kind
    except (ValueError, RecursionError):
        return False


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


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
