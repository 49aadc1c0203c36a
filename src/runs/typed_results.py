"""Results for people: the table's own columns, then what the tool gave with its types, then how it ended."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from .result_records import RecordColumns, records_of, single_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import TracebackType

    import pyarrow as pa

    from .call_values import CallOutcome


@dataclass(slots=True)
class TypedResults:
    """What the calls of a run gave, on disk until all is known, as only then the columns have their types.

    A call gives one record: its structured result, or the only record in it. `taken` are names that its
    columns must not have: those of the tool's parameters, so that results sent again send the same.
    """

    taken: Collection[str]
    several: int = 0
    """The number of calls that gave several records, which have no columns here."""
    _columns: RecordColumns = field(default_factory=RecordColumns)
    _records: Any = field(default_factory=partial(tempfile.TemporaryFile, "w+", encoding="utf-8"))
    _pieces: Any = field(default_factory=tempfile.TemporaryFile)
    _writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._records.close()
        self._pieces.close()

    def add(self, outcome: CallOutcome) -> None:
        """Takes the record of the next call, in the order of the rows."""
        record = self._record_of(outcome) if outcome.record.ok else {}
        self._columns.see(record)
        self._records.write(json.dumps(record) + "\n")

    def _record_of(self, outcome: CallOutcome) -> dict[str, Any]:
        text, structured_text = outcome.record.result or "", outcome.record.structured_result
        structured = None if structured_text is None else json.loads(structured_text)
        found = [record for _, records in records_of(structured, text) for record in records]
        if len(found) > 1:
            self.several += 1
            return {}
        record = found[0] if found else single_record(structured, text)
        return {} if record == {"result": text} else record  # which is *Result* already

    def write(self, piece: pa.Table) -> None:
        """Takes the other columns of the rows, in pieces."""
        import pyarrow as pa

        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._pieces, piece.schema)
        self._writer.write_table(piece)

    def pieces(self, before: int) -> Iterator[pa.Table]:
        """The whole table in pieces, with the columns of the records behind the first ``before`` ones."""
        import pyarrow as pa

        if self._writer is None:
            return
        self._writer.close()
        self._pieces.seek(0)
        self._records.seek(0)
        lines = map(json.loads, self._records)
        for batch in pa.ipc.open_stream(self._pieces):
            names = batch.schema.names
            typed = self._columns.columns(list(islice(lines, batch.num_rows)))
            shown = self._names(names)
            yield pa.table(
                [*batch.columns[:before], *typed, *batch.columns[before:]],
                names=[*names[:before], *shown, *names[before:]],
            )

    def _names(self, others: Collection[str]) -> list[str]:
        taken = {*others, *self.taken}
        names: list[str] = []
        for name in self._columns.names():
            shown = f"{name} (result)" if name in taken else name
            number = 1
            while shown in taken:
                number += 1
                shown = f"{name} (result) #{number}"
            taken.add(shown)
            names.append(shown)
        return names
