"""Tables in files: the one map of formats, by the ending of the file's name.

`FORMATS` says for each ending how a table is read and how it is written; commands, records and results use
nothing else, and their messages and help texts name the formats from it. A new format is a new entry.

Files are read defensively, as they come from many programs and may be damaged.
"""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol, Self, cast

from ..types.columns import ROW_ID, ColumnForm, column_name
from ..types.texts import json_integer, named_once, why_no_json, without_surrogates
from .arrow_cells import OUT_OF_RANGE, flat_table, json_value, python_values
from .csv_formulas import guarded, unguarded
from .excel_files import WorkbookError, WorkbookWriter, read_workbook

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa

_QUOTED: Final = re.compile(r'"[^"]*"')
_EXCELS: Final = re.compile(r'"?sep=([,;|\t])"?\s*$', re.IGNORECASE)
"""The first line with which Excel declares the separator of a CSV file."""
_LARGEST_BLOCK: Final = 2**31 - 1
_AT_A_TIME: Final = 512
_LARGE: Final = 1 << 24  # bytes
_AT_ONCE: Final = 1 << 20


class TableError(ValueError):
    """A table cannot be read or has wrong values; the message names the file, or row and column."""

    error_code = "KMCP-TABLE"


@dataclass(frozen=True)
class FileTable:
    """A table that was read from a file.

    CSV has no types, so its cells stay text until somebody who knows the types converts them: a postal code
    keeps its leading zero. An empty cell is missing, a cell of two quotes is the empty text.
    """

    table: pa.Table  # no two columns have the same name; columns of mixed types are JSON text
    typed: bool  # whether cells have the types of the file; otherwise all cells are text
    objects: list[dict[str, Any]] | None = None
    """The rows as objects with the types of the file, if columns may have several types."""
    disguised: tuple[str, ...] = ()
    """Cells that show a person another text than they hold."""

    @property
    def columns(self) -> list[str]:
        return self.table.column_names

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The table with other names of some columns."""
        table = self.table.rename_columns([names.get(name, name) for name in self.columns])
        objects = self.objects
        if objects is not None:
            objects = [{names.get(name, name): value for name, value in row.items()} for row in objects]
        return replace(self, table=table, objects=objects)

    def mapped(self, columns: Collection[str], change: Callable[[str | None], str | None]) -> Self:
        """The table with other texts in some columns; for a table without types."""
        import pyarrow as pa

        table = self.table
        for name in columns:
            changed = pa.array(map(change, table.column(name).to_pylist()), pa.string())
            table = table.set_column(table.column_names.index(name), name, changed)
        return replace(self, table=table)

    @property
    def total(self) -> int:
        # Without columns, Arrow has no rows.
        return self.table.num_rows if self.objects is None else len(self.objects)

    def rows(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yields the rows from index `start` on: cell by column name, None for a missing cell."""
        if self.objects is not None:
            yield from self.objects[start:]
            return
        for piece in self.table.slice(start).to_batches(max_chunksize=_AT_A_TIME):
            columns = map(python_values, piece.columns)
            yield from (dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True))


class _Writer(Protocol):
    """Writes tables with the same columns into one stream, as Arrow's writers do.

    It may have a `remark`, for who opens the file.
    """

    def write_table(self, table: pa.Table, /) -> None: ...
    def close(self) -> None: ...


class _Format(NamedTuple):
    """How tables are read and written in a format; None: they are not.

    A reader gives the file's own values, or a `TableError` that names the file, whatever is in it. Two
    columns of one name are such an error (`_check_names`). A writer takes any number of pieces, in memory
    that does not grow with them.

    A format that guards cells against being read as formulas has a further writer without the guard.
    """

    read: Callable[[Path], FileTable] | None = None
    open_writer: Callable[[BinaryIO, pa.Schema], _Writer] | None = None
    open_raw_writer: Callable[[BinaryIO, pa.Schema], _Writer] | None = None


def either(*endings: str) -> str:
    """The endings for a sentence: ``.csv, .parquet or .jsonl``."""
    return " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))


def _format(file: Path) -> _Format:
    return FORMATS.get(file.suffix.lower(), _Format())


