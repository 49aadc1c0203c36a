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
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol, Self, cast

from ..types.columns import ROW_ID, ColumnForm, column_name
from ..types.errors import Canceled
from ..types.texts import (
    counted,
    folded_name,
    json_integer,
    listed,
    named_once,
    why_no_json,
    without_surrogates,
)
from .arrow_cells import OUT_OF_RANGE, Unreadable, flat_table, json_value, python_values
from .csv_formulas import guarded, guarded_names, is_ours, unguarded
from .excel_files import WorkbookError, WorkbookWriter, read_workbook
from .sheet_facts import column_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa

_EXCELS: Final = re.compile(r'"?sep=([,;|\t])"?\s*$', re.IGNORECASE)
"""The first line with which Excel declares the separator of a CSV file."""
_AS_TEXT: Final = r'^="([^"]*)"$'
_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_INK: Final = re.compile(rb"\S")
_BLANKS: Final = re.compile(r"[\s\u200b\ufeff]+")
_LARGEST_BLOCK: Final = 2**31 - 1
_AT_A_TIME: Final = 512


class TableError(ValueError):
    """A table cannot be read or has wrong values; the message names the file, or row and column."""

    error_code = "KMCP-TABLE"


@dataclass(frozen=True)
class FileTable:
    """A table that was read from a file.

    CSV has no types, so its cells stay text until somebody who knows the types converts them: a postal code
    keeps its leading zero. An empty cell is missing, a cell of two quotes is the empty text.
    """

    table: pa.Table  # no two columns have the same name; columns of mixed types are text
    objects: list[dict[str, Any]] | None = None
    """The rows as objects with the types of the file, if columns may have several types."""
    numbers: Sequence[int] = ()
    """The rows' numbers in their sheet, or among the rows below the names where there is no sheet."""
    has_texts_only: bool = False
    """Whether the format has no types."""
    understood: str = ""
    """How the file was read, in a few words."""
    notes: tuple[str, ...] = ()
    """What a person who looks at the file may not see, or sees otherwise."""
    disguised: tuple[tuple[str, str], ...] = ()
    """Column and name of the cells that show a person another text than they hold."""
    unreadable: tuple[tuple[str, Unreadable], ...] = ()
    """Column and reason of the cells that have no value; they are missing in `table`."""

    def __post_init__(self) -> None:
        if not self.numbers:
            object.__setattr__(self, "numbers", range(1, self.total + 1))

    @property
    def columns(self) -> list[str]:
        return self.table.column_names

    def only(self, kept: Sequence[int]) -> Self:
        """The table with some of its rows, by their indices; each keeps its number."""
        import pyarrow as pa

        if len(kept) == self.total:
            return self
        return replace(
            self,
            table=self.table.take(pa.array(kept, pa.int64())) if self.columns else self.table,
            objects=None if self.objects is None else [self.objects[index] for index in kept],
            numbers=[self.numbers[index] for index in kept],
        )

    def filled_rows(self) -> list[int]:
        """The indices of the rows that have a value other than blanks; all, if there are no columns."""
        return [
            index for index, row in enumerate(self.rows()) if not row or not all(map(_is_blank, row.values()))
        ]

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


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and _BLANKS.fullmatch(value) is not None)


class _Writer(Protocol):
    """Writes tables with the same columns into one stream, as Arrow's writers do.

    It may have a `remark`, for who opens the file.
    """

    def write_table(self, table: pa.Table, /) -> None: ...
    def close(self) -> None: ...


class _Format(NamedTuple):
    """How tables are read and written in a format; None: they are not.

    A reader gives the file's own values, or a `TableError` that names the file, whatever is in it. Two
    columns of one name are such an error (`_check_names`). Other names are those that the columns may have,
    by which a sheet's head is found below its title. A writer takes any number of pieces, in memory
    that does not grow with them; where cells may be read as formulas, they have a guard if it is said so.
    """

    read: Callable[[Path, Collection[str]], FileTable] | None = None
    open_writer: Callable[[BinaryIO, pa.Schema, bool], _Writer] | None = None


def either(*endings: str) -> str:
    """The endings for a sentence: ``.csv, .parquet or .jsonl``."""
    return " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))


