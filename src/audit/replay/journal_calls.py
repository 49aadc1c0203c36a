"""The calls of a journal, read from the file one by one: together they may be larger than the memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..journal import JournalError, JournalLine, scan_journal
from ..record import CallRecord
from .calls import RecordedCall

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class JournalCalls(Collection[RecordedCall]):
    """The calls of a journal in recorded order, read again by each iteration.

    Args:
        file: The journal.

    Raises:
        JournalError: The journal cannot be read, or, during an iteration, was changed since it was opened.
        OSError: The file cannot be opened.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        places: list[tuple[str, int, int, int]] = []
        scan_journal(
            file,
            lambda line, record: places.append((record.run, record.call, len(places) + 1, line.start)),
        )
        self._places = [(place, start) for _, _, place, start in sorted(places)]

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[RecordedCall]:
        with self._file.open("rb") as file:
            for place, start in self._places:
                file.seek(start)
                line = JournalLine(0, start, file.readline())
                try:
                    record = CallRecord.from_json(line.entry())
                except (ValueError, RecursionError):
                    raise JournalError(f"{self._file.name} was changed while it was read") from None
                yield RecordedCall.of(record, place)

    def __contains__(self, call: object) -> bool:
        return any(call == recorded for recorded in self)
