"""What is said of records: verdicts, findings, what covers them; and the chains of calls that these rest on.

Every record must have the hash of its content and follow the record before. That makes records consistent,
which whoever writes them all anew can achieve, too. So they are called unchanged only where something covers
them that was kept elsewhere: a head, such as the flow variable ``mcp_audit_head``, or a key that signs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..types.errors import SettingInvalid
from ..types.texts import counted, listed
from .journal import anchor_of
from .record import chain_hash

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from .record import CallRecord, Link
    from .signatures import PublicKey

HEAD_NOTED: Final = "you noted its head"
WHOLE: Final = "it"
_NO_HEAD: Final = "it is of another journal, its end was cut off, or it was written anew"
_MOST_NEWER: Final = 6  # fields of which each may be hashed or not
_HEAD: Final = re.compile(
    r"(?=.*[0-9a-f]{64})(?:sha256:)?(?P<call>[0-9a-f]{64})?(?:-(?P<chain>[0-9a-f]{64}))?", re.IGNORECASE
)


class Verdict(StrEnum):
    """The state of records, from harmless to worst; `Verification.in_words` says who vouches, and where."""

    INTACT = "unchanged"
    """Consistent, and all of it is covered by a signature, a time-stamp or a head that was given."""
    UNANCHORED = "complete in itself, but nobody vouches for it"
    """Nothing contradicts anything; but whoever wrote all of it anew could achieve that, too."""
    ROWS_MISSING = "rows missing"
    """Calls are missing between others or at the beginning; filtering a table does that."""
    TRUNCATED = "end missing"
    """The end is missing: cut off, or never written because the run was killed or is still going on."""
    UNVERIFIABLE = "not verifiable"
    """Columns that are needed to compute hashes are missing, or a newer version wrote it."""
    ALTERED = "changed"
    """A record was changed, or does not belong there."""
    NO_JOURNAL = "no journal"
    """No line is one of a journal: another file was given, or it was written over."""


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
    chain: str = ""  # of its last line in a journal

    @property
    def anchor(self) -> str:
        """What to keep elsewhere."""
        return anchor_of(self.head, self.chain) if self.chain else self.head


class Cover(NamedTuple):
    """What proves some lines of a journal, or the calls of a run in a table."""

    first: int  # line
    last: int
    by: str  # in words; "" for nothing
    signer: str = ""  # whose key vouches
    since: str = ""  # without a key: since when nobody can have changed them

    @property
    def lines(self) -> str:
        return f"{self.first} to {self.last}" if self.last > self.first else str(self.first)


@dataclass(frozen=True, slots=True)
class Verification:
    runs: tuple[VerifiedRun, ...]  # in the order of their ids
    findings: tuple[Finding, ...]  # the problems, run by run
    notes: tuple[str, ...] = ()  # remarks that are not problems
    unvouched: str = WHOLE  # what nothing covers that was kept elsewhere, in words; "" if all is covered
    has_heads: bool = True  # whether all given heads are in the file
    coverage: tuple[Cover, ...] = ()  # of a journal, line by line
    touched: frozenset[tuple[str, int]] = frozenset()
    """Run and number of the calls whose line in a journal, or saved file, is not what was written."""
    altered_lines: tuple[int, ...] = ()
    """The lines of a journal that are not what was written there, as far as lines can be named."""

    def is_altered(self, record: CallRecord) -> bool:
        """Whether a call is not as it was written, or stands where none was written."""
        return (record.run, record.call) in self.touched or any(
            finding.run == record.run and any(record.call in calls for calls in finding.calls)
            for finding in self.findings
            if finding.verdict is Verdict.ALTERED
        )

    @property
    def verdict(self) -> Verdict:
        none = Verdict.UNANCHORED if self.unvouched else Verdict.INTACT
        worst = list(Verdict)
        return max((finding.verdict for finding in self.findings), key=worst.index, default=none)

    @property
    def in_words(self) -> str:
        """The verdict for a person: whose key vouches, for what nobody does, or where it was changed."""
        match self.verdict:
            case Verdict.INTACT:
                signers = list(dict.fromkeys(cover.signer for cover in self.coverage if cover.signer))
                if not self.coverage or not self.coverage[-1].signer:
                    return f"unchanged since {self.coverage[-1].since if self.coverage else HEAD_NOTED}"
                return f"written by {' and '.join(signers)}, unchanged"
            case Verdict.UNANCHORED:
                return Verdict.UNANCHORED.removesuffix(WHOLE) + self.unvouched
            case Verdict.TRUNCATED if not self.has_heads:
                return "end missing, or not what the given head is of"
            case Verdict.ALTERED if self.altered_lines:
                return f"changed at {numbers_text('line', ranges_of(self.altered_lines))}"
            case Verdict.ALTERED:
                found = (finding for finding in self.findings if finding.verdict is Verdict.ALTERED)
                calls = [part for finding in found for part in finding.calls]
                return f"changed at {numbers_text('call', calls)}" if calls else "changed"
            case verdict:
                return verdict.value

    @property
    def is_false(self) -> bool:
        """Whether what was read is not what any run wrote."""
        return self.verdict in {Verdict.ALTERED, Verdict.NO_JOURNAL}

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The runs that say of themselves that they did not come to their end, in sentences."""
        said = {"failed": "it failed", "canceled": "it was canceled"}
        return tuple(
            f"The run {run.run} did not come to its end: {said[run.outcome]}."
            for run in self.runs
            if run.outcome in said
        )

    @property
    def intact(self) -> bool:
        return self.verdict is Verdict.INTACT

    @property
    def consistent(self) -> bool:
        """Whether nothing is wrong, as far as can be seen without anything that was kept elsewhere."""
        return not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """What was kept elsewhere.

    Attributes:
        heads: Heads as `Journal.anchor` and `verify` say them, or one of their two hashes. All must hold.
        keys: Keys whose signatures count; None for our own and those that we know.
        roots: Certificates, PEM, of servers for time-stamps.
    """

    heads: tuple[str, ...] = ()
    keys: tuple[PublicKey, ...] | None = None
    roots: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, head: str | Anchors | None) -> Anchors:
        if isinstance(head, Anchors):
            return head
        return cls() if head is None else cls(heads=(head,))