def _format(file: Path) -> _Format:
    return FORMATS.get(file.suffix.lower(), _Format())


def wrong_ending(file: Path, endings: tuple[str, ...], what: str) -> str:
    """The sentence, without its period, that a file of this name cannot be read or written."""
    return f"{file} cannot be {what}: the ending of its name has to be one of {', '.join(endings)}"


def read_parameters(file: Path, names: Collection[str]) -> FileTable:
    """Reads a table whose rows are calls, in the format that the ending of the file's name says.

    ``names`` are some that its columns may have: above the row with the names may stand titles. Rows without
    any value are left out. Cells that cannot be read are `Unreadable`. Raises `TableError` for the file.
    """
    read = _format(file).read
    if read is None:
        raise TableError(wrong_ending(file, READABLE, "read"))
    if is_device(file):
        raise TableError(f"{file} is a device or a pipe, not a file")
    return read(file, {folded_name(name) for name in names})


def read_table_file(file: Path) -> FileTable:
    """Reads a table whose first row has the names, and all of whose cells can be read."""
    table = read_parameters(file, ())
    for _, cell in table.unreadable:
        raise TableError(f"{file} has {cell.why}. {cell.fix}")
    return table


class TableWriter:
    """A file, opened with the first piece, that a table is written into piece by piece, without RowIDs.

    CSV has no guard against formulas if it is `raw_csv`.
    """

    def __init__(self, file: Path, *, raw_csv: bool = False) -> None:
        _, open_writer = _format(file)
        if open_writer is None:
            raise TableError(wrong_ending(file, WRITABLE, "written"))
        self.file = file
        self._open_writer = open_writer
        self._guard = not raw_csv
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
                self._writer = self._open_writer(self._stream, piece.schema, self._guard)
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


def _read_parquet(file: Path, _: Collection[str]) -> FileTable:
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
    return FileTable(table)


_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_TOP: Final = 20
"""How many rows are looked at for the names of the columns."""
_LONGEST_TOP: Final = 1 << 18


