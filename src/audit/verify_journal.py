"""Verifies a journal line by line, in memory that does not grow with it.

Each line must follow the line before, each call the call before, and each saved file must have the digest on
record. Then it is said for each line which checkpoint or given head covers it: from there back to the
beginning of the chain nobody can have changed anything.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..types.texts import counted, escape, listed
from .journal import FORMAT, keys_file, known_keys_file
from .journal_reading import (
    LINES,
    OTHERS,
    START,
    JournalLine,
    journal_lines,
    journal_parts,
    part_file,
    unknown_fields,
)
from .record import blobs_of, link_of
from .signatures import Checkpoint, PublicKey, SignatureError, known_keys, own_keys, stamped_at
from .verdicts import (
    HEAD_NOTED,
    NEWER,
    WHOLE,
    Anchors,
    Calls,
    Cover,
    Finding,
    Verdict,
    Verification,
    VerifiedRun,
    has_hash,
    has_newer_hash,
    numbers_text,
    ranges_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_NAMED: Final = 10
_NO_JOURNALS: Final = {
    b"\x1f\x8b": ": it is compressed",
    b"PK": ": it is compressed",
    b"\xff\xfe": ": it is UTF-16, as Windows PowerShell writes what > is given",
}
"""What a file is that begins so."""


class _Fault(Enum):
    """What may be wrong with a line: a verdict, and what stands behind the numbers of such lines."""

    TORN = Verdict.TRUNCATED, "incomplete, and not read"
    BEGINNING = Verdict.ALTERED, "changed, or what stood before it is missing"
    REPEATED = Verdict.ALTERED, "the line before it once more"
    CHANGED = Verdict.ALTERED, "changed, or not what followed the line before when it was written"
    NO_LINE = Verdict.ALTERED, "not a line of a journal"
    CLOSED = Verdict.ALTERED, "closes a run that was closed already"
    NO_NOTE = Verdict.ALTERED, "no checkpoint of a journal"
    OTHER_LINES = (
        Verdict.ALTERED,
        "a checkpoint, but not of the lines before it: they were changed, or it was",
    )
    NOT_SIGNED = Verdict.ALTERED, "the signature was not made with the key that it names"
    NOT_STAMPED = Verdict.ALTERED, "the time-stamp is not one of this checkpoint"
    FILES = Verdict.ALTERED, "its list of files is not that of its result"
    NEWER = Verdict.UNVERIFIABLE, f"written {NEWER}"


def verify_journal(
    file: Path,
    anchors: Anchors,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> Verification:
    """See `verify.verify_file`."""
    check = _Check(file, anchors)
    done, last = 0, None
    for number, line in enumerate(journal_lines(file)):
        if last is not None and line.part != last.part:
            # Offsets begin anew in each file of a journal.
            done += last.start + len(last.data)
        last = line
        if on_progress is not None and not number % 1024:
            on_progress(done + line.start)
        check.take(line)
    return check.result()


@dataclass(slots=True)
class _End:
    """The closing record of a run; without a count, the run has none."""

    count: int | None = None
    head: str = ""
    outcome: str | None = None
    chain: str = ""  # of the last line of the run


@dataclass(slots=True)
class _Check:
    """What was found until now."""

    file: Path
    anchors: Anchors
    findings: list[Finding] = field(default_factory=list[Finding])
    _faults: dict[_Fault, list[int]] = field(default_factory=dict[_Fault, list[int]])  # lines
    _forged: list[int] = field(default_factory=list[int])  # lines whose call has not its hash
    _calls: Calls = field(init=False)
    _ends: dict[str, _End] = field(default_factory=dict[str, _End])
    _run: str = ""
    _last: JournalLine | None = None
    _chain: str = ""  # of the last line
    _in_chain: int = 0  # lines since the chain began
    _begun: list[int] = field(default_factory=list[int])  # lines at which a chain begins
    _is_broken: bool = False  # whether a line since then does not follow the one before
    _covers: list[Cover] = field(default_factory=list[Cover])
    _parts: dict[int, int] = field(default_factory=dict[int, int])  # files, and their first lines
    _next: int = 0  # the file that has to follow, as the last line says
    _touched: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    _spaced: list[int] = field(default_factory=list[int])  # lines with other line breaks or spaces
    _has_crlf: bool = False
    _unknown: list[str] = field(default_factory=list[str])  # fields
    _heads: set[str] = field(default_factory=set[str])  # the given ones that lines have
    _files: Counter[str] = field(default_factory=Counter[str])
    _keys: dict[PublicKey, str] = field(init=False)  # and whose they are
    _why_no_keys: list[str] = field(default_factory=list[str])
    _foreign: dict[str, None] = field(default_factory=dict[str, None])

    def __post_init__(self) -> None:
        self._calls = Calls(self.anchors)
        self._keys = {key: key.name for key in self.anchors.keys or ()}
        if self.anchors.keys is not None:
            return
        try:
            self._keys = known_keys(known_keys_file())
        except SignatureError as error:
            self._why_no_keys.append(f"{error}.")
        try:
            self._keys |= {key.public: key.public.name for key in own_keys(keys_file())}
        except SignatureError as error:
            self._why_no_keys.append(f"{error}.")

    def _find(self, text: str, verdict: Verdict = Verdict.ALTERED) -> None:
        self.findings.append(Finding(verdict, text))

    def _fault(self, line: JournalLine, fault: _Fault) -> None:
        self._faults.setdefault(fault, []).append(line.number)

    def take(self, line: JournalLine) -> None:
        # Empty lines are not handed on, but have numbers.
        if line.number > (self._last.number if self._last else 0) + 1 or not line.is_as_written:
            self._spaced.append(line.number)
            self._has_crlf = self._has_crlf or line.data.endswith(b"\r\n")
        before, self._last = self._last, line
        # The first line of another file may have no end, either.
        if line.torn and (self._begun or START.startswith(line.data[: len(START)])):
            self._fault(line, _Fault.TORN)
            return
        try:
            entry = line.entry()
        except (ValueError, RecursionError):
            entry = {}
        is_sound = self._follows(line, entry)
        self._check_part(line, entry)
        fault = self._fault_of(line, entry, is_sound=is_sound)
        if fault is None and not is_sound:
            fault = _Fault.BEGINNING if before is None else _Fault.CHANGED
            fault = _Fault.REPEATED if before is not None and before.data == line.data else fault
        if fault is not None:
            self._fault(line, fault)

    def _follows(self, line: JournalLine, entry: dict[str, Any]) -> bool:
        """Checks that a line follows the line before, and whether a given head is its ``chain``."""
        follows, self._chain = line.linked(self._chain)
        # Files of several runs may stand one behind the other.
        if not self._begun or (not follows and line.data.startswith(START) and line.follows("")):
            follows = follows or bool(self._begun)
            self._end_segment(line.number)
            self._begun.append(line.number)
            self._in_chain, self._is_broken = 0, False
        self._in_chain += 1
        is_sound = follows and line.says(entry)
        # Behind a line that does not follow, an anchor says nothing of what is before that line.
        self._is_broken = self._is_broken or not is_sound
        if follows and self._calls.is_given(self._chain):
            self._heads.add(self._chain)
            self._cover(line, f"the head {self._chain[:12]}… that you noted", since=HEAD_NOTED)
        return is_sound

    @property
    def _uncovered(self) -> int:
        """The first line that nothing covers until now."""
        return self._covers[-1].last + 1 if self._covers else 1

    def _cover(self, line: JournalLine, by: str, signer: str = "", since: str = "") -> None:
        if not self._is_broken:
            # The last of several in one line counts.
            first = self._covers.pop().first if self._uncovered > line.number else self._uncovered
            self._covers.append(Cover(first, line.number, by, signer, since))

    def _end_segment(self, behind: int) -> None:
        if self._uncovered < behind:
            self._covers.append(Cover(self._uncovered, behind - 1, ""))

    def _fault_of(self, line: JournalLine, entry: dict[str, Any], *, is_sound: bool) -> _Fault | None:
        """What is wrong with a line, beside its place; takes over what it says."""
        run, kind = str(entry.get("run", "")), entry.get("kind")
        if is_sound and kind != "checkpoint" and len(self._unknown) < _MOST_NAMED:
            self._unknown += [f"'{name[:40]}' (line {line.number})" for name in unknown_fields(entry)]
        match kind:
            case "start" if run:
                self._run = run
                self._ends.setdefault(run, _End())
                return _Fault.NEWER if is_sound and entry.get("format") != FORMAT else None
            case "call" if run:
                self._ends.setdefault(run, _End())
                return self._fault_of_call(line, entry, is_sound=is_sound)
            # The first end counts; a second one is a finding, whatever it says.
            case "end" if run in self._ends and self._ends[run].count is not None:
                return _Fault.CLOSED
            case "end" if run:
                self._ends[run] = _closing(entry, self._chain)
                return None
            case "checkpoint":
                if self._run in self._ends:
                    self._ends[self._run].chain = self._chain
                return self._fault_of_note(line, entry)
            case str() if (kind in OTHERS and run) or kind in {"next", "part"}:
                return None
            case str() if is_sound and kind not in LINES and kind != "call":
                return _Fault.NEWER
            case _:
                return _Fault.NO_LINE

    def _fault_of_call(self, line: JournalLine, entry: dict[str, Any], *, is_sound: bool) -> _Fault | None:
        link = link_of(entry, f"line {line.number}")
        has_its_hash, is_newer = has_hash(link), False
        if not has_its_hash:
            others = {name: entry[name] for name in unknown_fields(entry)}
            has_its_hash = is_newer = has_newer_hash(link, others)
        self._calls.take(link, has_its_hash=has_its_hash)
        self._forged += [] if has_its_hash else [line.number]
        fault = self._fault_of_files(line, entry) if entry.get("files") else None
        if not is_sound:
            self._touched.add(_place_of(entry))
        return _Fault.NEWER if is_newer and fault is None and is_sound else fault

    def _fault_of_files(self, line: JournalLine, entry: dict[str, Any]) -> _Fault | None:
        """Compares the saved files of a call with the digests on record."""
        try:
            blobs = [(block["sha256"], block["size"]) for block in blobs_of(entry.get("content"))]
            files = [str(name) for name in entry["files"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return _Fault.FILES
        if not blobs:
            self._files["without a digest on record, so nobody can know whether they were changed"] += len(
                files
            )
            return None
        for name, (digest, size) in zip(files, blobs, strict=False):
            found = saved_file(name, self.file)
            if found is None:
                self._files["not there any more, and so not checked"] += 1
            elif not is_as_saved(found, digest, size):
                text = f"The file {found} of line {line.number} is not what was saved."
                run, number = _place_of(entry)
                self.findings.append(Finding(Verdict.ALTERED, text, run, ranges_of([number])))
        return None if len(blobs) == len(files) else _Fault.FILES

    def _fault_of_note(self, line: JournalLine, entry: dict[str, Any]) -> _Fault | None:
        """Checks a checkpoint: what it says of the lines before, who signed it, and its time-stamp."""
        note, token = Checkpoint.parse(entry.get("note")), entry.get("time_stamp")
        # Nothing covers what stands in the last line beside a signature.
        beside = {"time_stamp"} if note is not None and not note.signer else set[str]()
        if note is None or entry.keys() != {"kind", "note", "chain", *beside}:
            return _Fault.NO_NOTE
        # The checkpoint itself is counted already. Where a line is wrong, their number may be, too.
        if not line.follows(note.chain) or (note.lines != self._in_chain - 1 and not self._is_broken):
            return _Fault.OTHER_LINES
        if note.signer:
            key = note.key_of(self._keys)
            if key is None:  # it says nothing, neither for the journal nor against it
                same = [own.label for own in self._keys if own.name == note.signer]
                other = f" (and not by {listed(same)})" if same else ""
                self._foreign[f"{_distinct(note.label)}{other}"] = None
            elif not key.has_signed(note.text.encode(), note.signature):
                return _Fault.NOT_SIGNED
            else:
                signer = f"{self._keys[key]}'s key ({key.id.hex()})"
                self._cover(line, f"the signature with {signer} of {note.at}", signer)
            return None
        stamped = stamped_at(token, entry["note"], self.anchors.roots) if isinstance(token, str) else None
        if stamped is None:
            return _Fault.NOT_STAMPED
        moment, is_trusted = stamped
        if is_trusted:
            by = f"the time-stamp of {moment:%Y-%m-%dT%H:%M:%SZ}"
            self._cover(line, by, since=by)
        else:
            self._foreign[f"a server for time-stamps ({moment:%Y-%m-%dT%H:%M:%SZ})"] = None
        return None

    def _check_part(self, line: JournalLine, entry: dict[str, Any]) -> None:
        """Checks that the journal's files are all there, and in their order."""
        kind, number = entry.get("kind"), entry.get("number")
        is_first, before = line.part not in self._parts, max(self._parts, default=0)
        if is_first:
            self._parts[line.part] = line.number
        file = part_file(self.file, line.part).name
        if is_first and line.part > before + 1:
            missing = [part_file(self.file, part).name for part in range(before + 1, line.part)]
            self._find(f"{listed(missing)}, which {file} goes on from, is missing.")
        elif is_first and line.part > 1 and kind == "part" and number not in (None, line.part):
            self._find(f"{file} is file {number} of a journal: files were renamed or exchanged.")
        elif is_first and line.part > 1 and (kind != "part" or number is None or not self._next):
            self._find(f"{file} is not what followed {part_file(self.file, line.part - 1).name}.")
        elif self._next and kind != "part":
            self._find(f"Line {line.number} stands where a journal went on in another file.")
        self._next = line.part + 1 if kind == "next" else 0

    def result(self) -> Verification:
        last = self._last.number if self._last else 0
        if not self._ends and self._is_broken:
            with self.file.open("rb") as stream:
                data = stream.read(2)
            text = f"No line is one of a journal{_NO_JOURNALS.get(data, '')}. Give the file that a run wrote."
            return Verification((), (Finding(Verdict.NO_JOURNAL, text),))
        if not self._ends and not self._faults:
            self._find("There is no run in this file.", Verdict.TRUNCATED)
        runs: list[VerifiedRun] = []
        notes: list[str] = []
        for run, end in sorted(self._ends.items()):
            state = self._calls.begun(run)
            self.findings += state.findings()
            self.findings += state.end_findings(end.count, end.head)
            notes += self._calls.origin_note(run)
            runs.append(VerifiedRun(run, state.count, state.last or end.head, end.outcome, end.chain))
        altered = set(self._forged)
        for fault, lines in self._faults.items():
            verdict, what = fault.value
            self._find(f"{numbers_text('Line', ranges_of(lines))}: {what}.", verdict)
            altered.update(lines if verdict is Verdict.ALTERED else ())
        if self._next:
            name = part_file(self.file, self._next).name
            self._find(
                f"The journal goes on in {name}, which is missing, or was not begun when the run was killed.",
                Verdict.TRUNCATED,
            )
        # Empty lines at the end are not among the lines of a journal.
        *_, end_file = journal_parts(self.file).values()
        with end_file.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 2))
            if stream.read().isspace():
                self._spaced.append(last + 1)
        missing = self._calls.missing_heads(self._heads)
        self.findings += missing
        self._end_segment(last + 1)
        return Verification(
            tuple(runs),
            tuple(self.findings),
            tuple(notes + self._notes()),
            self._unvouched() if runs else WHOLE,
            all(finding.verdict is not Verdict.TRUNCATED for finding in missing),
            tuple(self._covers),
            frozenset(self._touched),
            tuple(sorted(altered)),
        )

    def _unvouched(self) -> str:
        """For what nobody vouches: some lines; what stands between them; that there are no others."""
        open_lines = [range(cover.first, cover.last + 1) for cover in self._covers if not cover.by]
        if open_lines:
            return numbers_text("line", open_lines) if len(self._covers) > len(open_lines) else WHOLE
        if self._spaced:
            return "its line breaks"
        return "that its files belong together" if len(self._begun) > 1 else ""

    def _notes(self) -> list[str]:
        notes = [f"{_files_text(count)} {what}." for what, count in self._files.items()]
        if len(self._parts) > 1:
            ends = [*list(self._parts.values())[1:], self._covers[-1].last + 1]
            files = [
                f"{part_file(self.file, part).name} has lines {first} to {end - 1}"
                for (part, first), end in zip(self._parts.items(), ends, strict=True)
            ]
            notes.append(f"The journal is in {len(files)} files: {listed(files)}.")
        if self._unknown:
            notes.append(f"Fields that this version does not know: {listed(self._unknown)}.")
        if self._spaced:
            copied = ", as in a copy by mail, or by Git on Windows" if self._has_crlf else ""
            notes.append(
                f"Line breaks or spaces are not those that were written{copied}: in or before"
                f" {numbers_text('line', ranges_of(self._spaced))}. What the lines say was checked."
            )
        if len(self._begun) > 1:
            notes.append(
                "Files were put one behind the other, at"
                f" {numbers_text('line', ranges_of(self._begun[1:]))}: nothing says whether they belong"
                " together, and that none is missing."
            )
        notes += self._why_no_keys
        if self._foreign:
            notes.append(
                f"Signed by {listed(self._foreign)}, which you do not know, so that it does not count. If you"
                " have the public key, or certificate: audit trust KEY --as NAME, or --tsa-certificate."
            )
        if self.findings:
            return notes
        uncovered = [range(cover.first, cover.last + 1) for cover in self._covers if not cover.by]
        if uncovered:
            what = numbers_text("line", uncovered) if len(self._covers) > 1 else "the file"
            calls = (
                " A given head covers calls, and not what else stands in the file."
                if self.anchors.heads
                else ""
            )
            # Whoever got a file that somebody signed is not helped by a key of their own.
            or_sign = "" if self._foreign else ", or sign what you write: knime-mcp audit key new"
            notes.append(
                f"No signature, time-stamp or head that you noted covers {what}: who can write the file could"
                f" have written that anew, or cut off its end.{calls} Note the head elsewhere and give it"
                f" with --head{or_sign}."
            )
        elif self._covers and not self.anchors.heads:
            notes.append("Whether whole runs were cut off behind the last signature shows only with --head.")
        return notes