def split_head(head: str) -> tuple[str, str]:
    """The hash of a call and the ``chain`` of a line in a head, "" where it has none.

    A single hash may be either; it is returned as that of a call. Raises `SettingInvalid` for a text without
    a hash, such as an empty variable in a script, which would prove anything.
    """
    match = _HEAD.fullmatch(head.strip())
    if match is None:
        raise SettingInvalid(
            f"The given head {head[:80]!r} is not one",
            setting="head",
            fix="Write it as audit verify or mcp_audit_head says it",
        )
    return (match["call"] or "").lower(), (match["chain"] or "").lower()


class ReadRecord(NamedTuple):
    """A record without its large texts; the call number is 0 if the record has none."""

    run: str
    call: int
    previous: str
    hash: str
    place: str
    has_its_hash: bool


class Calls:
    """The chains of calls, run by run, in any order; what is in order is not kept."""

    def __init__(self, anchors: Anchors) -> None:
        self.runs: dict[str, CallsOfRun] = {}
        self._heads = [split_head(head) for head in anchors.heads]
        self._named: dict[str, ReadRecord | None] = {call: None for call, _ in self._heads if call}

    def take(self, link: Link, *, has_its_hash: bool) -> None:
        record = ReadRecord(link.run, link.call or 0, link.previous, link.hash, link.place, has_its_hash)
        self.begun(link.run).take(record)
        if self._named and bare(link.hash) in self._named:
            self._named[bare(link.hash)] = record

    def begun(self, run: str) -> CallsOfRun:
        state = self.runs.get(run)
        if state is None:
            state = self.runs[run] = CallsOfRun(run)
        return state

    def origin_note(self, run: str) -> list[str]:
        """Says that a run goes on from one that is not here."""
        first = self.runs[run].first
        if not first or any(state.last == first for state in self.runs.values()):
            return []
        return [f"{run_text(run)} goes on from an earlier run, which is not in this file."]

    def is_given(self, chain: str) -> bool:
        """Whether a line's ``chain`` is, or is in, a given head."""
        return any(chain in head for head in self._heads)

    def missing_heads(self, chains: Container[str] | None = None) -> list[Finding]:
        """What is wrong with the given heads; ``chains`` are those of them that lines have, if lines do."""
        missing: list[Finding] = []
        known = {"", *(bare(state.last) for state in self.runs.values())}
        for call, chain in self._heads:
            record = self._named.get(call)
            is_there = call in known or record is not None or (chains is not None and call in chains)
            if not is_there or (chain and chains is not None and chain not in chains):
                given = "-".join(f"{part[:12]}…" for part in (call, chain) if part)
                text = f"The given head {given} is not in it: {_NO_HEAD}."
                missing.append(Finding(Verdict.TRUNCATED, text))
            elif record is not None and call not in known:
                text = (
                    f"The expected head hash is that of call {record.call} of {run_text(record.run)}"
                    f" ({record.place}), but there are later calls."
                )
                missing.append(Finding(Verdict.ALTERED, text, record.run))
        return missing

    def uncovered(self) -> list[str]:
        """The runs whose calls no given head covers. A run covers that from which it goes on."""
        lasts = {bare(state.last): run for run, state in self.runs.items()}
        covered: set[str] = set()
        for head in self._named:
            # The first call of a resumed run follows the last one of the run before,
            # so one head covers both.
            while head in lasts and lasts[head] not in covered:
                covered.add(lasts[head])
                head = bare(self.runs[lasts[head]].first)
        return sorted(self.runs.keys() - covered)


