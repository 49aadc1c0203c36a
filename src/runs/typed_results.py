"""Results for people: the table's own columns, then what the tool gave with its types, then how it ended."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, repeat, takewhile
from typing import TYPE_CHECKING, Any, Final, Self

from ..client.protocol.messages import as_list
from ..client.validation.argument_schemas import parameters_of
from ..types.texts import numbered
from .result_records import RecordColumns, records_of, single_record, typed_cells

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from ..audit.record import CallRecord
    from ..audit.table_formats import FileTable
    from ..types.tool import MCPTool
    from .call_values import CallOutcome

_SIGN: Final = "Structured result"
"""A column that results with all columns have, beside those of the input."""
_OWN: Final = re.compile(r" \(result\)(?: #\d+)?$")
"""The end of the name of a column that the tool gave, where the input has one of that name."""


@dataclass(slots=True)
class TypedResults:
    """What the calls of a run gave, on disk until all is known, as only then the columns have their types.

    A call gives one record: its structured result, or the only record in it. `taken` are names that its
    columns must not have: those of the tool's parameters, so that results sent again send the same. `known`
    are columns that an earlier run has made for what the tool gave.
    """

    taken: Collection[str]
    known: Collection[str] = ()
    several: int = 0
    """The number of calls that gave several records, which have no columns here."""
    _columns: RecordColumns = field(default_factory=RecordColumns)
    _records: Any = field(default_factory=partial(tempfile.TemporaryFile, "w+", encoding="utf-8"))
    _pieces: Any = field(default_factory=tempfile.TemporaryFile)
    _writer: Any = None
    _shown: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._shown = {_OWN.sub("", column): column for column in self.known}

    def close(self) -> None:
        self._records.close()
        self._pieces.close()

    def add(self, outcome: CallOutcome) -> None:
        """Takes the record of the next call, in the order of the rows."""
        record = self._record_of(outcome) if outcome.record.ok else {}
        self.keep({self._shown.get(name, name): value for name, value in record.items()})

    def keep(self, record: dict[str, Any]) -> None:
        """Takes what an earlier call gave for the next row, by column."""
        self._columns.see(record)
        self._records.write(json.dumps(record) + "\n")

    def _record_of(self, outcome: CallOutcome) -> dict[str, Any]:
        text, structured_text = outcome.record.result or "", outcome.record.structured_result
        structured = None if structured_text is None else json.loads(structured_text)
        record = _only_record(structured, text)
        if record is None:
            self.several += 1
        return {} if record in (None, {"result": text}) else record  # which is *Result* already

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
            own = f"{name} (result)"
            shown = name if name not in taken else numbered([*sorted(taken), own], " #{}")[-1]
            taken.add(shown)
            names.append(shown)
        return names


@dataclass(frozen=True)
class EarlierResults:
    """The results of an earlier run, of which some rows are called again, and the others stay as they are."""

    table: FileTable
    failed: tuple[int, ...]
    """The indices of the rows without a result."""
    again: tuple[int, ...]
    """Those of them that are called."""
    typed: tuple[str, ...]
    """The columns of what the tool gave."""
    rows: list[tuple[CallOutcome | None, dict[str, Any]]]
    """What came of the earlier call of each row, None if it is called again, and what the tool gave."""

    @classmethod
    def of_file(cls, table: FileTable, failed: Sequence[int], most: int | None, tool: MCPTool) -> Self:
        """The results in a file: what the tool gave stands before *Result*, and is missing in failed rows.

        So may be columns of the input. The first one that is certainly the tool's is the last of those called
        like something that it has given: were there another in the input, it would be ``X (result)``, which
        is the tool's, too.

        Raises `TableError` if a row cannot be read, as nobody could write it anew.
        """
        from ..audit.arrow_cells import json_value
        from ..audit.calls_table import records_of as calls_of
        from ..audit.calls_table import tool_of
        from .call_values import CallOutcome

        names = table.columns
        own = names[: names.index("Result")] if "Result" in names and _SIGN not in names else []
        given = {
            name
            for row in table.only(failed).rows()
            for name, value in row.items()
            if value not in (None, "")
        }
        parameters = parameters_of(tool)
        empty = list(takewhile(lambda name: name not in given and name not in parameters, reversed(own)))
        again = failed[:most]
        places = sorted({*range(table.total)}.difference(again))
        kept = table.only(places)
        records = list(calls_of(kept.table, needed=("Status",), numbers=kept.numbers))
        lasts = {_OWN.sub("", column): column for column in own}
        certain = {lasts.get(name) for record in records if record.ok for name in _names_given(record, tool)}
        certain.update(last for name, last in lasts.items() if last != name and name in {*own, *parameters})
        while empty and empty[-1] not in certain:
            empty.pop()
        typed = tuple(reversed(empty))
        columns = [_values(kept, name) for name in typed]
        cells = zip(*columns, strict=True) if columns else repeat((), len(places))
        rows: list[tuple[CallOutcome | None, dict[str, Any]]] = [(None, {})] * table.total
        for place, record, values in zip(places, records, cells, strict=True):
            called = None if record.tool is None else tool_of(record.tool)
            gave = dict(zip(typed, map(json_value, values), strict=True))
            rows[place] = CallOutcome(record=record, tool=called), gave
        return cls(table, tuple(failed), tuple(again), typed, rows)

    @property
    def has_all_columns(self) -> bool:
        return _SIGN in self.table.columns

    def without(self, outcomes: Iterable[str]) -> FileTable:
        """The table as it was before the calls, without these columns and what the tool gave."""
        left = {*outcomes, *self.typed}
        kept = [name for name in self.table.columns if name not in left]
        return replace(self.table, table=self.table.table.select(kept))


def _only_record(structured: Any, text: str) -> dict[str, Any] | None:
    """The record that a result is, or has in it; None if it has several."""
    found = [record for _, records in records_of(structured, text) for record in records]
    return None if len(found) > 1 else found[0] if found else single_record(structured, text)


def _names_given(record: CallRecord, tool: MCPTool) -> Collection[str]:
    """The names that a call has certainly given: those in its text, or else those that the tool must give."""
    gave = _only_record(None, record.result or "")
    if gave != {}:
        return gave or ()
    return [name for name in as_list((tool.output_schema or {}).get("required")) if isinstance(name, str)]


def _values(table: FileTable, name: str) -> list[Any]:
    """The values of a column. In CSV texts are numbers again that are written so."""
    values = [row[name] for row in table.rows()]
    if not table.has_texts_only:
        return values
    typed = typed_cells([value or "" for value in values])
    are_same = all(
        value is None or value in (str(cell).lower(), str(cell).removesuffix(".0"))
        for value, cell in zip(values, typed, strict=True)
    )
    return typed if are_same else values
