"""Tables into files: CSV or Parquet, whole or piece by piece, and as JSON objects for other programs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Self

from ..tools.protocol.json_text import decode
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
    """A CSV or Parquet file that grows by pieces of a table. The RowIDs are left out.

    Args:
        file: Its ending says which.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            with writing(self._file):
                self._writer.close()

    def write(self, piece: pa.Table) -> None:
        """Appends rows; all pieces have the same columns.

        Raises:
            CommandError: They could not be written.
        """
        if ROW_ID in piece.column_names:
            piece = piece.drop_columns([ROW_ID])
        if self._file.suffix.lower() == ".csv":
            piece = _flat(piece)
        with writing(self._file):
            if self._writer is None:
                self._writer = _writer(self._file, piece.schema)
            self._writer.write_table(piece)


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Turns a table into JSON objects: *Tool name* becomes ``tool_name``, JSON texts become what they say."""
    keys = {name: _key(name) for name in table.column_names if name != ROW_ID}
    return [
        {key: _said(row[name]) if name in _JSON_COLUMNS else row[name] for name, key in keys.items()}
        for row in table.to_pylist()
    ]


def json_record(record: CallRecord) -> dict[str, Any]:
    """Turns a record of a call into a JSON object, its JSON texts into what they say.

    Args:
        record: The record.

    Returns:
        One key per attribute of the record; absent ones are left out.
    """
    found = record.to_json()
    return {key: _said(value) if key in _JSON_KEYS else value for key, value in found.items()}


def _said(text: str | None) -> Any:
    """What JSON text says; the text itself where a table was edited and it is none any more."""
    try:
        return None if text is None else decode(text)
    except ProtocolError:
        return text


def _writer(file: Path, schema: pa.Schema) -> Any:
    if file.suffix.lower() == ".parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema)
    from pyarrow import csv

    return csv.CSVWriter(file, schema)


def _flat(table: pa.Table) -> pa.Table:
    """The table with lists, structures, bytes and the like as text, which is all that CSV can hold."""
    import pyarrow as pa

    kinds = pa.types
    flat = (kinds.is_primitive, kinds.is_string, kinds.is_large_string, kinds.is_decimal, kinds.is_dictionary)
    for position, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        if kinds.is_timestamp(field.type) and field.type.tz is not None:  # which this machine may not know
            column = column.cast(pa.timestamp(field.type.unit, "UTC"))
        elif not any(is_flat(field.type) for is_flat in flat):
            column = pa.array(map(_flat_text, column), pa.string())
        table = table.set_column(position, field.name, column)
    return table


def _flat_text(cell: pa.Scalar[Any]) -> str | None:
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
