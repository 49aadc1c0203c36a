"""Verifies records: finds altered and missing ones.

Works on journals and on tables, with the rows in any order. Rows are sorted by run and call; then every
record must have the hash of its content and follow the record before. A chain cannot show that the last calls
of a table are missing: that needs a head hash that was kept elsewhere, such as the flow variable
``mcp_audit_head``. A journal has its closing record for that.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..types.texts import counted
from .calls_table import COLUMNS, is_journal, laid_out_anew, links_of, lost_columns
from .journal import START, journal_lines
from .record import Link, chain_hash, link_of, same_hash
from .table_formats import TableError, read_table_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from ..types.tool import Tool

_MOST_NAMED: Final = 10


class Verdict(StrEnum):
    """The state of records, from harmless to worst."""

    INTACT = "intact"
    ROWS_MISSING = "rows missing"
    """Calls are missing between others or at the beginning; filtering a table does that."""
    TRUNCATED = "truncated"
    """The end is missing: cut off, or never written because the run was killed or is still going on."""
    UNVERIFIABLE = "not verifiable"
    """Columns that are needed to compute hashes are missing."""
    ALTERED = "altered"
    """A record was changed, or does not belong there."""


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict  # never intact
    text: str  # a sentence that names the calls and their places
    run: str = ""  # "" if the problem concerns the whole file
    calls: tuple[range, ...] = ()  # numbers of the missing or altered calls


@dataclass(frozen=True, slots=True)
class VerifiedRun:
    run: str
    count: int  # of its calls in the file or table
    head: str  # hash of the last call, "" if there is none
    outcome: str | None = None  # None if it is not known


@dataclass(frozen=True, slots=True)
class Verification:
    runs: tuple[VerifiedRun, ...]  # in the order of their ids
    findings: tuple[Finding, ...]  # the problems, run by run
    notes: tuple[str, ...] = ()  # remarks that are not problems

    @property
    def verdict(self) -> Verdict:
        worst = list(Verdict)
        return max((finding.verdict for finding in self.findings), key=worst.index, default=Verdict.INTACT)

    @property
    def intact(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class _Closing:
    """The closing record of a journal's run; without a count, the run has no closing record."""

    count: int | None = None
    head: str = ""
    outcome: str | None = None


class _ReadRecord(NamedTuple):
    """A record without its large texts; the call number is 0 if the record has none."""

    run: str
    call: int
    previous: str
    hash: str
    place: str
    has_its_hash: bool


def verify_file(file: Path, *, head: str | None = None) -> Verification:
    """Verifies a journal, or a table in one of `table_formats.FORMATS`.

    ``head`` is the hash that the last call of a run must have, with or without ``sha256:``. Raises
    `JournalError`, `TableError` or `OSError` if the file cannot be read at all.
    """
    if is_journal(file):
        return _verify_journal(file, head)
    return verify_table(read_table_file(file).table, head=head)


def verify_table(
    table: pa.Table, tools: Sequence[Tool | None] | None = None, *, head: str | None = None
) -> Verification:
    """Verifies a table *Tool calls*, with its rows in any order; for ``head`` see `verify_file`.

    ``tools`` are those of the rows, if the caller has read them already.
    """
    if len(lost_columns(table)) == len(COLUMNS) + 1:
        raise TableError("The table has none of the columns of Tool calls: it holds no calls")
    lost = [name for name in lost_columns(table) if tools is None or name != "Tool"]
    links = list(map(_read_record, links_of(table, tools)))
    return _verified(links, closings={}, findings=[], lost=lost, head=head)


