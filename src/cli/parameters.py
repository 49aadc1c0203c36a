"""Parameter tables of ``knime-mcp batch``: CSV, Parquet and JSON Lines, as rows of Python values.

A CSV file has no types, so its cells stay text until they are converted by the tool's schema: a postal code
keeps its leading zero. An empty cell is missing, a cell of two quotes is the empty text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from ..audit.table_files import TableError, is_device, read_csv, read_parquet
from ..types.canonical import without_surrogates
from .errors import CommandError
from .files import read_json, read_text, why_no_json
from .tables import in_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa


_AT_A_TIME: Final = 512


@dataclass(frozen=True)
class Parameters:
    """A parameter table.

    Attributes:
        table: The rows as a table, which is also used for output; columns of mixed types are JSON text.
        typed: Whether cells have the types of the file; otherwise all cells are text.
        objects: The rows as objects with the types of the file, if columns may have several types; or None.
    """

    table: pa.Table
    typed: bool
    objects: list[dict[str, Any]] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return self.table.column_names

    @property
    def total(self) -> int:
        """The number of rows."""
        # Without columns, Arrow has no rows.
        return self.table.num_rows if self.objects is None else len(self.objects)

    def rows(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yields the rows one by one: cell by column name, None for a missing cell.

        Args:
            start: Index of the first row.
        """
        if self.objects is not None:
            yield from self.objects[start:]
            return
        for piece in self.table.slice(start).to_batches(max_chunksize=_AT_A_TIME):
            columns = (map(_value, in_microseconds(column)) for column in piece.columns)
            yield from (dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True))


def _value(cell: pa.Scalar[Any]) -> Any:
    """A cell's value; the cell itself if Python has no such value, such as the year 20,000."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        return cell


def read_parameters(file: Path) -> Parameters:
    """Reads a parameter table; the ending of the file is its format.

    Raises:
        CommandError: The file has another ending, or content that cannot be read.
        OSError: The file cannot be opened.
    """
    readers: dict[str, Callable[[Path], Parameters]] = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".parquet": _read_parquet,
        ".jsonl": _read_jsonl,
        ".ndjson": _read_jsonl,
        ".json": _read_json,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise CommandError(
            f"{file} cannot be read: the ending of its name has to be one of {', '.join(readers)}."
        )
    if is_device(file):
        raise CommandError(f"{file} is a device or a pipe, not a file.")
    try:
        return reader(file)
    except TableError as error:
        raise CommandError(f"{error}.") from None


def _read_csv(file: Path) -> Parameters:
    return Parameters(read_csv(file), typed=False)


def _read_parquet(file: Path) -> Parameters:
    return Parameters(read_parquet(file), typed=True)


def _read_jsonl(file: Path) -> Parameters:
    lines = read_text(file).split("\n")
    return _of_objects(
        [_json_object(line, file, number) for number, line in enumerate(lines, 1) if line.strip()]
    )


def _read_json(file: Path) -> Parameters:
    parsed = read_json(file)
    if not isinstance(parsed, list) or not all(isinstance(row, dict) for row in cast("list[Any]", parsed)):
        raise CommandError(f'{file} is not a list of JSON objects, such as [{{"path": "a.txt"}}].')
    return _of_objects(list(map(_named, cast("list[dict[str, Any]]", parsed))))


def _of_objects(rows: list[dict[str, Any]]) -> Parameters:
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in names} for row in rows]
    table = pa.Table.from_arrays([_column([row[name] for row in rows]) for name in names], names=names)
    return Parameters(table, typed=True, objects=rows)


def _json_object(line: str, file: Path, number: int) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file}, line {number} is not JSON: {why_no_json(error)}.") from None
    if not isinstance(parsed, dict):
        raise CommandError(
            f'{file}, line {number} is not a JSON object. Write one per line, as in {{"path": "a.txt"}}.'
        )
    return _named(cast("dict[str, Any]", parsed))


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {without_surrogates(name): value for name, value in row.items()}


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    if not any(isinstance(value, dict | list) for value in values):
        try:
            return pa.array([without_surrogates(v) if isinstance(v, str) else v for v in values])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # texts and numbers, or huge numbers
            pass
    texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    return pa.array([None if text is None else without_surrogates(text) for text in texts])
