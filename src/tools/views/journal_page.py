"""The pages of a file of records, a journal or a table: what was asked, and all that happened."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from ...audit.calls_table import is_journal, ordered_calls
from ...audit.journal_reading import JournalLine, journal_lines
from ...audit.record import CallRecord, CallStatus, blobs_of, moment_of
from ...audit.signatures import Checkpoint
from ...audit.verdicts import Verdict
from ...audit.verify_journal import is_as_saved, saved_file
from ...client.protocol.messages import as_list, as_object
from ...types.texts import beginning, counted
from .html import data_url, element, join, meaning_of, note, properties, verdict_note
from .run_page import RunStep, Steps, call_step, milliseconds, picture_of, run_page, said, status_counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ...audit.verdicts import Verification
    from .html import BadgeKind, Html

_LARGEST_PICTURE: Final = 512 << 10
_CALL: Final = b'"kind":"call"'  # within a text the marks would be escaped
_STATUS: Final = re.compile(rb'"status":"([a-z ]+)"')
_ALTERED: Final = "Not as it was written, or not where: somebody else put this here."
_LINES: Final = 10_100  # of a page, as many as a browser opens at once: ten thousand calls and some others
_BYTES: Final = 8 << 20
_SENT: Final = b'"kind":"sent"'  # of which a page has nothing to tell
_PICTURE: Final = b'"image/'
_UNCHECKED: Final = element(
    "div",
    "Whether the records are as they were written is still being looked at.",
    class_="note",
    data_unchecked=True,
)
_GOES_ON: Final = note("This run goes on: its calls appear here as they are made.")
_SILENT: Final = frozenset({"sent", "next", "part"})  # lines of which a page has nothing to tell


class RunPages:
    """The pages of a file of records, self-contained. One at a time is in memory, whatever the file holds.

    Each page is made by itself, so that any of those of a million calls is there at once.
    """

    def __init__(self, file: Path, name: str) -> None:
        self._file, self._name = file, PurePath(name)
        self._is_journal = is_journal(file)
        self._starts = [_Start()]
        self._rows = [] if self._is_journal else list(ordered_calls(file))
        self._top = _Top(statuses=Counter(record.status.value for record in self._rows))
        if self._is_journal:
            self._look_for_starts()
        else:
            self._look_for_rows()

    def _look_for_starts(self) -> None:
        """Looks where pages begin, and what stands above their steps, without reading most lines."""
        lines, size, last, call = 0, 0, None, None
        for line in journal_lines(self._file):
            if last is not None and (lines == _LINES or size > _BYTES):
                here = JournalLine(last.number, last.start + len(last.data), b"", part=last.part)
                self._starts.append(_Start(here, _Call.of(call)))
                lines = size = 0
            self._top.take(line)
            lines, size, last = lines + (_SENT not in line.data), size + len(line.data), line
            if _CALL in line.data:
                call = line
                size += _size_of_pictures(line) if _PICTURE in line.data else 0

    def _look_for_rows(self) -> None:
        size = 0
        for row, record in enumerate(self._rows):
            if row - self._starts[-1].row == _LINES or size > _BYTES:
                self._starts.append(_Start(row=row))
                size = 0
            said = (record.arguments, record.result, record.structured_result, record.content, record.tool)
            size += sum(len(text or "") for text in said)

    def __len__(self) -> int:
        return len(self._starts)

    def name(self, number: int) -> str:
        """The file of a page: the given one, then ``NAME-2`` and so on."""
        return self._name.name if number == 1 else f"{self._name.stem}-{number}{self._name.suffix}"

    def page(
        self,
        number: int,
        verification: Verification | None,
        *,
        is_served: bool = False,
        goes_on: bool = False,
    ) -> str:
        """Makes a page, from 1. The last one of those that are served asks for `news`.

        Without a verification nobody has looked yet whether the records are as they were written. If the
        journal `goes_on`, nothing is wrong with an end that is missing.
        """
        start, steps = self._starts[number - 1], Steps(bounded=False)
        end = self._starts[number].last if number < len(self) else None
        reading = _Reading(self._file, verification, is_served, last=start.last, call=start.call, end=end)
        of_table = (
            recorded_step(record, self._file, is_altered=_is_altered(verification, record))
            for record in self._rows[start.row : self._starts[number].row if number < len(self) else None]
        )
        for step in reading if self._is_journal else of_table:
            steps.add(step)
        ways = [("first", 1), ("before", number - 1)] if number > 1 else []
        ways += [("next", number + 1), ("last", len(self))] if end is not None or number < len(self) else []
        links = (element("a", text, href=quote(self.name(page))) for text, page in ways)
        label = f"Page {number:,} of {len(self):,}: "
        return run_page(
            self._file.name,
            steps,
            *self._above(verification, is_served=is_served, goes_on=goes_on),
            element("nav", label, join(links, " "), aria_label="Pages") if ways else None,
            cursor=None if not is_served else reading.cursor if number == len(self) else "",
        )

    def top(self, verification: Verification | None, *, goes_on: bool = False) -> str:
        """What stands above the steps of pages that are served, for a page that is there already."""
        return element("div", *self._above(verification, is_served=True, goes_on=goes_on), id="top")

    def _above(
        self, verification: Verification | None, *, is_served: bool, goes_on: bool
    ) -> list[Html | None]:
        if verification is None:
            verdict = _UNCHECKED
        elif goes_on and verification.verdict is Verdict.TRUNCATED:
            verdict = _GOES_ON
        else:
            verdict = verdict_note(verification)
        runs = element("nav", element("a", "All runs", href="../../"), aria_label="Runs")
        return [runs if is_served else None, verdict, *self._top.content(verification)]


def news(file: Path, cursor: str, verification: Verification | None) -> str:
    """The steps behind a page's, as JSON, with another `cursor`; `ValueError` if the given one is none."""
    part, number, start = map(int, cursor.split("-"))
    steps = Steps()
    last = JournalLine(number, start, b"", part=part)
    reading = _Reading(file, verification, is_served=True, last=last)
    before = here = cursor
    for step in reading:
        if reading.cursor != here:
            before, here = here, reading.cursor
        if not steps.add(step):  # the rest is news for the next time
            return f'{{"cursor":"{before}",{steps.as_json()[1:]}'
    return f'{{"cursor":"{reading.cursor}",{steps.as_json()[1:]}'


