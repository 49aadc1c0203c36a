"""Verifies a journal line by line, in memory that does not grow with it.

Each line must follow the line before, each call the call before, and each saved file must have the digest on
record. Then it is said for each line which checkpoint or given head covers it: from there back to the
beginning of the chain nobody can have changed anything.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..types.texts import counted, listed
from .journal import FORMAT, keys_file
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
from .signatures import Checkpoint, PublicKey, SignatureError, own_keys, stamped_at
from .verdicts import (
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
    from collections.abc import Callable, Sequence

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


@dataclass(slots=True)
class _Check:
    """What was found until now."""

    file: Path
    anchors: Anchors
    findings: list[Finding] = field(default_factory=list[Finding])
    _heads: list[tuple[str, str]] = field(init=False)
    _keys: Sequence[PublicKey] = field(init=False)
    _why_no_keys: str = field(init=False)
    _calls: Calls = field(init=False)
    _ends: dict[str, _End] = field(default_factory=dict[str, _End])
    _run: str = ""
    _chain: str = ""
    _format: int = 1
    _in_chain: int = 0  # lines since the chain began
    _last: int = 0  # number of the last line
    _parts: dict[int, int] = field(default_factory=dict[int, int])  # files, and their first lines
    _next: int = 0  # the file that has to follow, as the last line says
    _strangers: list[str] = field(default_factory=list[str])
    _touched: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    _altered: dict[int, None] = field(default_factory=dict[int, None])  # lines
    _newer: list[str] = field(default_factory=list[str])
    _spaced: list[str] = field(default_factory=list[str])
    _unknown: dict[str, None] = field(default_factory=dict[str, None])
    _segments: list[int] = field(default_factory=list[int])  # lines at which a chain begins
    _anchored: dict[int, str] = field(default_factory=dict[int, str])  # line, and what covers up to it
    _bare_lines: int = 0
    _found: set[str] = field(default_factory=set[str])
    _files: dict[str, int] = field(default_factory=dict[str, int])
    _foreign: dict[str, None] = field(default_factory=dict[str, None])

    def __post_init__(self) -> None:
        self._heads = [split_head(head) for head in self.anchors.heads]
        self._calls = Calls(call for call, _ in self._heads if call)
        self._keys, self._why_no_keys = self.anchors.keys or (), ""
        if self.anchors.keys is None:
            try:
                self._keys = [key.public for key in own_keys(keys_file())]
            except SignatureError as error:
                self._why_no_keys = f"{error}."

    def take(self, line: JournalLine) -> None:
        place = f"line {line.number}"
        # Empty lines are not handed on, but have numbers.
        if line.number > self._last + 1 or not line.is_as_written:
            self._spaced.append(str(line.number))
        self._last = line.number
        if line.torn:
            text = f"{place.capitalize()} is incomplete, and was not read."
            self.findings.append(Finding(Verdict.TRUNCATED, text))
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
                if not is_sound and self._format > 1:
                    self._touch(entry)
                self._ends.setdefault(run, _End())
                self._take_call(entry, line.number)
            # The first end counts; a second one is a finding below, whatever it says.
            case "end" if run and self._ends.get(run, _End()).count is None:
                self._ends[run] = _closing(entry, self._chain)
            case "checkpoint":
                self._check_note(entry, line)
                if self._run in self._ends:
                    self._ends[self._run].chain = self._chain
            case str() if kind in OTHERS and run:
                pass
            case "next" | "part":
                pass
            case str() if is_sound and kind not in LINES and kind != "call":
                self._newer.append(str(line.number))
            case _:
                is_second_end = kind == "end" and run in self._ends
                what = f"closes run {run} again" if is_second_end else "is not a line of a journal"
                self._accuse(line.number, f"{place.capitalize()} {what}.")

    def _take_call(self, entry: dict[str, Any], number: int) -> None:
        link = link_of(entry, f"line {number}")
        has_its_hash = has_hash(link)
        others = {name: entry[name] for name in unknown_fields(entry)}
        if not has_its_hash and has_newer_hash(link, others):
            has_its_hash = True
            self._newer.append(str(number))
        if not has_its_hash:
            self._altered[number] = None
        self._calls.take(read_record(link, has_its_hash=has_its_hash))
        if entry.get("files"):
            self._check_files(entry, number)

    def _link(self, line: JournalLine, entry: dict[str, Any]) -> bool:
        """Checks that a line follows the line before, and whether a given head is its ``chain``."""
        follows, chain = line.linked(self._chain)
        is_spelled = line.says(entry)
        if follows and not is_spelled:
            self._estrange(line.number)
        is_start = entry.get("kind") == "start"
        if is_start and entry.get("format") != 1:
            self._format = FORMAT if "format" in entry else self._format
        if is_start and follows and is_spelled and entry.get("format") not in (None, 1, FORMAT):
            self._newer.append(str(line.number))
        if not self._segments:
            self._segments.append(line.number)
        elif follows is False and line.data.startswith(START) and line.follows(""):
            self._segments.append(line.number)  # files of several runs, one behind the other
            self._in_chain, follows = 0, True
        # Lines of format 1 have no chain; behind one that has, a line without it was put there.
        if follows is False or (follows is None and self._format > 1):
            self._estrange(line.number)
        self._bare_lines += follows is None
        self._in_chain += 1
        self._chain = chain
        if self._heads and follows:
            for call, chain in self._heads:
                if self._chain in (chain, call):
                    self._found.add(self._chain)
                    self._anchored[line.number] = f"the given head {self._chain[:12]}…"
        return bool(follows) and is_spelled

    def _check_part(self, line: JournalLine, entry: dict[str, Any]) -> None:
        """Checks that the journal's files are all there, and in their order."""
        kind, number = entry.get("kind"), entry.get("number")
        is_first, before = line.part not in self._parts, max(self._parts, default=0)
        if is_first:
            self._parts[line.part] = line.number
        file = part_file(self.file, line.part).name
        if is_first and line.part > before + 1:
            missing = [part_file(self.file, part).name for part in range(before + 1, line.part)]
            self._wrong_file(f"{listed(missing)}, which {file} goes on from, is missing")
        elif is_first and line.part > 1 and kind == "part" and number not in (None, line.part):
            self._wrong_file(f"{file} is file {number} of a journal: files were renamed or exchanged")
        elif is_first and line.part > 1 and (kind != "part" or number is None or not self._next):
            self._wrong_file(f"{file} is not what followed {part_file(self.file, line.part - 1).name}")
        elif self._next and kind != "part":
            self._wrong_file(f"Line {line.number} stands where a journal went on in another file")
        self._next = line.part + 1 if kind == "next" else 0

    def _wrong_file(self, text: str) -> None:
        self.findings.append(Finding(Verdict.ALTERED, f"{text}."))

    def _look_for_unknown(self, entry: dict[str, Any], number: int) -> None:
        for name in unknown_fields(entry):
            # A file that is no journal would have each of its fields remembered.
            if len(self._unknown) < _MOST_NAMED:
                self._unknown[f"'{name[:40]}' (line {number})"] = None

    def _check_note(self, entry: dict[str, Any], line: JournalLine) -> None:
        """Checks a checkpoint: what it says of the lines before, who signed it, and its time-stamp."""
        place = f"Line {line.number}"
        note, token = Checkpoint.parse(entry.get("note")), entry.get("time_stamp")
        # Nothing covers what stands in the last line beside a signature.
        beside = {"time_stamp"} if note is not None and not note.signer else set[str]()
        if note is None or entry.keys() != {"kind", "note", "chain", *beside}:
            self._accuse(line.number, f"{place} is no checkpoint of a journal.")
            return
        # The checkpoint itself is counted already.
        if note.lines != self._in_chain - 1 or not line.follows(note.chain):
            text = f"{place}: the checkpoint is not one of the lines before it: they were changed, or it was."
            self._accuse(line.number, text)
            return
        if note.signer:
            key = note.key_of(self._keys)
            if key is None:  # it says nothing, neither for the journal nor against it
                self._foreign[note.signer] = None
            elif key.has_signed(note.text.encode(), note.signature):
                self._anchored[line.number] = f"the signature of {key.name} ({key.id.hex()}) of {note.at}"
            else:
                text = f"{place}: the signature with the name {key.name} was not made with that key."
                self._accuse(line.number, text)
            return
        stamped = stamped_at(token, entry["note"], self.anchors.roots) if isinstance(token, str) else None
        if stamped is None:
            text = f"{place}: the time-stamp is not one of this checkpoint."
            self._accuse(line.number, text)
            return
        moment, is_trusted = stamped
        if is_trusted:
            self._anchored[line.number] = f"the time-stamp of {moment:%Y-%m-%dT%H:%M:%SZ}"
        else:
            self._foreign[f"a server for time-stamps ({moment:%Y-%m-%dT%H:%M:%SZ})"] = None

    def _accuse(self, line: int, text: str) -> None:
        self._altered[line] = None
        self.findings.append(Finding(Verdict.ALTERED, text))

    def _estrange(self, line: int) -> None:
        self._altered[line] = None
        self._strangers.append(str(line))

    def _touch(self, entry: dict[str, Any]) -> None:
        if isinstance(call := entry.get("call"), int):
            self._touched.add((str(entry.get("run", "")), call))

    def _check_files(self, entry: dict[str, Any], line: int) -> None:
        """Compares the saved files of a call with the digests on record."""
        place = f"line {line}"
        try:
            blobs = [(block["sha256"], block["size"]) for block in blobs_of(entry.get("content"))]
            files = [str(name) for name in entry["files"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            self._accuse(line, f"{place.capitalize()}: its list of files cannot be read.")
            return
        if not blobs:
            self._count(
                "without a digest on record, so nobody can know whether they were changed", len(files)
            )
            return
        if len(blobs) != len(files):
            text = f"{place.capitalize()} names {len(files)} files, and the result had {len(blobs)}."
            self._accuse(line, text)
        for name, (digest, size) in zip(files, blobs, strict=False):
            found = saved_file(name, self.file)
            if found is None:
                self._count("not there any more, and so not checked", 1)
            elif not is_as_saved(found, digest, size):
                self._touch(entry)
                self._accuse(line, f"The file {found} of {place} is not what was saved.")

    def _count(self, what: str, files: int) -> None:
        self._files[what] = self._files.get(what, 0) + files

    def result(self) -> Verification:
        if not self._ends and not self.findings:
            self.findings.append(Finding(Verdict.TRUNCATED, "There is no run in this file."))
        runs: list[VerifiedRun] = []
        notes: list[str] = []
        for run in sorted(self._ends):
            end, state = self._ends[run], self._calls.begun(run)
            self.findings += state.findings()
            self.findings += state.end_findings(end.count, end.head)
            notes += self._calls.origin_note(run)
            runs.append(VerifiedRun(run, state.count, state.last or end.head, end.outcome, end.chain))
        self._name_broken_lines()
        if self._newer:
            what = "Line" if len(self._newer) == 1 else "Lines"
            verb = "was" if len(self._newer) == 1 else "were"
            self.findings.append(newer(f"{what} {listed(self._newer)} of the file {verb} written"))
        if self._next:
            name = part_file(self.file, self._next).name
            text = (
                f"The journal goes on in {name}, which is missing, or was not begun when the run was killed."
            )
            self.findings.append(Finding(Verdict.TRUNCATED, text))
        self._look_behind_the_last_line()
        self._check_heads()
        coverage = self._coverage()
        anchored = bool(runs) and not self._bare_lines and not self._spaced and all(c.by for c in coverage)
        if len(self._segments) > 1:
            anchored = False
        return Verification(
            tuple(runs),
            tuple(self.findings),
            tuple(notes + self._notes(coverage)),
            anchored,
            tuple(coverage),
            frozenset(self._touched),
            tuple(sorted(self._altered)),
        )

    def _look_behind_the_last_line(self) -> None:
        """Empty lines at the end are not among the lines of a journal."""
        *_, last = journal_parts(self.file).values()
        with last.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 2))
            if stream.read().isspace():
                self._spaced.append(str(self._last + 1))

    def _name_broken_lines(self) -> None:
        if self._strangers:
            what = "Line" if len(self._strangers) == 1 else "Lines"
            text = (
                f"{what} {listed(self._strangers)} of the file: changed, or not what followed the line"
                " before when it was written."
            )
            self.findings.append(Finding(Verdict.ALTERED, text))

    def _check_heads(self) -> None:
        for _, chain in self._heads:
            if chain and chain not in self._found:
                text = f"No line has the expected chain {chain[:12]}…: its end is missing, or it is another."
                self.findings.append(Finding(Verdict.TRUNCATED, text))
        self.findings += self._calls.missing_heads(self._found)

    def _coverage(self) -> list[Cover]:
        """Which lines are covered by what: each by the next anchor behind it in its chain."""
        covers: list[Cover] = []
        # Behind a line that does not follow, an anchor says nothing of what is before that line.
        if self._strangers or not self._segments:
            return [Cover(1, self._last, "")] if self._last else []
        for first, behind in zip(self._segments, [*self._segments[1:], self._last + 1], strict=True):
            for line in sorted(line for line in self._anchored if first <= line < behind):
                covers.append(Cover(first, line, self._anchored[line]))
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
        if self._bare_lines:
            lines = (
                "All lines are"
                if self._bare_lines == self._last
                else counted(self._bare_lines, "line") + " are"
            )
            notes.append(
                f"{lines} of format 1, which is less: only calls have hashes, and nothing covers what else"
                " stands there, such as how a run began and ended."
            )
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
        if self._why_no_keys:
            notes.append(self._why_no_keys)
        if self._foreign:
            notes.append(
                f"Signed by {listed(self._foreign)}, which does not count, as you have not named that key or"
                " certificate: --key, --tsa-certificate."
            )
        uncovered = [
            f"{c.first} to {c.last}" if c.last > c.first else str(c.first) for c in coverage if not c.by
        ]
        if uncovered and not self.findings:
            what = f"line {listed(uncovered)}" if len(coverage) > 1 else "the file"
            calls = " A given head covers calls, and not what else stands in the file." if self._heads else ""
            notes.append(
                f"No signature, time-stamp or given head covers {what}: who can write the file could have"
                f" written that anew, or cut off its end.{calls} Keep the head elsewhere and give it with"
                " --head, or sign: knime-mcp audit key new."
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