@dataclass(slots=True)
class CallsOfRun:
    """What is known of the calls of a run; the records that are out of order are kept until the end."""

    run: str
    count: int = 0
    number: int = 0  # of the last call in order
    last: str = ""  # its hash
    first: str = ""  # what the first call follows
    before: ReadRecord | None = None
    _wrong: list[ReadRecord] = field(default_factory=list["ReadRecord"])
    _numberless: list[ReadRecord] = field(default_factory=list["ReadRecord"])
    _strangers: list[ReadRecord] = field(default_factory=list["ReadRecord"])
    _rest: list[ReadRecord] = field(default_factory=list["ReadRecord"])

    def take(self, record: ReadRecord) -> None:
        self.count += 1
        if not record.call:
            self._numberless.append(record)
            return
        if not record.has_its_hash:
            self._wrong.append(record)
        # Almost always so in a journal, and then nothing is kept: the memory does not grow with the number
        # of calls.
        if record.call == self.number + 1:
            self._go_on(record)
        else:
            self._rest.append(record)

    def _go_on(self, record: ReadRecord) -> None:
        if record.call == 1:
            self.first = record.previous
        elif record.call == self.number + 1 and record.previous != self.last:
            self._strangers.append(record)
        self.number, self.last, self.before = record.call, record.hash, record

    def settle(self) -> tuple[list[ReadRecord], list[range]]:
        """Puts what was out of order into order: the records that are there twice, and the missing calls."""
        # A table may have been sorted by anything, so the order of the rows proves nothing.
        rest, self._rest = sorted(self._rest, key=attrgetter("call")), []
        twice: list[ReadRecord] = []
        missing: list[range] = []
        for record in rest:
            if record.call <= self.number:
                twice.append(record)
                continue
            if record.call > self.number + 1:
                missing.append(range(self.number + 1, record.call))
            self._go_on(record)
        return twice, missing

    def findings(self, *, contents: bool = True, order: bool = True, linked: bool = True) -> list[Finding]:
        twice, missing = self.settle()
        found: list[Finding] = []
        if contents and self._numberless:
            found.append(_altered(self.run, "without a number of its call", self._numberless))
        if contents and self._wrong:
            found.append(
                _altered(self.run, "not what was written", sorted(self._wrong, key=attrgetter("call")))
            )
        if order and twice:
            found.append(_altered(self.run, "there more than once", twice))
        if order and linked and self._strangers:
            text = "not written after the call that stands before it; one of the two was replaced"
            found.append(_altered(self.run, text, self._strangers))
        if order and missing:
            verb = "is" if _is_one(missing) else "are"
            text = f"{numbers_text('Call', missing)} of {run_text(self.run)} {verb} missing."
            found.append(Finding(Verdict.ROWS_MISSING, text, self.run, tuple(missing)))
        return found

    def end_findings(self, count: int | None, head: str) -> list[Finding]:
        """What is wrong according to the closing record; after `findings`. None: there is no such record."""
        named = run_text(self.run)
        named = named[0].upper() + named[1:]
        if count is None:
            text = (
                f"{named} has no closing record: it was killed, is still going on, or its end was cut off. It"
                f" has {counted(self.number, 'call')} up to there."
            )
            return [Finding(Verdict.TRUNCATED, text, self.run)]
        if self.number < count:
            missing = (range(self.number + 1, count + 1),)
            text = (
                f"{named} made {counted(count, 'call')}; {numbers_text('call', missing)} at its end"
                f" {'is' if _is_one(missing) else 'are'} missing."
            )
            return [Finding(Verdict.TRUNCATED, text, self.run, missing)]
        last = [] if self.before is None else [self.before]
        if self.number > count:
            return [
                _altered(self.run, f"behind call {count}, the last one that the closing record counts", last)
            ]
        if last and self.last != head:
            return [_altered(self.run, "not the one that the closing record names", last)]
        return []


