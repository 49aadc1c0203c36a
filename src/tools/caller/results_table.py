"""Writes the table *Results* piece by piece as calls finish."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from ...runs.parameter_table import LARGE, cells_are_shared, rows_per_piece
from ...types.canonical import canonical_json, without_surrogates
from ...types.column_kinds import ROW_ID, arrow_type
from ...types.columns import column_name, write_tools
from ...types.errors import MCPError
from .pictures import image_cells, size_of_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from ...audit.record import CallRecord
    from ...runs.one_call import CallOutcome
    from .results_layout import Kind, ResultsLayout, StructuredColumn

_LARGEST_DOUBLE: Final = sys.float_info.max
_SHOWN: Final = 20
_LARGEST: Final = 1 << 31
"""Bytes that a text column of a piece can hold at most."""


@dataclass(slots=True)
class ResultsWriter:
    """Collects finished calls and passes them on piece by piece.

    KNIME wants pieces with the same number of rows, except the last one. The first piece sets that number: as
    many rows as a usual piece has, or fewer if the rows are large.

    Attributes:
        layout: The columns.
        parameters: The parameter table with its RowIDs as first column; None for a single call.
        sink: Called with each piece.
        equal: True if the pieces must have the same number of rows.
        unfit: Structured values that did not fit their column's type.
        absent: Properties with a structured column that no structured result had so far.
        properties: Some names of properties that structured results had; empty without structured columns.
    """

    layout: ResultsLayout
    parameters: pa.Table | None
    sink: Callable[[pa.Table], None]
    equal: bool = True
    unfit: int = 0
    absent: dict[str, None] = field(init=False)
    properties: set[str] = field(default_factory=set[str])
    _rows_per_piece: int = field(init=False)
    _is_fixed: bool = field(init=False)
    _waiting: list[CallOutcome] = field(default_factory=list["CallOutcome"])
    _size: int = 0
    _written: int = 0

    def __post_init__(self) -> None:
        self.absent = dict.fromkeys(entry.key for entry in self.layout.structured)
        self._rows_per_piece = rows_per_piece(self.parameters)
        self._is_fixed = self.parameters is not None and cells_are_shared(self.parameters)

    def add(self, outcome: CallOutcome) -> None:
        """Adds the next finished call, in the order of the rows.

        Raises:
            MCPError: The results are too large for a table.
        """
        self._waiting.append(outcome)
        self._size += _size_of(outcome.record)
        is_large = self._size >= LARGE and not self._is_fixed
        if is_large or len(self._waiting) >= self._rows_per_piece:
            self._flush()

    def close(self) -> None:
        """Writes the remaining rows, or a table with columns only if there were no rows.

        Raises:
            MCPError: The results are too large for a table.
        """
        if self._waiting or not self._written:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        outcomes, self._waiting = self._waiting, []
        size, self._size = self._size, 0
        if size >= _LARGEST:
            raise _too_large(outcomes, size)
        form, records = self.layout.form, [outcome.record for outcome in outcomes]
        columns = self._inputs(len(outcomes))
        columns[column_name(form)] = write_tools([outcome.tool for outcome in outcomes], form)
        for name, attribute, kind in self.layout.own:
            columns[name] = _array([_value(record, attribute) for record in records], kind)
        objects = [_object(record.structured_result) for record in records] if self.layout.structured else []
        for properties in objects:
            for key in properties.keys() & self.absent:
                del self.absent[key]
            if len(self.properties) < _SHOWN:  # keys may be data, and differ from row to row
                self.properties.update(properties)
        for entry in self.layout.structured:
            fitted = [self._fit(properties.get(entry.key), entry) for properties in objects]
            columns[entry.column] = _array(fitted, entry.type)
        self.sink(pa.table({name: _whole(column) for name, column in columns.items()}))
        self._written += len(outcomes)
        if self.equal and not self._is_fixed:
            self._rows_per_piece, self._is_fixed = len(outcomes), True

    def _inputs(self, count: int) -> dict[str, Any]:
        """The RowIDs and the columns of the next rows of the parameter table."""
        import pyarrow as pa

        if self.parameters is None:
            return {ROW_ID: pa.array([f"Row{self._written + i}" for i in range(count)], pa.string())}
        piece = self.parameters.slice(self._written, count).combine_chunks()
        shown = {shown: piece.column(source) for source, shown in self.layout.inputs}
        return {ROW_ID: piece.column(0), **shown}

    def _fit(self, value: Any, entry: StructuredColumn) -> Any:
        """Fits a JSON value into its column; a value that does not fit becomes missing and is counted."""
        match entry.kind, value:
            case _, None:
                return None
            case "json", _:
                return canonical_json(value)
            case "string", str():
                return without_surrogates(value)
            case "string", _:
                return canonical_json(value)
            case "boolean", bool():
                return value
            case "number", int() | float() if not isinstance(value, bool) and abs(value) <= _LARGEST_DOUBLE:
                return float(value)
            case "integer", int() if not isinstance(value, bool) and -(2**63) <= value < 2**63:
                return value
            case "integer", float() if value.is_integer() and abs(value) < 2**63:
                return int(value)
            case _:
                self.unfit += 1
                return None


def _size_of(record: CallRecord) -> int:
    texts = (record.tool, record.arguments, record.result, record.structured_result, record.error)
    return sum(len(text) for text in texts if text) + size_of_picture(record.image)


def _too_large(outcomes: Sequence[CallOutcome], size: int) -> MCPError:
    rows = [outcome.record.input_row for outcome in outcomes]
    return MCPError(
        f"The results of the rows {rows[0]} to {rows[-1]} have {size // 2**20:,} MiB together, which is more"
        " than KNIME can take at a time",
        fix="Call the tool with fewer rows at a time, or sort the rows so that those with the largest results"
        " come first",
    )


def _value(record: CallRecord, attribute: str) -> Any:
    return "\n".join(record.files) or None if attribute == "files" else getattr(record, attribute)


def _array(values: list[Any], kind: Kind) -> Any:
    import pyarrow as pa

    return image_cells(values) if kind == "image" else pa.array(values, arrow_type(kind))


def _object(text: str | None) -> dict[str, Any]:
    value = None if text is None else json.loads(text)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _whole(column: Any) -> Any:
    """Joins the chunks of a column, as KNIME wants all batches of a table to have the same number of rows."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