class _Call(NamedTuple):
    """A call, by which one sees whether others are missing behind it."""

    run: str = ""
    number: int = 0

    @classmethod
    def of(cls, line: JournalLine | None) -> _Call:
        entry = {} if line is None else _entry(line)
        number = entry.get("call")
        return cls(str(entry.get("run")), number) if isinstance(number, int) else cls()


_NO_CALL: Final = _Call()


class _Start(NamedTuple):
    """Where a page begins: behind a line, and the last call before it; of a table, at a row."""

    last: JournalLine | None = None
    call: _Call = _NO_CALL
    row: int = 0


def _size_of_pictures(line: JournalLine) -> int:
    """The characters that the pictures of a call add to its page."""
    with suppress(ValueError, KeyError, TypeError):
        blobs = blobs_of(CallRecord.from_json(_entry(line)).content)
        return sum(4 * blob["size"] // 3 for blob in blobs if blob["size"] <= _LARGEST_PICTURE)
    return 0


def _is_altered(verification: Verification | None, record: CallRecord) -> bool:
    return verification is not None and verification.is_altered(record)


@dataclass(slots=True)
class _Top:
    """What stands above the steps: what was asked, what came of it, by which model, by whom."""

    starts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    prompts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    statuses: Counter[str] = field(default_factory=Counter[str])

    def take(self, line: JournalLine) -> None:
        if _CALL in line.data:
            # Calls are most lines, and parsing them takes most of the time.
            found = _STATUS.findall(line.data)
            self.statuses[found[-1].decode() if found else ""] += 1
            return
        entry = _entry(line)
        kept = {"start": self.starts, "prompt": self.prompts, "answer": self.answers}
        lines = kept.get(str(entry.get("kind")))
        if lines is not None:
            # Of many prompts only the number is shown.
            lines.append(entry if not lines else {})

    def content(self, verification: Verification | None) -> list[Html | None]:
        start = self.starts[0] if self.starts else {}
        what, who = (as_object(start.get(name)) for name in ("what", "who"))
        kinds: dict[str, BadgeKind] = {status.value: meaning_of(status) for status in CallStatus}
        counts: list[tuple[str, int, BadgeKind]] = [
            (word or "?", count, kinds.get(word, "bad")) for word, count in self.statuses.most_common()
        ]
        runs = () if verification is None else verification.runs
        outcomes = ", ".join(f"{run.outcome or 'no end on record'}" for run in runs)
        many = len(self.prompts) > 1
        question = None if many or not self.prompts else str(self.prompts[0].get("text") or "")
        answer = None if many or not self.answers else str(self.answers[0].get("text") or "")
        facts = (
            ("What", start.get("about")),
            ("Questions", f"{len(self.prompts):,}, {len(self.answers):,} answered" if many else None),
            ("Model", _joined(what, ("model", "endpoint"), " at ")),
            ("Run by", _joined(who, ("user", "machine", "product"), " · ")),
            ("Begun", start.get("at")),
            ("Ended", outcomes if self.starts else None),
            ("Calls", f"{self.statuses.total():,}"),
            ("Head", "\n".join(run.anchor for run in runs if run.anchor)),
        )
        return [
            said("Question", question or _text(what.get("question"))),
            said("Answer", answer),
            status_counts(counts),
            properties((name, beginning(str(value), 2000)) for name, value in facts if value),
        ]


def _joined(members: dict[str, Any], names: Sequence[str], separator: str) -> str:
    return separator.join(str(members[name]) for name in names if members.get(name))


@dataclass(slots=True)
class _Reading:
    """The steps of a journal, behind a line of it; where news are told, a line is whole or not there yet."""

    file: Path
    verification: Verification | None
    is_served: bool
    last: JournalLine | None = None  # that was read
    call: _Call = _NO_CALL  # the last one
    end: JournalLine | None = None  # the last one to read

    @property
    def cursor(self) -> str:
        """The place behind the last line, for `news`."""
        last = self.last
        return "1-0-0" if last is None else f"{last.part}-{last.number}-{last.start + len(last.data)}"

    def __iter__(self) -> Iterator[RunStep]:
        altered = frozenset(() if self.verification is None else self.verification.altered_lines)
        for line in journal_lines(self.file, self.last):
            if self.is_served and line.torn and not line.data.endswith(b"\n"):
                return
            self.last = line
            yield from self._steps_of(line, is_altered=line.number in altered or line.torn)
            if self.end is not None and line.number == self.end.number:
                return

    def _steps_of(self, line: JournalLine, *, is_altered: bool) -> Iterator[RunStep]:
        entry = _entry(line)
        kind = entry.get("kind")
        if kind == "call":
            try:
                record = CallRecord.from_json(entry)
            except ValueError:
                yield _line(line)
                return
            if record.run == self.call.run and record.call > self.call.number + 1:
                yield _gap(self.call.number + 1, record.call - 1)
            self.call = _Call(record.run, record.call)
            is_altered = is_altered or _is_altered(self.verification, record)
            yield recorded_step(record, self.file, is_altered=is_altered)
        elif not entry:
            yield _line(line)
        elif is_altered or kind not in _SILENT:
            step = _told(str(kind), entry)
            if is_altered:
                step |= RunStep(altered=_ALTERED, mood="bad", facts=[("Line", str(line.number))])
            yield step


def _entry(line: JournalLine) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        return line.entry()
    return {}


def _line(line: JournalLine) -> RunStep:
    """A line that is none of a journal, as it is."""
    text = line.data.decode(errors="replace").strip()
    why = "Its end is missing: the run was stopped while it was written." if line.torn else _ALTERED
    return RunStep(
        kind="line", name=f"Line {line.number}", sent=text, altered=why, mood="bad", status="not read"
    )


def _gap(first: int, last: int) -> RunStep:
    calls = f"Call {first} is" if first == last else f"Calls {first} to {last} are"
    return RunStep(
        kind="line", name="Missing", status="missing", altered=f"{calls} missing here.", mood="bad"
    )


def recorded_step(record: CallRecord, file: Path, *, is_altered: bool = False) -> RunStep:
    """The step of a call, with its pictures, which were saved beside its file."""
    step = call_step(record)
    if is_altered:
        # What an altered record says of its end is no end of a call.
        step |= RunStep(
            altered=_ALTERED, status="changed", mood="bad", reason=f"It says: {record.status.value}"
        )
    if record.files:
        step["pictures"] = [shown for picture in _pictures(record, file) for shown in picture_of(*picture)]
    return step


def _pictures(record: CallRecord, journal: Path) -> Iterator[tuple[str | None, str]]:
    with suppress(ValueError, KeyError, TypeError):  # somebody edited the record, which the verdict says
        for name, blob in zip(record.files, blobs_of(record.content), strict=False):
            file = saved_file(name, journal) if blob["mime_type"].startswith("image/") else None
            if file is None or blob["size"] > _LARGEST_PICTURE:
                continue
            # A page is not to show a picture that somebody put there later.
            if is_as_saved(file, blob["sha256"], blob["size"]):
                yield data_url(file.read_bytes(), blob["mime_type"]), file.name


def _told(kind: str, entry: dict[str, Any]) -> RunStep:
    """The step of a line that is no call."""
    text = str(entry.get("text") or "")
    step = RunStep(kind=kind, row=_text(entry.get("row")), start=_start(entry.get("at")))
    match kind:
        case "start":
            what = json.dumps(entry.get("what") or {}, ensure_ascii=False)
            return {**step, "name": "Begin", "sent": _text(entry.get("about")), "came": what}
        case "prompt":
            return {**step, "name": "Question", "sent": text}
        case "turn":
            calls = as_list(entry.get("calls"))
            asks = f"asks for {counted(len(calls), 'call')}" if calls else ""
            return {**step, "name": "Model", "status": asks, "sent": text, "facts": _usage(entry)}
        case "answer":
            ending = str(entry.get("ending", ""))
            mood = "good" if ending in ("answer", "") else "warning"
            return {**step, "name": "Answer", "status": ending, "mood": mood, "sent": text}
        case "read":
            error = _text(entry.get("error"))
            status = RunStep(status="failed" if error else "ok", mood="bad" if error else "good", error=error)
            facts, name = _facts(entry, "server", "digest"), f"Read a {entry.get('what')}"
            return {**step, **status, "name": name, "sent": _text(entry.get("name")), "facts": facts}
        case "end":
            outcome = str(entry.get("outcome"))
            mood = "good" if outcome == "complete" else "bad"
            return {
                **step,
                "name": "End",
                "status": outcome,
                "mood": mood,
                "sent": _count(entry.get("calls")),
            }
        case "checkpoint":
            signed = Checkpoint.parse(entry.get("note"))
            who = (
                "nobody can read"
                if signed is None
                else signed.label
                if signed.signer
                else "a server for time-stamps"
            )
            start = _start(signed.at if signed else None)
            return {**step, "name": "Signed", "sent": f"by {who}", "start": start}
        case _:
            return {**step, "name": kind, "sent": json.dumps(entry, ensure_ascii=False)}


def _count(calls: Any) -> str:
    return counted(calls, "call") if isinstance(calls, int) else ""


def _usage(entry: dict[str, Any]) -> list[tuple[str, str]]:
    usage = as_object(entry.get("usage"))
    return [("Tokens", f"{usage.get('read')} read, {usage.get('wrote')} written")] if usage else []


def _facts(entry: dict[str, Any], *names: str) -> list[tuple[str, str]]:
    return [(name.capitalize(), str(entry[name])) for name in names if entry.get(name)]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _start(at: Any) -> float | None:
    with suppress(ValueError, TypeError):
        return milliseconds(moment_of(at))
    return None