def wrong_ending(file: Path, endings: tuple[str, ...], what: str) -> str:
    """The sentence, without its period, that a file of this name cannot be read or written."""
    return f"{file} cannot be {what}: the ending of its name has to be one of {', '.join(endings)}"


def read_table_file(file: Path) -> FileTable:
    """Reads a table in the format that the ending of the file's name says; `TableError` if it is none."""
    read = _format(file).read
    if read is None:
        raise TableError(wrong_ending(file, READABLE, "read"))
    if is_device(file):
        raise TableError(f"{file} is a device or a pipe, not a file")
    return read(file)


class TableWriter:
    """A file, opened with the first piece, that a table is written into piece by piece, without RowIDs.

    CSV has no guard against formulas if it is `raw_csv`.
    """

    def __init__(self, file: Path, *, raw_csv: bool = False) -> None:
        _, open_writer, open_raw_writer = _format(file)
        if open_writer is None:
            raise TableError(wrong_ending(file, WRITABLE, "written"))
        self.file = file
        self._open_writer = open_raw_writer if raw_csv and open_raw_writer else open_writer
        self._stream: BinaryIO | None = None
        self._writer: _Writer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            # Outermost, as the writer still writes when it is closed.
            with self._stream:
                if self._writer is not None:
                    self._writer.close()

    def write(self, piece: pa.Table) -> None:
        """Appends rows; all pieces have the same columns."""
        if ROW_ID in piece.column_names:
            piece = piece.drop_columns([ROW_ID])
        if self._stream is None:
            self._stream = self.file.open("wb")  # Arrow cannot open names that are not UTF-8
        if self._writer is None:
            try:
                self._writer = self._open_writer(self._stream, piece.schema)
            except WorkbookError as error:
                raise TableError(f"{self.file} cannot be written: it {error}") from None
        self._writer.write_table(piece)

    @property
    def remark(self) -> str | None:
        """What somebody who opens the file should know, once all is written."""
        return getattr(self._writer, "remark", None)


def is_device(file: Path) -> bool:
    """Returns whether a path is a device, which may have no end, or a pipe, which can be read only once."""
    return file.exists() and not file.is_file() and not file.is_dir()


def _read_parquet(file: Path) -> FileTable:
    import pyarrow as pa
    from pyarrow import parquet

    with file.open("rb") as stream:
        try:
            table = parquet.ParquetFile(stream).read()
            # A damaged file can have offsets that point anywhere; the first access would crash the process.
            table.validate(full=True)
            names = table.column_names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # depends on what is damaged
            raise TableError(f"{file} cannot be read as Parquet: {str(error).rstrip('.')}") from None
    _check_names(names, file)
    return FileTable(table, typed=True)


