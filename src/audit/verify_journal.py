"""Verifies a journal line by line, in memory that does not grow with it.

Each line must follow the line before, each call the call before, and each saved file must have the digest on
record. Then it is said for each line which checkpoint or given head covers it: from there back to the
beginning of the chain nobody can have changed anything.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..types.texts import counted, listed
from .journal import FORMAT, keys_file, known_keys_file
from .journal_lines import (
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
    Anchors,
    Calls,
    Cover,
    Finding,
    Verdict,
    Verification,
    VerifiedRun,
    has_hash,
    has_newer_hash,
    newer,
    read_record,
    split_head,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_NAMED: Final = 10


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


class _Anchor(NamedTuple):
    """What covers a line and all before it, see `Cover`."""

    by: str
    signer: str = ""
    since: str = ""


@dataclass(slots=True)
class _Check:
    """What was found until now."""

    file: Path
    anchors: Anchors
    findings: list[Finding] = field(default_factory=list[Finding])
    _heads: list[tuple[str, str]] = field(init=False)
    _keys: dict[PublicKey, str] = field(init=False)  # and whose they are
    _why_no_keys: list[str] = field(default_factory=list[str])
    _calls: Calls = field(init=False)
    _ends: dict[str, _End] = field(default_factory=dict[str, _End])
    _run: str = ""
    _chain: str = ""
    _in_chain: int = 0  # lines since the chain began
    _last: int = 0  # number of the last line
    _parts: dict[int, int] = field(default_factory=dict[int, int])  # files, and their first lines
    _next: int = 0  # the file that has to follow, as the last line says
    _touched: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    _altered: set[int] = field(default_factory=set[int])
    # Numbers of lines: that do not follow, of a newer version, with spaces, at which a chain begins.
    _strangers: list[str] = field(default_factory=list[str])
    _newer: list[str] = field(default_factory=list[str])
    _spaced: list[str] = field(default_factory=list[str])
    _segments: list[int] = field(default_factory=list[int])
    _anchored: dict[int, _Anchor] = field(
        default_factory=dict[int, "_Anchor"]
    )  # line, and what covers up to it
    _unknown: dict[str, None] = field(default_factory=dict[str, None])
    _found: set[str] = field(default_factory=set[str])
    _files: Counter[str] = field(default_factory=Counter[str])
    _foreign: dict[str, None] = field(default_factory=dict[str, None])

    def __post_init__(self) -> None:
        self._heads = [split_head(head) for head in self.anchors.heads]
        self._calls = Calls(call for call, _ in self._heads if call)
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

    def _find(self, text: str, verdict: Verdict = Verdict.ALTERED, *, line: int | None = None) -> None:
        self.findings.append(Finding(verdict, text))
        if line is not None:
            self._altered.add(line)

    def take(self, line: JournalLine) -> None:
        # Empty lines are not handed on, but have numbers.
        if line.number > self._last + 1 or not line.is_as_written:
            self._spaced.append(str(line.number))
        self._last = line.number
        # The first line of another file may have no end, either.
        if line.torn and (self._segments or START.startswith(line.data[: len(START)])):
            self._find(f"Line {line.number} is incomplete, and was not read.", Verdict.TRUNCATED)
            return
        try:
            entry = line.entry()
        except (ValueError, RecursionError):
            entry = {}
        is_sound = self._link(line, entry)
        run, kind = str(entry.get("run", "")), entry.get("kind")
        self._check_part(line, entry)
        if kind != "checkpoint":
            self._look_for_unknown(entry, line.number)
        match kind:
            case "start" if run:
                self._run = run
                self._ends.setdefault(run, _End())
            case "call" if run:
                if not is_sound:
                    self._touch(entry)
                self._ends.setdefault(run, _End())
                self._take_call(entry, line.number)
            # The first end counts; a second one is a finding below, whatever it says.
            case "end" if run and self._ends.get(run, _End()).count is None:
                self._ends[run] = _closing(entry, self._chain)
            case "checkpoint":
                if problem := self._problem_of_note(entry, line):
                    self._find(f"Line {line.number}{problem}", line=line.number)
                if self._run in self._ends:
                    self._ends[self._run].chain = self._chain
            case str() if (kind in OTHERS and run) or kind in {"next", "part"}:
                pass
            case str() if is_sound and kind not in LINES and kind != "call":
                self._newer.append(str(line.number))
            case _:
                is_second_end = kind == "end" and run in self._ends
                what = f"closes run {run} again" if is_second_end else "is not a line of a journal"
                self._find(f"Line {line.number} {what}.", line=line.number)

    def _take_call(self, entry: dict[str, Any], number: int) -> None:
        link = link_of(entry, f"line {number}")
        has_its_hash = has_hash(link)
        others = {name: entry[name] for name in unknown_fields(entry)}
        if not has_its_hash and has_newer_hash(link, others):
            has_its_hash = True
            self._newer.append(str(number))
        if not has_its_hash:
            self._altered.add(number)
        self._calls.take(read_record(link, has_its_hash=has_its_hash))
        if entry.get("files"):
            self._check_files(entry, number)

    def _link(self, line: JournalLine, entry: dict[str, Any]) -> bool:
        """Checks that a line follows the line before, and whether a given head is its ``chain``."""
        follows, self._chain = line.linked(self._chain)
        is_first = not self._segments
        # Files of several runs may stand one behind the other.
        if is_first or (not follows and line.data.startswith(START) and line.follows("")):
            self._segments.append(line.number)
            self._in_chain, follows = 0, follows or not is_first
        is_sound = follows and line.says(entry)
        if not is_sound:
            self._strangers.append(str(line.number))
            self._altered.add(line.number)
        elif entry.get("kind") == "start" and entry.get("format") != FORMAT:
            self._newer.append(str(line.number))
        self._in_chain += 1
        if follows and any(self._chain in head for head in self._heads):
            self._found.add(self._chain)
            self._anchored[line.number] = _Anchor(
                f"the head {self._chain[:12]}… that you noted", since=HEAD_NOTED
            )
        return is_sound

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

    def _look_for_unknown(self, entry: dict[str, Any], number: int) -> None:
        for name in unknown_fields(entry):
            # A file that is no journal would have each of its fields remembered.
            if len(self._unknown) < _MOST_NAMED:
                self._unknown[f"'{name[:40]}' (line {number})"] = None

    def _problem_of_note(self, entry: dict[str, Any], line: JournalLine) -> str | None:
        """Checks a checkpoint: what it says of the lines before, who signed it, and its time-stamp."""
        note, token = Checkpoint.parse(entry.get("note")), entry.get("time_stamp")
        # Nothing covers what stands in the last line beside a signature.
        beside = {"time_stamp"} if note is not None and not note.signer else set[str]()
        if note is None or entry.keys() != {"kind", "note", "chain", *beside}:
            return " is no checkpoint of a journal."
        # The checkpoint itself is counted already.
        if note.lines != self._in_chain - 1 or not line.follows(note.chain):
            return ": the checkpoint is not one of the lines before it: they were changed, or it was."
        if note.signer:
            key = note.key_of(self._keys)
            if key is None:  # it says nothing, neither for the journal nor against it
                self._foreign[note.signer] = None
            elif key.has_signed(note.text.encode(), note.signature):
                signer = self._keys[key]
                by = f"the signature with {signer}'s key ({key.id.hex()}) of {note.at}"
                self._anchored[line.number] = _Anchor(by, signer)
            else:
                return f": the signature with the name {key.name} was not made with that key."
            return None
        stamped = stamped_at(token, entry["note"], self.anchors.roots) if isinstance(token, str) else None
        if stamped is None:
            return ": the time-stamp is not one of this checkpoint."
        moment, is_trusted = stamped
        if is_trusted:
            by = f"the time-stamp of {moment:%Y-%m-%dT%H:%M:%SZ}"
            self._anchored[line.number] = _Anchor(by, since=by)
        else:
            self._foreign[f"a server for time-stamps ({moment:%Y-%m-%dT%H:%M:%SZ})"] = None
        return None

    def _touch(self, entry: dict[str, Any]) -> None:
        if isinstance(call := entry.get("call"), int):
            self._touched.add((str(entry.get("run", "")), call))

    def _check_files(self, entry: dict[str, Any], number: int) -> None:
        """Compares the saved files of a call with the digests on record."""
        try:
            blobs = [(block["sha256"], block["size"]) for block in blobs_of(entry.get("content"))]
            files = [str(name) for name in entry["files"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            self._find(f"Line {number}: its list of files cannot be read.", line=number)
            return
        if not blobs:
            self._files["without a digest on record, so nobody can know whether they were changed"] += len(
                files
            )
            return
        if len(blobs) != len(files):
            self._find(
                f"Line {number} names {len(files)} files, and the result had {len(blobs)}.", line=number
            )
        for name, (digest, size) in zip(files, blobs, strict=False):
            found = saved_file(name, self.file)
            if found is None:
                self._files["not there any more, and so not checked"] += 1
            elif not is_as_saved(found, digest, size):
                self._touch(entry)
                self._find(f"The file {found} of line {number} is not what was saved.", line=number)

    def result(self) -> Verification:
        if not self._ends and self._strangers:
            text = "No line is one of a journal. Give the file that a run wrote."
            return Verification((), (Finding(Verdict.NO_JOURNAL, text),))
        if not self._ends and not self.findings:
            self._find("There is no run in this file.", Verdict.TRUNCATED)
        runs: list[VerifiedRun] = []
        notes: list[str] = []
        for run, end in sorted(self._ends.items()):
            state = self._calls.begun(run)
            self.findings += state.findings()
            self.findings += state.end_findings(end.count, end.head)
            notes += self._calls.origin_note(run)
            runs.append(VerifiedRun(run, state.count, state.last or end.head, end.outcome, end.chain))
        self._look_at_the_whole()
        coverage = self._coverage()
        is_one_chain = not self._spaced and len(self._segments) == 1
        return Verification(
            tuple(runs),
            tuple(self.findings),
            tuple(notes + self._notes(coverage)),
            bool(runs) and is_one_chain and all(cover.by for cover in coverage),
            tuple(coverage),
            frozenset(self._touched),
            tuple(sorted(self._altered)),
        )

    def _look_at_the_whole(self) -> None:
        """Finds what shows only when all lines were read."""
        if self._strangers:
            what = "Line" if len(self._strangers) == 1 else "Lines"
            self._find(
                f"{what} {listed(self._strangers)} of the file: changed, or not what followed the line before"
                " when it was written."
            )
        if self._newer:
            what, verb = ("Line", "was") if len(self._newer) == 1 else ("Lines", "were")
            self.findings.append(newer(f"{what} {listed(self._newer)} of the file {verb} written"))
        if self._next:
            name = part_file(self.file, self._next).name
            self._find(
                f"The journal goes on in {name}, which is missing, or was not begun when the run was killed.",
                Verdict.TRUNCATED,
            )
        # Empty lines at the end are not among the lines of a journal.
        *_, last = journal_parts(self.file).values()
        with last.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 2))
            if stream.read().isspace():
                self._spaced.append(str(self._last + 1))
        for _, chain in self._heads:
            if chain and chain not in self._found:
                self._find(
                    f"No line has the expected chain {chain[:12]}…: its end is missing, or it is another.",
                    Verdict.TRUNCATED,
                )
        self.findings += self._calls.missing_heads(self._found)

    def _coverage(self) -> list[Cover]:
        """Which lines are covered by what: each by the next anchor behind it in its chain."""
        covers: list[Cover] = []
        # Behind a line that does not follow, an anchor says nothing of what is before that line.
        if self._strangers or not self._segments:
            return [Cover(1, self._last, "")] if self._last else []
        for first, behind in zip(self._segments, [*self._segments[1:], self._last + 1], strict=True):
            for line in sorted(line for line in self._anchored if first <= line < behind):
                covers.append(Cover(first, line, *self._anchored[line]))
                first = line + 1
            if first < behind:
                covers.append(Cover(first, behind - 1, ""))
        return covers

    def _notes(self, coverage: list[Cover]) -> list[str]:
        notes = [f"{_files_text(count)} {what}." for what, count in self._files.items()]
        if len(self._parts) > 1:
            ends = [*list(self._parts.values())[1:], self._last + 1]
            files = [
                f"{part_file(self.file, part).name} has lines {first} to {end - 1}"
                for (part, first), end in zip(self._parts.items(), ends, strict=True)
            ]
            notes.append(f"The journal is in {len(files)} files: {listed(files)}.")
        if self._unknown:
            notes.append(f"Fields that this version does not know: {', '.join(self._unknown)}.")
        if self._spaced:
            notes.append(
                "Line breaks or spaces are not those that were written: in or before line"
                f" {listed(self._spaced)}."
            )
        if len(self._segments) > 1:
            notes.append(
                f"Files were put one behind the other, at line {listed(map(str, self._segments[1:]))}:"
                " nothing says whether they belong together, and that none is missing."
            )
        notes += self._why_no_keys
        if self._foreign:
            notes.append(
                f"Signed by {listed(self._foreign)}, whom you do not know, so that it does not count. If you"
                " have the public key, or certificate: audit trust KEY --as NAME, or --tsa-certificate."
            )
        uncovered = [cover.lines for cover in coverage if not cover.by]
        if uncovered and not self.findings:
            what = f"line {listed(uncovered)}" if len(coverage) > 1 else "the file"
            calls = " A given head covers calls, and not what else stands in the file." if self._heads else ""
            # Whoever got a file that somebody signed is not helped by a key of their own.
            or_sign = "" if self._foreign else ", or sign what you write: knime-mcp audit key new"
            notes.append(
                f"No signature, time-stamp or head that you noted covers {what}: who can write the file could"
                f" have written that anew, or cut off its end.{calls} Note the head elsewhere and give it"
                f" with --head{or_sign}."
            )
        elif coverage and not self._heads and not self.findings:
            notes.append("Whether whole runs were cut off behind the last signature shows only with --head.")
        return notes


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
