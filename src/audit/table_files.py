"""Reads tables from files: CSV in the variants of many programs, and Parquet, which may be damaged."""

from __future__ import annotations

import csv
import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_SEPARATORS: Final = ",;\t"
_QUOTED: Final = re.compile(r'"[^"]*"')
_EXCELS: Final = re.compile(r'"?sep=([,;|\t])"?\s*$', re.IGNORECASE)
"""The first line with which Excel declares the separator of a CSV file."""
_LARGEST_BLOCK: Final = 2**31 - 1


class TableError(ValueError):
    """A table cannot be read or has wrong values; the message names the file, or row and column."""


def is_device(file: Path) -> bool:
    """Returns whether a path is a device, which may have no end, or a pipe, which can be read only once."""
    return file.exists() and not file.is_file() and not file.is_dir()


def read_parquet(file: Path) -> pa.Table:
    """Reads a Parquet file.

    Args:
        file: The file.

    Returns:
        The table; no two columns have the same name.

    Raises:
        TableError: The file cannot be read, or two columns have the same name.
        OSError: The file cannot be opened.
    """
    import pyarrow as pa
    from pyarrow import parquet

    _check_file(file)
    with file.open("rb") as stream:
        try:
            table = parquet.ParquetFile(stream).read()
            table.validate(full=True)
            names = table.column_names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # depends on what is damaged
            raise TableError(f"{file} cannot be read as Parquet: {str(error).rstrip('.')}") from None
    _check_names(names, file)
    return table


def read_csv(file: Path) -> pa.Table:
    """Reads a CSV file.

    Args:
        file: The file, in UTF-8. A ``.tsv`` file is separated by tabs; any other file by the separator of
            Excel's ``sep=``, or else the most frequent one of its first line: comma, semicolon or tab.

    Returns:
        The table; all cells are text. An empty cell is missing, a cell of two quotes is the empty text.
        Blanks around the names of columns are removed.

    Raises:
        TableError: The file cannot be read, or its first line does not name the columns.
        OSError: The file cannot be opened.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    _check_file(file)
    try:
        header = _read_header(file)
        if header.is_all:  # Arrow refuses a table without rows
            return pa.table({name: pa.array([], pa.string()) for name in header.names})
        table = arrow_csv.read_csv(
            _arrow_input(file),
            # A row has to fit into a block, and a cell may be of any length.
            read_options=arrow_csv.ReadOptions(
                block_size=min(max(file.stat().st_size, 1 << 20), _LARGEST_BLOCK),
                column_names=header.names,
                skip_rows=header.lines,
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=header.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(header.names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except UnicodeDecodeError:
        raise _not_utf8(file) from None
    except (csv.Error, pa.ArrowInvalid) as error:
        if "invalid UTF8" in str(error):
            raise _not_utf8(file) from None
        raise TableError(f"{file} cannot be read as CSV: {str(error).rstrip('.')}") from None
    if _is_open_at_its_end(table, file):
        raise TableError(f"{file} has a quotation mark that is not closed: its last cell is in several lines")
    return table


def _arrow_input(file: Path) -> Any:
    """The file in a form that Arrow can open: it refuses names that are not UTF-8.

    Not a Python stream: Arrow's threads read ahead, and reading from Python while it ends aborts the process.
    """
    import pyarrow as pa

    try:
        str(file).encode()
    except UnicodeEncodeError:
        return pa.BufferReader(file.read_bytes())
    return file


def _not_utf8(file: Path) -> TableError:
    return TableError(f"{file} is not UTF-8. Save it as 'CSV UTF-8'")


def _is_open_at_its_end(table: pa.Table, file: Path) -> bool:
    """Returns whether a quote without end took the rest of the file into one cell, which Arrow accepts."""
    last = table.column(table.num_columns - 1)[-1].as_py() if table.num_rows else None
    if last is None or "\n" not in last:
        return False
    data = file.read_bytes()
    return data.count(b'"') % 2 == 1 and not data.rstrip(b"\r\n").endswith(b'"')


class _Header(NamedTuple):
    names: list[str]
    separator: str
    lines: int
    """Number of lines before the first row."""
    is_all: bool


def _read_header(file: Path) -> _Header:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        first = stream.readline()
        if "\0" in first:  # UTF-16 without a byte order mark
            raise _not_utf8(file)
        separator_line = _EXCELS.match(first)
        if separator_line:
            first = stream.readline()
        bare = _QUOTED.sub("", first)
        separator = "\t" if file.suffix.lower() == ".tsv" else max(_SEPARATORS, key=bare.count)
        reader = csv.reader(
            chain([first], stream), delimiter=separator_line[1] if separator_line else separator
        )
        names = [name.strip() for name in next(reader, ())]
        is_all = not stream.read(1)
    if not names:
        raise TableError(f"{file} is empty. Its first line has to name the columns")
    _check_names(names, file)
    return _Header(names, reader.dialect.delimiter, reader.line_num + bool(separator_line), is_all)


def _check_file(file: Path) -> None:
    if is_device(file):
        raise TableError(f"{file} is a device or a pipe, not a file")


def _check_names(names: list[str], file: Path) -> None:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if "" in twice:
        raise TableError(f"{file} has more than one column without a name. Name them, or remove them")
    if twice:
        raise TableError(f"{file} has more than one column called '{twice[0]}'. Rename one of them")