def _read_csv(file: Path, *, separators: str = ",;\t") -> FileTable:
    """Reads CSV in the variants of many programs.

    The separator is that of Excel's ``sep=``, or else the most frequent one of the first line. Blanks around
    names of columns are removed.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        header = _read_header(file, separators)
        if header.is_all:  # Arrow refuses a table without rows
            table = pa.table({name: pa.array([], pa.string()) for name in header.names})
            return FileTable(table, typed=False)
        table = arrow_csv.read_csv(
            _arrow_input(file),
            # A row has to fit into a block, and a cell may be of any length.
            read_options=arrow_csv.ReadOptions(
                block_size=min(max(file.stat().st_size, 1 << 20), _LARGEST_BLOCK),
                column_names=header.names,
                skip_rows=header.lines,
                use_threads=False,  # with threads an error does not say in which row
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
    pa.default_memory_pool().release_unused()  # Arrow keeps what it read the file with, as large as the file
    if _is_open_at_its_end(table, file):
        raise TableError(f"{file} has a quotation mark that is not closed: its last cell is in several lines")
    return FileTable(unguarded(table), typed=False)


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


def _read_header(file: Path, separators: str) -> _Header:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        first = stream.readline()
        if "\0" in first:  # UTF-16 without a byte order mark
            raise _not_utf8(file)
        separator_line = _EXCELS.match(first)
        if separator_line:
            first = stream.readline()
        # A separator within quotes is text.
        bare = _QUOTED.sub("", first)
        separator = separator_line[1] if separator_line else max(separators, key=bare.count)
        # Python's reader for the head, which may be in several lines;
        # it also says in which one the rows begin.
        reader = csv.reader(chain([first], stream), delimiter=separator)
        names = [name.strip() for name in next(reader, ())]
        is_all = not stream.read(1)
    if not names:
        raise TableError(f"{file} is empty. Its first line has to name the columns")
    _check_names(names, file)
    return _Header(names, separator, reader.line_num + bool(separator_line), is_all)


def _check_names(names: list[str], file: Path) -> None:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if "" in twice:
        raise TableError(f"{file} has more than one column without a name. Name them, or remove them")
    if twice:
        raise TableError(f"{file} has more than one column called '{twice[0]}'. Rename one of them")


def _read_json_lines(file: Path) -> FileTable:
    lines = _text(file).split("\n")
    rows = [_json_object(line, file, number) for number, line in enumerate(lines, 1) if line.strip()]
    return _of_objects(rows)


def _read_json(file: Path) -> FileTable:
    try:
        parsed = json.loads(_text(file), parse_int=json_integer, object_pairs_hook=named_once)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{file} cannot be read as JSON: {why_no_json(error)}") from None
    if not isinstance(parsed, list) or not all(isinstance(row, dict) for row in cast("list[Any]", parsed)):
        raise TableError(f'{file} is not a list of JSON objects, such as [{{"path": "a.txt"}}]')
    return _of_objects(list(map(_named, cast("list[dict[str, Any]]", parsed))))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise TableError(f"{file} is not UTF-8 text") from None


def _json_object(line: str, file: Path, number: int) -> dict[str, Any]:
    try:
        parsed = json.loads(line, parse_int=json_integer, object_pairs_hook=named_once)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{file}, line {number} is not JSON: {why_no_json(error)}") from None
    if not isinstance(parsed, dict):
        raise TableError(
            f'{file}, line {number} is not a JSON object. Write one per line, as in {{"path": "a.txt"}}'
        )
    return _named(cast("dict[str, Any]", parsed))


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {without_surrogates(name): value for name, value in row.items()}


def _of_objects(rows: list[dict[str, Any]]) -> FileTable:
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in names} for row in rows]
    table = pa.Table.from_arrays([_column([row[name] for row in rows]) for name in names], names=names)
    return FileTable(table, typed=True, objects=rows)


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    # Arrow would give each structure of a column the members of all others.
    if not any(isinstance(value, dict | list) for value in values):
        try:
            return pa.array([without_surrogates(v) if isinstance(v, str) else v for v in values])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # texts and numbers, or huge numbers
            pass
    texts = [None if value is None else json.dumps(json_value(value), ensure_ascii=False) for value in values]
    return pa.array([None if text is None else without_surrogates(text) for text in texts])


def _read_excel(file: Path) -> FileTable:
    """Reads a sheet with the types of its cells; columns of several types also as objects."""
    import pyarrow as pa

    try:
        names, rows, disguised = read_workbook(file)
    except WorkbookError as error:
        raise TableError(f"{file} {error}") from None
    if not names:
        raise TableError(f"{file} is empty. Its first row has to name the columns")
    _check_names(names, file)
    columns = [_column([row[position] for row in rows]) for position in range(len(names))]
    objects = [dict(zip(names, map(json_value, row), strict=True)) for row in rows]
    table = pa.Table.from_arrays(columns, names=names)
    return FileTable(table, typed=True, objects=objects, disguised=tuple(disguised))


def _as_people_read(names: list[str]) -> list[str]:
    """The order of columns in files that people open: results before the tools that gave them."""
    tool = column_name(ColumnForm.PORTABLE)
    start = names.index(tool) if tool in names else len(names)
    end = names.index("Status", start) if "Status" in names[start:] else start + 1
    return names[:start] + names[end:] + names[start:end]


class _ExcelWriter:
    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._order = _as_people_read(schema.names)
        self._writer = WorkbookWriter(stream, self._order)

    def write_table(self, table: pa.Table, /) -> None:
        flat = flat_table(table.select(self._order))
        columns = (map(_excel_value, python_values(column)) for column in flat.columns)
        self._writer.write(zip(*columns, strict=True))

    def close(self) -> None:
        self._writer.close()

    @property
    def remark(self) -> str | None:
        return self._writer.remark


def _excel_value(value: Any) -> Any:
    return OUT_OF_RANGE if hasattr(value, "as_py") else value


class _JsonLinesWriter:
    """Writes a JSON object per row, with the columns' names as keys; a missing cell is null."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._stream = stream
        self._names: list[str] = schema.names

    def write_table(self, table: pa.Table, /) -> None:
        columns = (map(json_value, python_values(column)) for column in table.columns)
        for row in zip(*columns, strict=True):
            cells = dict(zip(self._names, row, strict=True))
            line = json.dumps(cells, ensure_ascii=False, allow_nan=False)
            for start in range(0, len(line), _AT_ONCE):  # no second copy of a large row
                self._stream.write(line[start : start + _AT_ONCE].encode())
            self._stream.write(b"\n")

    def close(self) -> None:
        pass  # the stream is closed by who opened it


