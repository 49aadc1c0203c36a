"""Excel's workbooks: rows of values into one and back, with nothing cut and nothing calculated.

What a cell or a sheet of Excel cannot hold stands elsewhere in the workbook: the rest of the rows in further
sheets, and texts that are too long, in pieces, in a sheet of their own. Reading joins both again.
"""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

# https://support.microsoft.com/office/excel-specifications-and-limits-1672b34d-7043-467e-8e27-269d656771c3
ROWS: Final = 1_048_576
COLUMNS: Final = 16_384
CHARACTERS: Final = 32_767
_EXACT: Final = 10**15  # Excel keeps 15 digits of a number
_FIRST_DAY: Final = date(1900, 3, 1)  # before it, Excel counts a day that never was
_UNPACKED: Final = 1 << 30
_TABLE: Final = "Table"
_LONG: Final = "Long values"
_LONG_COLUMNS: Final = ("Row", "Column", "Text")
# ISO/IEC 29500, ST_Xstring: what XML cannot hold is written as _x0001_, and so is a text that looks like it.
_TO_ESCAPE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_SHOWN: Final = re.compile(r'"[^"]*"?|\\.|[_*].|\[[^\]]*\]')
_PLACES: Final = re.compile("[0#?@ymdhsYMDHS]|General")
_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")


class WorkbookError(ValueError):
    """A workbook cannot be read or written; the message is the end of a sentence about the file."""


class WorkbookWriter:
    """Writes rows of values piece by piece. Texts stay texts, also those that look like formulas."""

    def __init__(self, stream: BinaryIO, names: Sequence[str]) -> None:
        if len(names) > COLUMNS:
            raise WorkbookError(f"has {len(names):,} columns, and a sheet of Excel holds {COLUMNS:,}")
        with _openpyxl():
            from openpyxl import Workbook

        self._stream = stream
        self._names = names
        # Rows go to a temporary file at once; a usual workbook would hold all cells as objects.
        self._book: Any = Workbook(write_only=True)
        self._sheets = 0
        self._left = 0
        self._rows = 0
        self._long: list[tuple[int, str, str]] = []
        self._new_sheet()

    def _new_sheet(self) -> None:
        self._sheets += 1
        self._sheet = self._book.create_sheet(_TABLE if self._sheets == 1 else f"{_TABLE} {self._sheets}")
        self._sheet.freeze_panes = "A2"
        self._sheet.append([self._cell(name, bold=True) for name in self._names])
        self._left = ROWS - 1

    def write(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            if not self._left:
                self._new_sheet()
            self._left -= 1
            self._rows += 1
            self._sheet.append(
                [self._value(value, name) for name, value in zip(self._names, row, strict=True)]
            )

    def _value(self, value: Any, column: str) -> Any:
        match value:
            case None | bool():
                return value
            case int() | float() | Decimal() if isfinite(value) and abs(value) < _EXACT:
                return value
            # Excel has no time zones, and shows nothing finer than milliseconds.
            case datetime() if value.tzinfo is None and value.microsecond % 1000 == 0:
                return value if value.date() >= _FIRST_DAY else self._cell(value.isoformat())
            case date() if not isinstance(value, datetime) and value >= _FIRST_DAY:
                return value
            case date() | time():
                return self._cell(value.isoformat())
            case _:
                return self._text(str(value), column)

    def _text(self, text: str, column: str) -> Any:
        if _units(text) <= CHARACTERS:
            return self._cell(text)
        self._long += [(self._rows, column, piece) for piece in _pieces(text)]
        return self._cell(_shortened(text))

    def _cell(self, text: str, *, bold: bool = False) -> Any:
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.styles import Font

        cell: Any = WriteOnlyCell(self._sheet)
        cell.value = _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", text)
        cell.data_type = "s"  # openpyxl takes =1+1 for a formula, and #N/A for an error
        if text.startswith(("=", "+", "-", "@")):
            cell.quotePrefix = True  # Excel then keeps it a text also when somebody edits the cell
        if bold:
            cell.font = Font(bold=True)
        return cell

    def close(self) -> None:
        if self._long:
            self._sheet = self._book.create_sheet(_LONG)
            self._sheet.append(list(_LONG_COLUMNS))
            for row, column, piece in self._long:
                self._sheet.append([row, self._cell(column), self._cell(piece)])
        self._book.save(self._stream)

    @property
    def remark(self) -> str | None:
        """What somebody who opens the file should know."""
        parts: list[str] = []
        if self._sheets > 1:
            parts.append(f"a sheet of Excel holds {ROWS:,} rows: the others are in further sheets")
        if self._long:
            count = len({(row, column) for row, column, _ in self._long})
            parts.append(
                f"a cell of Excel holds {CHARACTERS:,} characters: {count:,} longer value{'s' * (count > 1)}"
                f" in the sheet '{_LONG}'"
            )
        return "; ".join(parts) or None


def _shortened(text: str) -> str:
    return f"{text[:1000]}… [{len(text):,} characters: all of them are in the sheet '{_LONG}']"


def _units(text: str) -> int:
    """How long Excel says that a text is: it counts in UTF-16, and what is escaped as it is written."""
    escapes = sum(6 for _ in _TO_ESCAPE.finditer(text))
    return len(text) + sum(character > "\uffff" for character in text) + escapes


def _pieces(text: str) -> Iterator[str]:
    size = CHARACTERS // 8  # whatever the characters are
    return (text[start : start + size] for start in range(0, len(text), size))


class Sheet(NamedTuple):
    names: list[str]
    rows: list[list[Any]]
    disguised: list[str]  # cells whose format shows another text than they hold


def read_workbook(file: Path) -> Sheet:
    """Reads the first sheet, whose first row names the columns; of our own workbooks, all of the table.

    Formulas are not calculated: the values count that the program kept which saved the file.
    """
    import zipfile

    with file.open("rb") as stream, file.open("rb") as again, _openpyxl(), warnings.catch_warnings():
        from openpyxl import load_workbook

        warnings.simplefilter("ignore")  # of what openpyxl does not keep when it writes a file again
        try:
            with zipfile.ZipFile(stream) as archive:
                # A small archive may unpack to more than the memory holds.
                unpacked = sum(part.file_size for part in archive.infolist())
            if unpacked > _UNPACKED:
                raise WorkbookError(f"unpacks to {unpacked:,} bytes, of which {_UNPACKED:,} are allowed")
            # openpyxl gives either values or formulas; only both show a formula whose value is missing.
            values: Any = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
            formulas: Any = load_workbook(again, read_only=True, keep_links=False)
            return _joined(values, formulas)
        except WorkbookError:
            raise
        except zipfile.BadZipFile:
            raise WorkbookError(
                "is no .xlsx file, or is protected by a password. Save it as 'Excel Workbook (*.xlsx)'"
            ) from None
        except Exception as error:  # what openpyxl raises depends on what is damaged
            raise WorkbookError(f"cannot be read as an Excel file: {type(error).__name__} {error}") from None


def _joined(values: Any, formulas: Any) -> Sheet:
    sheets = values.worksheets
    # A person does not see a hidden one, so the first of the others is the table.
    first = next((sheet for sheet in sheets if sheet.sheet_state == "visible"), sheets[0])
    others = [sheet for sheet in sheets if sheet is not first]
    disguised: list[str] = []
    rows = _rows(first, formulas[first.title], disguised)
    header = next(rows, list[Any]())
    is_ours = first.title == _TABLE
    for sheet in others if is_ours else ():
        if re.fullmatch(rf"{_TABLE} \d+", sheet.title):
            more = _rows(sheet, formulas[sheet.title], disguised)
            if next(more, None) != header:
                raise WorkbookError(f"has other columns in the sheet '{sheet.title}' than in '{_TABLE}'")
            rows = chain(rows, more)
    # Sheets may have formatted, empty columns and rows behind the table.
    while header and header[-1] is None:
        header.pop()
    table = [_of_length(row, len(header)) for row in rows]
    while table and not any(cell is not None for cell in table[-1]):
        table.pop()
    names = ["" if name is None else str(name).strip() for name in header]
    if is_ours and others and others[-1].title == _LONG:
        pieces = list(_rows(others[-1], formulas[_LONG], disguised))[1:]
        disguised += _fill_in(table, names, pieces)
    return Sheet(names, table, disguised)


def _rows(sheet: Any, formulas: Any, disguised: list[str]) -> Iterator[list[Any]]:
    """The values of each row; the file may say wrongly how large the sheet is, so rows differ in length."""
    for some in (sheet, formulas):
        # Otherwise openpyxl believes the file.
        some.reset_dimensions()
    for cells, written in zip(sheet.iter_rows(), formulas.iter_rows(values_only=True), strict=True):
        yield [_read(cell, formula) for cell, formula in zip(cells, written, strict=True)]
        disguised += [
            cell.coordinate
            for cell in cells
            if cell.value is not None and not _shows(cell.number_format, text=isinstance(cell.value, str))
        ]


def _read(cell: Any, formula: Any) -> Any:
    from openpyxl.styles.numbers import is_datetime

    value = cell.value
    if cell.data_type == "e":
        raise WorkbookError(f"has the error {value} in cell {cell.coordinate}. Correct it, or empty the cell")
    match value:
        case None if formula is not None:
            raise WorkbookError(
                f"has a formula in cell {cell.coordinate} that was never calculated. Save it with Excel"
            )
        case datetime() if is_datetime(cell.number_format) == "date":
            return value.date()
        case str():
            return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)
        case _:
            return value