def _verify_journal(file: Path, head: str | None) -> Verification:
    links: list[_ReadRecord] = []
    closings: dict[str, _Closing] = {}
    findings: list[Finding] = []
    chain, is_chained, strangers = "", False, list[str]()
    for line in journal_lines(file):
        place = f"line {line.number}"
        if line.torn:
            text = f"{place.capitalize()} is incomplete, and was not read."
            findings.append(Finding(Verdict.TRUNCATED, text))
            continue
        follows = line.follows(chain)
        if follows is False and line.data.startswith(START):  # files of several runs, one behind the other
            follows = line.follows("")
        if follows is False or (is_chained and follows is None):
            strangers.append(str(line.number))
        chain, is_chained = line.chain(chain), is_chained or follows is not None
        try:
            entry = line.entry()
        except (ValueError, RecursionError):
            entry = {}
        run = str(entry.get("run", ""))
        match entry.get("kind"):
            case "start" if run:
                closings.setdefault(run, _Closing())
            case "sent" | "prompt" | "turn" | "answer" if run:
                pass
            case "call" if run:
                closings.setdefault(run, _Closing())
                links.append(_read_record(link_of(entry, place)))
            case "end" if run and closings.get(run, _Closing()).count is None:
                closings[run] = _closing(entry)
            case kind:
                is_second_end = kind == "end" and run in closings
                what = f"closes {_run_text(run)} again" if is_second_end else "is not a line of a journal"
                text = f"{place.capitalize()} {what}."
                findings.append(Finding(Verdict.ALTERED, text))
    if not closings and not findings:
        findings.append(Finding(Verdict.TRUNCATED, "There is no run in this file."))
    verified = _verified(links, closings=closings, findings=findings, lost=[], head=head)
    return replace(verified, findings=(*verified.findings, *_broken_chain(strangers)))


def _broken_chain(lines: Sequence[str]) -> tuple[Finding, ...]:
    if not lines:
        return ()
    more = f" and {len(lines) - _MOST_NAMED} more" if len(lines) > _MOST_NAMED else ""
    what = "Line" if len(lines) == 1 else "Lines"
    text = (
        f"{what} {', '.join(lines[:_MOST_NAMED])}{more} of the file: changed, or not what followed the line"
        " before when it was written."
    )
    return (Finding(Verdict.ALTERED, text),)


def _closing(entry: dict[str, Any]) -> _Closing:
    count = entry.get("calls")
    return _Closing(
        count if isinstance(count, int) else -1, str(entry.get("head", "")), str(entry.get("outcome", ""))
    )


def _verified(
    links: Sequence[_ReadRecord],
    *,
    closings: Mapping[str, _Closing],
    findings: list[Finding],
    lost: Sequence[str],
    head: str | None,
) -> Verification:
    none = not links and not closings
    # A missing column does no harm if all hashes are right: it was empty.
    if lost and (none or not all(link.has_its_hash for link in links)):
        text = f"Hashes cannot be computed without columns that are missing: {', '.join(lost)}."
        findings.append(Finding(Verdict.UNVERIFIABLE, text))
    notes = ["There are no calls in this table."] if none and not findings else []
    by_run: dict[str, list[_ReadRecord]] = defaultdict(list)
    for link in links:
        by_run[link.run].append(link)
    hashes = {link.hash for link in links}
    runs: list[VerifiedRun] = []
    for run in sorted(by_run.keys() | closings.keys()):
        run_links = by_run.get(run, [])
        closing = closings.get(run)
        ordered = sorted((link for link in run_links if link.call), key=attrgetter("call"))
        if not lost:
            findings += _content_findings(run, run_links, ordered)
        if {"Run", "Call"}.isdisjoint(lost):
            linked = {"Hash", "Previous hash"}.isdisjoint(lost)
            findings += _order_findings(run, ordered, linked=linked)
        if closing is not None:
            findings += _end_findings(run, ordered, closing)
        first = ordered[0] if ordered else None
        if first is not None and first.call == 1 and first.previous and first.previous not in hashes:
            notes.append(f"{_run_text(run)} goes on from an earlier run, which is not in this file.")
        last = ordered[-1].hash if ordered else closing.head if closing else ""
        runs.append(VerifiedRun(run, len(run_links), last, closing.outcome if closing else None))
    if head is not None:
        findings += _head_findings(head, runs, links)
    elif runs and not closings:
        notes.append(
            "A table does not show whether calls are missing at its end. Compare it with the head hash of the"
            " run (flow variable mcp_audit_head)."
        )
    return Verification(tuple(runs), tuple(findings), tuple(notes))


def _content_findings(
    run: str, links: Sequence[_ReadRecord], ordered: Sequence[_ReadRecord]
) -> list[Finding]:
    numberless = [link for link in links if not link.call]
    wrong = [link for link in ordered if not link.has_its_hash]
    findings: list[Finding] = []
    if numberless:
        findings.append(_altered(run, "without a number of its call", numberless))
    if wrong:
        findings.append(_altered(run, "not what was written", wrong))
    return findings