def _read_csv(file: Path, wanted: Collection[str], *, separators: Iterable[str] = _SEPARATORS) -> FileTable:
    """Reads CSV in the variants of many programs.

    The separator is that of Excel's ``sep=``, or else the one with which the first rows look most like a
    table. Blanks around names of columns are removed.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    data, encoding = _in_utf8(file)
    header = _read_header(data, separators, wanted)
    if not header.names:
        why = "is empty" if _INK.search(data) is None else "cannot be read as CSV"
        raise TableError(f"{file} {why}. Its first line has to name the columns")
    names = _names_of(header.names, 0)
    _check_names(names, file)
    notes = tuple(_check_quotes(data, header, file)) if b'"' in data else ()
    if _INK.search(data, _end_of_lines(data, header.lines)) is None:  # Arrow refuses a table without rows
        table = pa.table({name: pa.array([], pa.string()) for name in names})
    else:
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                # A row has to fit into a block, and a cell may be of any length.
                read_options=arrow_csv.ReadOptions(
                    block_size=min(max(len(data), 1 << 20), _LARGEST_BLOCK),
                    column_names=names,
                    skip_rows=header.lines,
                    use_threads=False,  # with threads an error does not say in which row
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=header.separator, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except (
            pa.ArrowCancelled
        ):  # by Ctrl-C: Arrow stops, and raises this beside what the signal's handler does
            raise Canceled(f"{file} was not read to its end") from None
        except pa.ArrowInvalid as error:
            uneven = next(_uneven_rows(data, header), None)
            raise TableError(f"{file} {uneven or f'cannot be read as CSV: {error}'.rstrip('.')}") from None
        pa.default_memory_pool().release_unused()  # Arrow keeps what it read with, as large as the file
    table, bare = _without_signs(table)
    notes = (*notes, *bare)
    # Spreadsheets save empty columns behind the table, too.
    named = [
        name
        for name, written in zip(names, header.names, strict=True)
        if written or table.column(name).null_count < table.num_rows
    ]
    how = ", ".join(
        [
            *([f"separated by {_SEPARATORS[header.separator]}"] if len(names) > 1 else []),
            encoding,
            f"names in line {header.lines}",
        ]
    )
    return FileTable(unguarded(table.select(named)), has_texts_only=True, understood=how, notes=notes)


_SIGNS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def _in_utf8(file: Path) -> tuple[bytes, str]:
    """The content of a text file in UTF-8, and the name of the encoding that it has."""
    data = file.read_bytes()
    sign, code = next(((sign, code) for sign, code in _SIGNS if data.startswith(sign)), (b"", ""))
    if not sign and b"\0" in data[:2]:  # every second byte of the first letters in UTF-16
        code = "utf-16-be" if data[:1] == b"\0" else "utf-16-le"
    data = data[len(sign) :]
    try:
        if code.startswith("utf-16"):
            return data.decode(code).encode(), "UTF-16"
        data.decode()
    except UnicodeDecodeError as error:
        if code.startswith("utf-16"):
            raise TableError(f"{file} is not text: {error}. Save it as 'CSV UTF-8'") from None
    else:
        return data, "UTF-8"
    text = data.decode(errors="surrogateescape")
    # Somebody put texts of two encodings into one file: whatever is read, some of it is wrong.
    if sign or any(character > "\x7f" and not "\udc80" <= character <= "\udcff" for character in text):
        line = text[: next(n for n, c in enumerate(text) if "\udc80" <= c <= "\udcff")].count("\n") + 1
        raise TableError(f"{file} is UTF-8 with other bytes in line {line}. Save it as 'CSV UTF-8'")
    try:
        return data.decode("cp1252").encode(), "Windows-1252, as it is not UTF-8"
    except UnicodeDecodeError:
        return data.decode("latin-1").encode(), "Latin-1, as it is not UTF-8"


class _Header(NamedTuple):
    names: list[str]
    separator: str
    lines: int
    """Number of lines before the first row."""


def _read_header(data: bytes, separators: Iterable[str], wanted: Collection[str]) -> _Header:
    top = data[:_LONGEST_TOP].decode(errors="ignore")
    declaring = io.StringIO(top, newline="").readline()
    declared = _EXCELS.match(declaring)
    if declared:
        top = top.removeprefix(declaring)
    candidates: list[tuple[tuple[int, bool, float, int], _Header]] = []
    for separator in declared[1] if declared else separators:
        rows = [(row, end) for row, end in _top_rows(top, separator) if any(map(str.strip, row))]
        if not rows:
            continue
        matches, index = _head_in([row for row, _ in rows], wanted)
        head, end = rows[index]
        below = [row for row, _ in rows[index + 1 :]]
        alike = sum(len(row) == len(head) for row in below) / max(len(below), 1)
        lines = end + bool(declared)
        score = (matches, len(head) > 1, alike, len(head))
        candidates.append((score, _Header([name.strip() for name in head], separator, lines)))
    if not candidates:
        return _Header([], ",", 0)
    return max(candidates, key=itemgetter(0))[1]


def _end_of_lines(data: bytes, lines: int) -> int:
    place = 0
    for _ in range(lines):
        found = _LINE.match(data, place)
        assert found is not None, "it matches nothing, too"
        place = found.end()
    return place


def _top_rows(top: str, separator: str) -> Iterator[tuple[list[str], int]]:
    """Yields the first rows, and the numbers of the lines in which they end."""
    reader = csv.reader(io.StringIO(top, newline=""), delimiter=separator)
    with suppress(csv.Error):  # a field that is longer than any name
        for row in islice(reader, _TOP):
            yield row, reader.line_num


def _head_in(rows: Sequence[Sequence[Any]], wanted: Collection[str]) -> tuple[int, int]:
    """How many of the wanted names stand in the row that has most of them, and the index of that row."""
    matches = [
        len({folded_name(cell) for cell in row if isinstance(cell, str)} & set(wanted)) for row in rows[:_TOP]
    ]
    most = max(matches)
    return most, matches.index(most)


def _names_of(cells: Iterable[Any], left: int) -> list[str]:
    """The names of columns; one without a name has that of its place."""
    names = ["" if cell is None else str(cell).strip() for cell in cells]
    return [name or f"Column {column_letters(left + place)}" for place, name in enumerate(names)]


def _without_signs(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """A table with 00123 where programs wrote ``="00123"``, so that spreadsheets keep the zeros."""
    import pyarrow as pa
    import pyarrow.compute as pc

    compute: Any = pc
    changed: list[str] = []
    columns = () if is_ours(table.column_names) else zip(table.column_names, table.columns, strict=True)
    for place, (name, column) in enumerate(columns):
        if compute.any(compute.match_substring_regex(column, _AS_TEXT)).as_py():
            texts = compute.replace_substring_regex(column, _AS_TEXT, r"\1")
            table = table.set_column(place, pa.field(name, pa.string()), texts)
            changed.append(f"'{name}'")
    return table, [f'cells such as ="1" are the text in them, in {listed(changed)}'] if changed else []


def _rows_below(data: bytes, header: _Header) -> Iterator[tuple[list[str], int]]:
    """The rows below the names, each with the number of the line in which it ends; raises `csv.Error`."""
    before = csv.field_size_limit(len(data) + 1)
    lines = iter(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline=""))
    for _ in range(header.lines):
        next(lines)
    reader = csv.reader(lines, delimiter=header.separator, strict=True)
    try:
        for row in reader:
            yield row, header.lines + reader.line_num
    except csv.Error as error:
        raise csv.Error(str(header.lines + reader.line_num)) from error
    finally:
        csv.field_size_limit(before)


def _uneven_rows(data: bytes, header: _Header) -> Iterator[str]:
    wanted = len(header.names)
    for row, line in _rows_below(data, header):
        if row and len(row) != wanted:
            yield (
                f"has {counted(len(row), 'cell')} in line {line}, and {counted(wanted, 'name')} of columns in"
                f" line {header.lines}. Write as many cells, and a cell with a separator in it in quotes"
            )


def _check_quotes(data: bytes, header: _Header, file: Path) -> Iterator[str]:
    """Refuses cells whose quotation marks are not closed, and notes those that may have swallowed rows."""
    swallowed: list[str] = []
    least = max(len(header.names) - 1, 1)
    try:
        for row, line in _rows_below(data, header):
            if any("\n" in cell and cell.partition("\n")[0].count(header.separator) >= least for cell in row):
                swallowed.append(str(line))
    except csv.Error as error:
        raise TableError(
            f"{file} has a quotation mark that is not closed, or one within a cell in quotes, in line {error}"
            " or before it. Close it, or write two for one that is part of the text"
        ) from None
    if swallowed:
        yield (
            "cells whose quotation marks enclose what looks like rows, to which a mark may be missing: up to"
            f" line {listed(swallowed)}"
        )


def _check_names(names: list[str], file: Path) -> None:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise TableError(f"{file} has more than one column called '{twice[0]}'. Rename one of them")


def _read_json_lines(file: Path, _: Collection[str]) -> FileTable:
    lines = _text(file).split("\n")
    rows = [_json_object(line, file, number) for number, line in enumerate(lines, 1) if line.strip()]
    return _of_objects(rows)


def _read_json(file: Path, _: Collection[str]) -> FileTable:
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
    return FileTable(table, objects=rows)


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    # Arrow would give each structure of a column the members of all others.
    if not any(isinstance(value, dict | list) for value in values):
        try:
            return pa.array([without_surrogates(v) if isinstance(v, str) else v for v in values])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # texts and numbers, or huge numbers
            pass
    return pa.array([None if value is None else without_surrogates(_as_text(value)) for value in values])


def _as_text(value: Any) -> str:
    """A cell of a column of several types, as a person reads it: a text has no quotes."""
    plain = json_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _read_excel(file: Path, wanted: Collection[str]) -> FileTable:
    """Reads a sheet with the types of its cells; columns of several types also as objects."""
    import pyarrow as pa

    try:
        sheet = read_workbook(file)
    except WorkbookError as error:
        raise TableError(f"{file} {error}") from None
    there = [index for index, row in enumerate(sheet.rows) if any(cell is not None for cell in row)]
    if not there:
        raise TableError(f"{file} is empty. Its first row has to name the columns")
    top = there[_head_in([sheet.rows[index] for index in there[:_TOP]], wanted)[1]]
    rows = sheet.rows[top + 1 : there[-1] + 1]
    head = sheet.rows[top]
    head = [*head, *[None] * (max(map(len, rows), default=0) - len(head))]
    rows = [[*row, *[None] * (len(head) - len(row))] for row in rows]
    places = [
        place
        for place, name in enumerate(head)
        if name is not None or any(row[place] is not None for row in rows)
    ]
    named = _names_of(head, sheet.left)
    names = [named[place] for place in places]
    _check_names(names, file)
    columns = [[row[place] for row in rows] for place in places]
    unreadable = tuple(
        (name, cell)
        for name, column in zip(names, columns, strict=True)
        for cell in column
        if isinstance(cell, Unreadable)
    )
    readable = ([None if isinstance(cell, Unreadable) else cell for cell in column] for column in columns)
    return FileTable(
        pa.Table.from_arrays([_column(column) for column in readable], names=names),
        objects=[dict(zip(names, map(json_value, row), strict=True)) for row in zip(*columns, strict=True)],
        numbers=range(top + 2, top + 2 + len(rows)),
        understood=f"sheet '{sheet.title}', names in row {top + 1}",
        notes=tuple(sheet.notes),
        disguised=tuple((named[place], cell) for place, cell in sheet.disguised),
        unreadable=unreadable,
    )


def _as_people_read(names: list[str]) -> list[str]:
    """The order of columns in files that people open: the definition of a tool fills a screen."""
    tool = column_name(ColumnForm.PORTABLE)
    return sorted(names, key=lambda name: name == tool)


class _ExcelWriter:
    """Writes a sheet, whose texts stay texts without a guard."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema, _: bool) -> None:
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

    def __init__(self, stream: BinaryIO, schema: pa.Schema, _: bool) -> None:
        self._stream = stream
        self._names: list[str] = schema.names

    def write_table(self, table: pa.Table, /) -> None:
        columns = (map(json_value, python_values(column)) for column in table.columns)
        for row in zip(*columns, strict=True):
            cells = dict(zip(self._names, row, strict=True))
            self._stream.write(json.dumps(cells, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        pass  # the stream is closed by who opened it


def _open_parquet(stream: BinaryIO, schema: pa.Schema, _: bool) -> _Writer:
    from pyarrow import parquet

    return parquet.ParquetWriter(stream, schema)


class _CsvWriter:
    """Writes CSV, which has no types for lists, structures, bytes and zones: they become text."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema, guard: bool, *, separator: str = ",") -> None:
        from pyarrow import csv as arrow_csv

        self._guard = guard
        self._order = _as_people_read(schema.names)
        head = flat_table(schema.empty_table().select(self._order))
        self._names = guarded_names(self._order) if guard else self._order
        self._writer = arrow_csv.CSVWriter(
            stream,
            head.rename_columns(self._names).schema,
            write_options=arrow_csv.WriteOptions(delimiter=separator),
        )

    def write_table(self, table: pa.Table, /) -> None:
        flat = flat_table(table.select(self._order)).rename_columns(self._names)
        self._writer.write_table(guarded(flat) if self._guard else flat)

    def close(self) -> None:
        self._writer.close()


FORMATS: Final[dict[str, _Format]] = {
    ".csv": _Format(_read_csv, _CsvWriter),
    ".tsv": _Format(partial(_read_csv, separators=("\t",)), partial(_CsvWriter, separator="\t")),
    ".xlsx": _Format(_read_excel, _ExcelWriter),
    ".parquet": _Format(_read_parquet, _open_parquet),
    ".jsonl": _Format(_read_json_lines, _JsonLinesWriter),
    ".ndjson": _Format(_read_json_lines, _JsonLinesWriter),
    ".json": _Format(_read_json),
}
"""The formats of tables by the ending of the file's name, in lower case."""
READABLE: Final = tuple(ending for ending, form in FORMATS.items() if form.read)
WRITABLE: Final = tuple(ending for ending, form in FORMATS.items() if form.open_writer)