def _open_parquet(stream: BinaryIO, schema: pa.Schema) -> _Writer:
    from pyarrow import parquet

    return parquet.ParquetWriter(stream, schema)


class _CsvWriter:
    """Writes CSV, which has no types for lists, structures, bytes and zones: they become text."""

    def __init__(
        self, stream: BinaryIO, schema: pa.Schema, *, separator: str = ",", guard: bool = True
    ) -> None:
        from pyarrow import csv as arrow_csv

        self._separator = separator
        self._guard = guard
        self._stream = stream
        self._order = _as_people_read(schema.names)
        self._writer = arrow_csv.CSVWriter(
            stream,
            flat_table(schema.empty_table().select(self._order)).schema,
            write_options=arrow_csv.WriteOptions(delimiter=separator),
        )

    def write_table(self, table: pa.Table, /) -> None:
        flat = flat_table(table.select(self._order))
        flat = guarded(flat) if self._guard else flat
        if flat.nbytes < _LARGE:
            self._writer.write_table(flat)
            return
        # Arrow makes the text of all cells before it writes any: as much memory again.
        for row in range(flat.num_rows):
            for position in range(flat.num_columns):
                self._stream.write(self._separator.encode() if position else b"")
                self._write_cell(flat.select([position]).slice(row, 1))
            self._stream.write(b"\n")

    def _write_cell(self, cell: pa.Table) -> None:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        column = cell.column(0)
        if column.null_count or not pa.types.is_string(column.type):
            written = io.BytesIO()
            arrow_csv.write_csv(cell, written, arrow_csv.WriteOptions(include_header=False))
            self._stream.write(written.getvalue().removesuffix(b"\n"))
            return
        # A scalar of Arrow would be a copy of the text.
        array = column.chunk(0)
        _, ends, texts = array.buffers()
        start, end = struct.unpack_from("=2i", ends, 4 * array.offset)
        text = memoryview(texts)[start:end]
        self._stream.write(b'"')
        for start in range(0, len(text), _AT_ONCE):
            self._stream.write(bytes(text[start : start + _AT_ONCE]).replace(b'"', b'""'))
        self._stream.write(b'"')

    def close(self) -> None:
        self._writer.close()


FORMATS: Final[dict[str, _Format]] = {
    ".csv": _Format(_read_csv, _CsvWriter, partial(_CsvWriter, guard=False)),
    ".tsv": _Format(
        partial(_read_csv, separators="\t"),
        partial(_CsvWriter, separator="\t"),
        partial(_CsvWriter, separator="\t", guard=False),
    ),
    ".xlsx": _Format(_read_excel, _ExcelWriter),
    ".parquet": _Format(_read_parquet, _open_parquet),
    ".jsonl": _Format(_read_json_lines, _JsonLinesWriter),
    ".ndjson": _Format(_read_json_lines, _JsonLinesWriter),
    ".json": _Format(_read_json),
}
"""The formats of tables by the ending of the file's name, in lower case."""
READABLE: Final = tuple(ending for ending, form in FORMATS.items() if form.read)
WRITABLE: Final = tuple(ending for ending, form in FORMATS.items() if form.open_writer)
