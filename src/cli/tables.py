"""Writes tables into CSV or Parquet files, whole or piece by piece, and as JSON objects."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from ..client.protocol.json_text import decode
from ..types.column_kinds import ROW_ID
from ..types.errors import ProtocolError
from .files import writing

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa

    from ..audit.record import CallRecord

_JSON_COLUMNS = ("Tool (JSON)", "Parameters", "Example arguments", "Security findings")
_JSON_KEYS = ("tool", "arguments", "structured_result")


class TableFile:
    """A CSV or Parquet file that is written piece by piece, without RowIDs.

    Args:
        file: The file; its ending is the format.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stream: BinaryIO | None = None
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            with writing(self._file), self._stream:
                if self._writer is not None:
                    self._writer.close()

    def write(self, piece: pa.Table) -> None:
        """Appends rows; all pieces have the same columns.

        Raises:
            CommandError: The rows could not be written.
        """
        if ROW_ID in piece.column_names:
            piece = piece.drop_columns([ROW_ID])
        if self._file.suffix.lower() == ".csv":
            piece = _flat(piece)
        with writing(self._file):
            if self._stream is None:
                self._stream = self._file.open("wb")  # Arrow cannot open names that are not UTF-8
            if self._writer is None:
                self._writer = self._writer_of(piece.schema)
            self._writer.write_table(piece)

    def _writer_of(self, schema: pa.Schema) -> Any:
        from pyarrow import csv, parquet

        is_parquet = self._file.suffix.lower() == ".parquet"
        return (parquet.ParquetWriter if is_parquet else csv.CSVWriter)(self._stream, schema)


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Turns a table into JSON objects: *Tool name* becomes ``tool_name``, and JSON texts are parsed."""
    keys = {name: _key(name) for name in table.column_names if name != ROW_ID}
    return [
        {key: _parsed(row[name]) if name in _JSON_COLUMNS else row[name] for name, key in keys.items()}
        for row in table.to_pylist()
    ]


def json_record(record: CallRecord) -> dict[str, Any]:
    """Turns a record of a call into a JSON object, with its JSON texts parsed.

    Args:
        record: The record.

    Returns:
        One key per attribute of the record; absent attributes are left out.
    """
    members = record.to_json()
    return {key: _parsed(value) if key in _JSON_KEYS else value for key, value in members.items()}


def _parsed(text: str | None) -> Any:
    """Parses JSON text; returns the text itself if it is not JSON, as in edited tables."""
    try:
        return None if text is None else decode(text)
    except ProtocolError:
        return text


def _flat(table: pa.Table) -> pa.Table:
    """The table with lists, structures, bytes and similar columns as text, as CSV has no such types."""
    import pyarrow as pa

    kinds = pa.types
    flat = (kinds.is_primitive, kinds.is_string, kinds.is_large_string, kinds.is_decimal, kinds.is_dictionary)
    for position, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        if kinds.is_timestamp(field.type) and field.type.tz is not None:  # the zone may be unknown here
            column = column.cast(pa.timestamp(field.type.unit, "UTC"))
        elif not any(is_flat(field.type) for is_flat in flat):
            column = as_text(column)
        table = table.set_column(position, field.name, column)
    return table


def in_microseconds(column: Any) -> Any:
    """A column of moments without nanoseconds, which Python does not have; other columns unchanged."""
    import pyarrow as pa

    kind = column.type
    if getattr(kind, "unit", "") != "ns":
        return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    return column.cast(pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us"), safe=False)


def as_text(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """A column of any type as text: bytes are decoded, other values become JSON."""
    import pyarrow as pa

    return pa.array(map(_cell_text, column), pa.string())


def _cell_text(cell: pa.Scalar[Any]) -> str | None:
    try:
        value = cell.as_py()
    except (ValueError, OverflowError):  # a date or zone that Python does not have
        return "<value out of range>"  # as Arrow writes it
    match value:
        case None | str():
            return value
        case bytes():
            return value.decode(errors="backslashreplace")
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def _key(column: str) -> str:
    words = re.sub(r"[^0-9a-z]+", "_", column.removesuffix(" (JSON)").lower())
    return words.strip("_")