def _order_findings(run: str, ordered: Sequence[_ReadRecord], *, linked: bool) -> list[Finding]:
    """Finds records that are duplicated, missing, or do not follow the record before."""
    twice: list[_ReadRecord] = []
    strangers: list[_ReadRecord] = []
    missing: list[range] = []
    before: _ReadRecord | None = None
    for link in ordered:
        number, expected = link.call, before.call + 1 if before else 1
        if number < expected:
            twice.append(link)
            continue
        if number > expected:
            missing.append(range(expected, number))
        elif before is not None and linked and link.previous != before.hash:
            strangers.append(link)
        before = link
    findings: list[Finding] = []
    if twice:
        findings.append(_altered(run, "there more than once", twice))
    if strangers:
        text = "not written after the call that stands before it; one of the two was replaced"
        findings.append(_altered(run, text, strangers))
    if missing:
        verb = "is" if _is_one(missing) else "are"
        text = f"{_calls_text(missing)} of {_run_text(run)} {verb} missing."
        findings.append(Finding(Verdict.ROWS_MISSING, text, run, tuple(missing)))
    return findings


def _end_findings(run: str, ordered: Sequence[_ReadRecord], closing: _Closing) -> list[Finding]:
    number = ordered[-1].call if ordered else 0
    named = _run_text(run)
    named = named[0].upper() + named[1:]
    if closing.count is None:
        text = (
            f"{named} has no closing record: it was killed, is still going on, or its end was cut off. It has"
            f" {counted(number, 'call')} up to there."
        )
        return [Finding(Verdict.TRUNCATED, text, run)]
    if number < closing.count:
        missing = (range(number + 1, closing.count + 1),)
        text = (
            f"{named} made {counted(closing.count, 'call')}; {_calls_text(missing).lower()} at its end"
            f" {'is' if _is_one(missing) else 'are'} missing."
        )
        return [Finding(Verdict.TRUNCATED, text, run, missing)]
    if number > closing.count:
        added = [link for link in ordered if link.call > closing.count]
        return [_altered(run, "behind the last one that the closing record counts", added)]
    if ordered and ordered[-1].hash != closing.head:
        return [_altered(run, "not the one that the closing record names", ordered[-1:])]
    return []


def _altered(run: str, what: str, links: Sequence[_ReadRecord]) -> Finding:
    calls = _ranges(link.call for link in links if link.call)
    places = ", ".join(link.place for link in links[:_MOST_NAMED])
    more = f" and {len(links) - _MOST_NAMED} more" if len(links) > _MOST_NAMED else ""
    named = _calls_text(calls) if calls else "A record"
    verb = "is" if len(links) == 1 else "are"
    text = f"{named} of {_run_text(run)} ({places}{more}) {verb} {what}."
    return Finding(Verdict.ALTERED, text, run, calls)


def _head_findings(head: str, runs: Sequence[VerifiedRun], links: Iterable[_ReadRecord]) -> list[Finding]:
    if any(same_hash(run.head, head) for run in runs):
        return []
    match = next((link for link in links if same_hash(link.hash, head)), None)
    if match is None:
        text = "No call has the expected head hash: the end of its run is missing, or it is another run."
        return [Finding(Verdict.TRUNCATED, text)]
    text = (
        f"The expected head hash is that of call {match.call} of {_run_text(match.run)} ({match.place}), but"
        " there are later calls."
    )
    return [Finding(Verdict.ALTERED, text, match.run)]


def _read_record(link: Link) -> _ReadRecord:
    has_its_hash = (
        chain_hash(link.previous, link.texts) == link.hash
        or chain_hash(link.previous, laid_out_anew(link.texts)) == link.hash
    )
    return _ReadRecord(link.run, link.call or 0, link.previous, link.hash, link.place, has_its_hash)


def _ranges(calls: Iterable[int]) -> tuple[range, ...]:
    ranges: list[range] = []
    for call in calls:
        if ranges and call == ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, call + 1)
        else:
            ranges.append(range(call, call + 1))
    return tuple(ranges)


def _calls_text(calls: Sequence[range]) -> str:
    """The calls in words, such as ``Calls 3, 5 to 9``."""
    texts = [
        str(part.start) if part.stop - part.start == 1 else f"{part.start} to {part.stop - 1}"
        for part in calls[:_MOST_NAMED]
    ]
    more = f" and {len(calls) - _MOST_NAMED} more" if len(calls) > _MOST_NAMED else ""
    return f"Call{'' if _is_one(calls) else 's'} {', '.join(texts)}{more}"


def _is_one(calls: Sequence[range]) -> bool:
    return len(calls) == 1 and calls[0].stop - calls[0].start == 1


def _run_text(run: str) -> str:
    return f"run {run}" if run else "a run without id"