def _place_of(call: dict[str, Any]) -> tuple[str, int]:
    number = call.get("call")
    return str(call.get("run", "")), number if isinstance(number, int) else 0


def _distinct(label: str) -> str:
    """A stranger's name with letters that may look like others, such as Cyrillic ones, by their numbers."""
    return "".join(letter if letter.isascii() else escape(letter) for letter in label)


def _closing(entry: dict[str, Any], chain: str) -> _End:
    count = entry.get("calls")
    # JSON's `true` is an int in Python.
    is_count = isinstance(count, int) and not isinstance(count, bool)
    # No run has -1 calls, so that an unreadable count is a finding, and not a run without an end.
    return _End(count if is_count else -1, str(entry.get("head", "")), str(entry.get("outcome", "")), chain)


def saved_file(name: str, journal: Path) -> Path | None:
    """A file on record; beside the journal if both were moved."""
    path = Path(name)
    tail = Path(*path.parts[-3:]) if path.is_absolute() else path
    places = (path, journal.parent / path, journal.parent / path.name, journal.parent.parent / tail)
    try:
        return next((place for place in places if place.is_file()), None)
    except (OSError, ValueError):
        return None


def is_as_saved(file: Path, digest: object, size: object) -> bool:
    try:
        # Most changes show without reading the file.
        if file.stat().st_size != size:
            return False
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == digest
    except OSError:
        return False


def _files_text(count: int) -> str:
    return f"{counted(count, 'saved file')} {'is' if count == 1 else 'are'}"