@lru_cache(maxsize=256)
def _shows(number_format: str, *, text: bool) -> bool:
    """Whether cells of a format show their own text, or their own number or time.

    ISO/IEC 29500, 18.8.31: sections for positive and negative numbers, zero and texts. What stands in quotes
    or behind a backslash is shown as it is; colours, and blanks as wide as a letter, are no text.
    """
    bare = _SHOWN.sub(lambda found: "\0" if found[0][0] in '"\\' else "", number_format)
    sections = bare.split(";")
    if text:
        section = sections[3] if len(sections) > 3 else sections[-1]
        return section.strip() == "@" or (len(sections) < 4 and "@" not in section)
    return all(_PLACES.search(section) or not section.strip() for section in sections[:3])


def _of_length(row: list[Any], length: int) -> list[Any]:
    if any(cell is not None for cell in row[length:]):
        raise WorkbookError("has values in a column without a name. Name it in the first row, or remove it")
    return row[:length] + [None] * (length - len(row))


def _fill_in(table: list[list[Any]], names: list[str], pieces: list[list[Any]]) -> Iterator[str]:
    """Puts the texts that were too long for a cell back into their places.

    Where a cell does not say what it would of that text, one of both was edited, and what a person reads
    there counts; yields these cells.
    """
    whole: dict[tuple[int, str], list[str]] = {}
    for row, column, piece in pieces:
        whole.setdefault((row, column), []).append(piece)
    for (row, column), found in whole.items():
        text, place = "".join(found), names.index(column.strip())
        if table[row - 1][place] == _shortened(text):
            table[row - 1][place] = text
        else:
            yield f"{column} of row {row}, which is not that of the sheet '{_LONG}'"


@contextmanager
def _openpyxl() -> Generator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "openpyxl":
            raise
        raise WorkbookError("needs the package openpyxl. Install it with: pip install openpyxl") from None
