"""Parameter tables of ``knime-mcp batch``: CSV, Parquet and JSON Lines, as rows of Python values.

A CSV file has no types, so its cells stay text until the tool's schema says what they are: a postal code
keeps its leading zero. An empty cell is a missing one, ``""`` in quotes is the empty text.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..types.canonical import without_surrogates
from .exits import CommandError
from .files import read_text, why_no_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa


@dataclass(frozen=True)
class Parameters:
    """A parameter table.

    Attributes:
        rows: Cell by column name; a missing cell is None.
        table: The same for an output table: columns of mixed types as JSON text.
        typed: Whether cells have the types of their file; otherwise all of them are text.
    """

    rows: list[dict[str, Any]]
    table: pa.Table
    typed: bool

    @property
    def columns(self) -> list[str]:
        """Names, in order."""
        return self.table.column_names


def read_parameters(file: Path) -> Parameters:
    """Reads a parameter table; the ending of its name says how.

    Raises:
        CommandError: Another ending, or content that cannot be read; says where.
        OSError: The file cannot be opened.
    """
    readers: dict[str, Callable[[Path], Parameters]] = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".parquet": _read_parquet,
        ".jsonl": _read_jsonl,
        ".ndjson": _read_jsonl,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise CommandError(f"{file} has no ending that says what it is. Use one of {', '.join(readers)}.")
    return reader(file)


def _read_csv(file: Path) -> Parameters:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header, delimiter = _csv_header(file)
    try:
        table = arrow_csv.read_csv(
            file,
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise CommandError(f"{file} cannot be read as CSV: {error}.") from None
    return Parameters(table.to_pylist(), table, typed=False)


def _csv_header(file: Path) -> tuple[list[str], str]:
    """Names of the columns, and what separates them: a comma, else a semicolon or tab in the first line."""
    nothing: list[str] = []
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline()
            delimiter = max(",;\t", key=first.count)
            stream.seek(0)
            header = next(csv.reader(stream, delimiter=delimiter), nothing)
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8. Save it as 'CSV UTF-8'.") from None
    twice = sorted({name for name in header if header.count(name) > 1})
    if not header:
        raise CommandError(f"{file} is empty. Its first line has to name the columns.")
    if twice:
        raise CommandError(f"{file} has more than one column called '{twice[0]}'. Rename one of them.")
    return header, delimiter


def _read_parquet(file: Path) -> Parameters:
    import pyarrow as pa
    from pyarrow import parquet

    with file.open("rb") as stream:
        try:
            table = parquet.read_table(stream)
        except pa.ArrowInvalid as error:
            raise CommandError(f"{file} cannot be read as Parquet: {str(error).rstrip('.')}.") from None
    return Parameters(table.to_pylist(), table, typed=True)


def _read_jsonl(file: Path) -> Parameters:
    import pyarrow as pa

    lines = read_text(file).split("\n")
    rows = [_json_object(line, file, number) for number, line in enumerate(lines, 1) if line.strip()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in names} for row in rows]
    table = pa.Table.from_arrays([_column([row[name] for row in rows]) for name in names], names=names)
    return Parameters(rows, table, typed=True)


def _json_object(line: str, file: Path, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file}, line {number} is not JSON: {why_no_json(error)}.") from None
    if not isinstance(found, dict):
        raise CommandError(
            f'{file}, line {number} is not a JSON object. Write one per line, as in {{"path": "a.txt"}}.'
        )
    return {without_surrogates(name): value for name, value in cast("dict[str, Any]", found).items()}


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    if not any(isinstance(value, dict | list) for value in values):
        try:
            return pa.array([without_surrogates(v) if isinstance(v, str) else v for v in values])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # texts and numbers, or huge numbers
            pass
    texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    return pa.array([None if text is None else without_surrogates(text) for text in texts])