def _altered(run: str, what: str, links: Sequence[ReadRecord]) -> Finding:
    calls = ranges_of(link.call for link in links)
    places = listed(link.place for link in links)
    named = numbers_text("Call", calls) if all(link.call for link in links) else "A record"
    verb = "is" if len(links) == 1 else "are"
    text = f"{named} of {run_text(run)} ({places}) {verb} {what}."
    return Finding(Verdict.ALTERED, text, run, calls)


def has_hash(link: Link) -> bool:
    """Whether a record has the hash of its content."""
    return chain_hash(link.previous, link.texts) == link.hash


def has_newer_hash(link: Link, others: Mapping[str, Any]) -> bool:
    """Whether a record has the hash of its content with some of its other fields, as a newer version made it.

    A newer version hashes its fields by the same rule, so that an edit shows here, too.
    """
    texts = {
        name: f"{value:.6f}" if isinstance(value, float) else str(value)
        for name, value in list(others.items())[:_MOST_NEWER]
        if value not in (None, "")
    }
    return any(
        chain_hash(link.previous, {**link.texts, **{name: texts[name] for name in some}}) == link.hash
        for count in range(1, len(texts) + 1)
        for some in combinations(texts, count)
    )


NEWER: Final = "by a newer version, and not verifiable here: use that version"
"""What is said of records that this version cannot judge, and that nobody edited."""


def bare(text: str) -> str:
    """A hash without its prefix, in lower case."""
    return text.strip().lower().removeprefix("sha256:")


def ranges_of(numbers: Iterable[int]) -> tuple[range, ...]:
    ranges: list[range] = []
    for number in numbers:
        if ranges and number == ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, number + 1)
        else:
            ranges.append(range(number, number + 1))
    return tuple(ranges)


def numbers_text(kind: str, numbers: Sequence[range]) -> str:
    """The numbers in words, such as ``calls 3, 5 to 9``."""
    texts = (str(part[0]) if part.stop - part.start == 1 else f"{part[0]} to {part[-1]}" for part in numbers)
    return f"{kind}{'' if _is_one(numbers) else 's'} {listed(texts)}"


def _is_one(numbers: Sequence[range]) -> bool:
    return len(numbers) == 1 and numbers[0].stop - numbers[0].start == 1


def run_text(run: str) -> str:
    return f"run {run}" if run else "a run without id"
