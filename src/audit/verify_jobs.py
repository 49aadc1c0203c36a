"""Verifies a journal in several processes.

The judge is `verify_journal` alone. Each process looks at a piece of the journal, and sums up lines that are
as they should be if what stands before them is (`Span`): the judge looks at both ends of these, and at every
other line itself. Where a span does not fit to what stood before it, its lines are judged one by one.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from .journal_lines import OTHERS, JournalLine, journal_parts, lines_between, unknown_fields
from .record import link_of
from .verdicts import ReadRecord, bare, has_hash, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from concurrent.futures import Executor, Future
    from pathlib import Path

_PIECE: Final = 8 << 20
_AHEAD: Final = 2 * (os.cpu_count() or 1)  # pieces that are looked at before they are judged


class Span(NamedTuple):
    """Lines of one run, each of which follows the one before it, with calls that do so, too."""

    first: int  # number of the first line
    start: int  # offset of its first byte, as `end` is that of the byte behind the last line
    end: int
    lines: int
    before: str  # the `chain` of the line before
    chain: str  # of the last line
    run: str
    first_call: ReadRecord | None = None
    last_call: ReadRecord | None = None
    calls: int = 0

    def moved(self, lines: int) -> Span:
        """With other numbers of lines: so many stand before its piece."""
        last = self.last_call
        last = None if last is None else last._replace(place=f"line {int(last.place) + lines}")
        return self._replace(first=self.first + lines, last_call=last)


class Judge(Protocol):
    def take(self, line: JournalLine) -> None: ...
    def take_span(self, span: Span) -> bool: ...


def judge_pieces(
    judge: Judge,
    path: Path,
    pool: Executor,
    heads: Collection[str],
    on_progress: Callable[[int], None] | None,
) -> None:
    """Goes through a journal with the processes of a pool; the judge wants to see the hashes in ``heads``."""
    judging = _Judging(judge)
    pending: deque[tuple[_Piece, Future[_Found]]] = deque()
    try:
        for piece in _pieces(path):
            # Not `map`, which would hand in all pieces of a large journal at once.
            pending.append((piece, pool.submit(look_at, piece, frozenset(heads))))
            if len(pending) > _AHEAD:
                judging.take(*_first(pending), on_progress)
        while pending:
            judging.take(*_first(pending), on_progress)
    finally:
        for _, looking in pending:
            # After an error nobody waits for what has not begun.
            looking.cancel()


class _Piece(NamedTuple):
    part: int
    file: Path
    start: int  # offset of the first byte
    end: int  # of the one behind the last


class _Found(NamedTuple):
    items: list[JournalLine | Span]
    lines: int


def _first(pending: deque[tuple[_Piece, Future[_Found]]]) -> tuple[_Piece, _Found]:
    piece, looking = pending.popleft()
    return piece, looking.result()


class _Judging:
    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._bytes = self._lines = 0

    def take(self, piece: _Piece, found: _Found, on_progress: Callable[[int], None] | None) -> None:
        for item in found.items:
            if isinstance(item, JournalLine):
                self._judge.take(replace(item, number=item.number + self._lines))
            elif not self._judge.take_span(span := item.moved(self._lines)):
                # The lines of a span were summed up, not kept, so they are read again in the rare case that
                # it does not fit.
                with piece.file.open("rb") as stream:
                    for line in lines_between(stream, piece.part, span.start, span.end, first=span.first):
                        self._judge.take(line)
        self._lines += found.lines
        self._bytes += piece.end - piece.start
        if on_progress is not None:
            on_progress(self._bytes)


def _pieces(path: Path) -> Iterator[_Piece]:
    """Pieces of whole lines."""
    for part, file in journal_parts(path).items():
        size = file.stat().st_size
        with file.open("rb") as stream:
            start = 0
            while start < size:
                stream.seek(start + _PIECE)
                # On to the end of the line, so that no line is in two pieces.
                stream.readline()
                end = min(stream.tell(), size)
                yield _Piece(part, file, start, end)
                start = end


def look_at(piece: _Piece, heads: Collection[str]) -> _Found:
    """Looks at a piece: its spans, its other lines, numbered from 1, and how many lines it has."""
    found: list[JournalLine | Span] = []
    span: Span | None = None
    chain: str | None = None
    last = 0
    with piece.file.open("rb") as stream:
        for line in lines_between(stream, piece.part, piece.start, piece.end):
            plain = None
            if chain is not None and line.number == last + 1:
                plain = _plain(line, chain, heads)
            longer = None if span is None or plain is None else _longer(span, plain)
            if span is not None and longer is None:
                found.append(span)
            span = longer or plain
            if span is None:
                found.append(line)
            # What follows a torn line was written after a crash, and goes on from the last whole line.
            if not line.torn:
                chain = line.stated_chain
            last = line.number
        if span is not None:
            found.append(span)
        stream.seek(piece.start)
        # `lines_between` passes over empty lines, but they have a number.
        data = stream.read(piece.end - piece.start)
    return _Found(found, data.count(b"\n") + (not data.endswith(b"\n")))


def _plain(line: JournalLine, chain: str, heads: Collection[str]) -> Span | None:
    """The span that a line is if nothing is to be said of it."""
    follows, own = line.linked(chain)
    # The judge has to see lines with the hashes that were given, so these end a span.
    if not follows or line.torn or not line.is_as_written or own in heads:
        return None
    try:
        entry = line.entry()
    except (ValueError, RecursionError):
        return None
    run, kind = entry.get("run"), entry.get("kind")
    if (
        not isinstance(run, str)
        or not run
        or not line.says(entry)
        or unknown_fields(entry)
        or entry.get("files")
    ):
        return None
    end = line.start + len(line.data)
    if kind in OTHERS:
        return Span(line.number, line.start, end, 1, chain, own, run)
    if kind != "call":
        return None
    link = link_of(entry, str(line.number))
    record = read_record(link, has_its_hash=has_hash(link))
    if not record.has_its_hash or not record.call or bare(record.hash) in heads:
        return None
    return Span(line.number, line.start, end, 1, chain, own, run, record, record, 1)


def _longer(span: Span, other: Span) -> Span | None:
    """Both spans as one; None if the second one's calls do not follow those of the first."""
    one, two = span.last_call, other.first_call
    if span.run != other.run or (one and two and (two.call != one.call + 1 or two.previous != one.hash)):
        return None
    return span._replace(
        end=other.end,
        # The other one is a single line.
        lines=span.lines + 1,
        chain=other.chain,
        first_call=span.first_call or two,
        last_call=other.last_call or one,
        calls=span.calls + other.calls,
    )
