"""Excel's workbooks: rows of values into one and back, with nothing cut and nothing calculated.

What a cell or a sheet of Excel cannot hold stands elsewhere in the workbook: the rest of the rows in further
sheets, and texts that are too long, in pieces, in a sheet of their own. Reading joins both again.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Self

from ..types.texts import listed
from .arrow_cells import Unreadable
from .sheet_facts import WorkbookFacts, cell_name, column_letters

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
_MEASURED: Final = 100  # rows
_WIDEST: Final = 60
_TABLE: Final = "Table"
_LONG: Final = "Long values"
_LONG_COLUMNS: Final = ("Row", "Column", "Text")
# ISO/IEC 29500, ST_Xstring: what XML cannot hold is written as _x0001_, and so is a text that looks like it.
_TO_ESCAPE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_LARGEST_WHOLE: Final = 2**63
_AREA: Final = 1 << 26


class WorkbookError(ValueError):
    """A workbook cannot be read or written; the message is the end of a sentence about the file."""


class WorkbookWriter:
    """Writes rows of values piece by piece. Texts stay texts, also those that look like formulas."""

    def __init__(self, stream: BinaryIO, names: Sequence[str]) -> None:
        if len(names) > COLUMNS:
            raise WorkbookError(f"has {len(names):,} columns, and a sheet of Excel holds {COLUMNS:,}")
        with _installed():
            from openpyxl import Workbook

        self._stream = stream
        self._names = names
        # Rows go to a temporary file at once; a usual workbook would hold all cells as objects.
        self._book: Any = Workbook(write_only=True)
        self._sheets = 0
        self._left = 0
        self._rows = 0
        self._long: list[tuple[int, str, str]] = []
        self._widths: list[int] = []

    def _new_sheet(self) -> None:
        self._end_sheet()
        self._sheets += 1
        self._sheet: Any = self._book.create_sheet(
            _TABLE if self._sheets == 1 else f"{_TABLE} {self._sheets}"
        )
        self._sheet.freeze_panes = "A2"
        for place, width in enumerate(self._widths):
            self._sheet.column_dimensions[column_letters(place)].width = width
        self._sheet.append([self._cell(name, bold=True) for name in self._names])
        self._left = ROWS - 1

    def _end_sheet(self) -> None:
        if self._sheets and self._names:
            end = cell_name(ROWS - 1 - self._left, len(self._names) - 1)
            self._sheet.auto_filter.ref = f"A1:{end}"

    def write(self, rows: Iterable[Sequence[Any]]) -> None:
        rows = iter(rows)
        first = list(islice(rows, 0 if self._sheets else _MEASURED))
        if not self._sheets:  # widths stand before the rows in the file
            lengths = zip(self._names, *first, strict=True)
            self._widths = [_width(cells) for cells in lengths]
        for row in chain(first, rows):
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
        if text.startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠")):
            cell.quotePrefix = True  # Excel then keeps it a text also when somebody edits the cell
        if bold:
            cell.font = Font(bold=True)
        return cell

    def close(self) -> None:
        if not self._sheets:
            self._new_sheet()
        self._end_sheet()
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


def _width(cells: Iterable[Any]) -> int:
    """The width of a column in digits, with room for the button of the filter."""
    longest = max(len(str(cell).partition("\n")[0]) for cell in cells if cell is not None)
    return min(longest + 4, _WIDEST)


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
    title: str
    rows: list[list[Any]]
    """All rows of the sheet from its first one on; None for an empty cell, `Unreadable` for an error."""
    left: int
    """How many empty columns stand before the first one."""
    disguised: list[tuple[int, str]]
    """Cells whose format shows another text than they hold: their place in the row, and their name."""
    notes: list[str]
    """What somebody who looks at the sheet may not see, or sees otherwise."""


def read_workbook(file: Path) -> Sheet:
    """Reads the first sheet that is not hidden; of our own workbooks, all of the table.

    Formulas are not calculated: the values count that the program kept which saved the file.
    """
    import zipfile

    with file.open("rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                # A small archive may unpack to more than the memory holds.
                unpacked = sum(part.file_size for part in archive.infolist())
                if unpacked > _UNPACKED:
                    raise WorkbookError(f"unpacks to {unpacked:,} bytes, of which {_UNPACKED:,} are allowed")
                with _installed():
                    import python_calamine
                reader: Any = python_calamine
                stream.seek(0)
                return _joined(reader.load_workbook(stream), WorkbookFacts(archive))
        except WorkbookError:
            raise
        except zipfile.BadZipFile:
            raise WorkbookError(
                "is no .xlsx file, or is protected by a password. Save it as 'Excel Workbook (*.xlsx)'"
            ) from None
        except Exception as error:  # what is raised depends on what is damaged
            raise WorkbookError(f"cannot be read as an Excel file: {type(error).__name__} {error}") from None


def _joined(book: Any, facts: WorkbookFacts) -> Sheet:
    # Charts have sheets of their own, which hold no cells.
    sheets = [sheet for sheet in book.sheets_metadata if str(sheet.typ).endswith("WorkSheet")]
    if not sheets:
        raise WorkbookError("has no sheet with cells")
    visible = {sheet.name: str(sheet.visible).endswith("Visible") for sheet in sheets}
    # A person does not see a hidden one, so the first of the others is the table.
    first = next((name for name in visible if visible[name]), next(iter(visible)))
    table = _read_sheet(book, facts, first)
    is_ours = first == _TABLE
    further = [name for name in visible if is_ours and re.fullmatch(rf"{_TABLE} \d+", name)]
    has_long = is_ours and [*visible][-1] == _LONG
    others = [name for name in visible if name not in (first, *further, *[_LONG] * has_long)]
    if hidden := [f"'{name}'" for name in others if not visible[name]]:
        table.notes.append(f"hidden sheets, which are not read: {listed(hidden)}")
    if shown := [f"'{name}'" for name in others if visible[name]]:
        table.notes.append(f"further sheets, which are not read: {listed(shown)}")
    for name in further:
        more = _read_sheet(book, facts, name)
        if more.rows[:1] != table.rows[:1]:
            raise WorkbookError(f"has other columns in the sheet '{name}' than in '{_TABLE}'")
        table.rows.extend(more.rows[1:])
        table.disguised.extend(more.disguised)
    if has_long:
        pieces = _read_sheet(book, facts, _LONG)
        table.disguised.extend(pieces.disguised)
        table.disguised.extend(_fill_in(table.rows, pieces.rows[1:]))
    return table


def _read_sheet(book: Any, facts: WorkbookFacts, name: str) -> Sheet:
    said = facts.sheet(name)
    # The reader takes memory for the whole area, and a cell may stand anywhere.
    if (said.end[0] + 1) * (said.end[1] + 1) > _AREA:
        raise WorkbookError(f"has values as far away as cell {cell_name(*said.end)} in the sheet '{name}'")
    values = book.get_sheet_by_name(name)
    left = values.start[1] if values.start else 0
    rows = [list(map(_plain, row)) for row in values.iter_rows()]
    disguised: list[tuple[int, str]] = []
    for (row, column), code in said.formats.items():
        value = _at(rows, row, column - left)
        match value:
            case int() if code.fills_up and not isinstance(value, bool):
                rows[row][column - left] = NumberAsShown(value, code.filled_up(value))
            case date() if code.has_time and not isinstance(value, datetime):
                rows[row][column - left] = datetime.combine(value, time())
            case _ if value is not None and not code.shows(text=isinstance(value, str)):
                disguised.append((column - left, cell_name(row, column)))
            case _:
                pass
    for row, column in said.uncalculated:
        why = f"a formula in cell {cell_name(row, column)} that was never calculated"
        _put(rows, row, column - left, Unreadable(why, fix="Save it with Excel"))
    for (row, column), error in said.errors.items():
        why = f"the error {error} in cell {cell_name(row, column)}"
        _put(rows, row, column - left, Unreadable(why, fix="Correct it, or empty the cell"))
    notes = [*_filled(values, rows, left), *_hidden(said.hidden_rows, rows)]
    return Sheet(name, rows, left, disguised, notes)


def _plain(value: Any) -> Any:
    if value == "":
        return None
    # A number has no type in the file: programs write 1001 also as 1001.0 and 1.001E3.
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WHOLE:
        return int(value)
    return value


def _is_there(value: Any) -> bool:
    return value is not None


def _at(rows: list[list[Any]], row: int, column: int) -> Any:
    return rows[row][column] if row < len(rows) and 0 <= column < len(rows[row]) else None


def _put(rows: list[list[Any]], row: int, column: int, value: Any) -> None:
    if column < 0:  # left of all values, where no column has a name
        return
    rows += [list[Any]() for _ in range(row + 1 - len(rows))]
    rows[row] += [None] * (column + 1 - len(rows[row]))
    rows[row][column] = value


def _filled(values: Any, rows: list[list[Any]], left: int) -> Iterator[str]:
    """Gives each row of a merged cell its value, as a person reads it."""
    merged: list[str] = []
    for (top, start), (bottom, end) in values.merged_cell_ranges or ():
        value = _at(rows, top, start - left)
        if bottom > top and value is not None:
            merged.append(f"{cell_name(top, start)}:{cell_name(bottom, end)}")
            for row in range(top + 1, min(bottom + 1, len(rows))):
                _put(rows, row, start - left, value)
    if merged:
        yield f"merged cells count for each of their rows: {listed(merged)}"


def _hidden(hidden: set[int], rows: list[list[Any]]) -> Iterator[str]:
    numbers = [str(row + 1) for row in sorted(hidden) if row < len(rows) and any(map(_is_there, rows[row]))]
    if numbers:
        yield f"hidden rows of the sheet, which are read all the same: {listed(numbers)}"


class NumberAsShown(int):
    """A whole number in a cell that shows it with zeros before it: as a text it has them, too."""

    shown: str

    def __new__(cls, value: int, shown: str) -> Self:
        self = super().__new__(cls, value)
        self.shown = shown
        return self

    def __str__(self) -> str:
        return self.shown


def _fill_in(rows: list[list[Any]], pieces: list[list[Any]]) -> Iterator[tuple[int, str]]:
    """Puts the texts that were too long for a cell back into their places.

    Where a cell does not say what it would of that text, one of both was edited, and what a person reads
    there counts; yields these cells.
    """
    whole: dict[tuple[int, str], list[str]] = {}
    for row, column, piece in pieces:
        whole.setdefault((row, column), []).append(piece)
    names = ["" if name is None else str(name).strip() for name in rows[0]]
    for (row, column), found in whole.items():
        text, place = "".join(found), names.index(column.strip())
        if rows[row][place] == _shortened(text):
            rows[row][place] = text
        else:
            yield place, f"{column} of row {row + 1}, which is not that of the sheet '{_LONG}'"


@contextmanager
def _installed() -> Generator[None]:
    """The nodes come without the packages for workbooks."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = {"openpyxl": "openpyxl", "python_calamine": "python-calamine"}.get(error.name or "")
        if package is None:
            raise
        raise WorkbookError(f"needs the package {package}. Install it with: pip install {package}") from None
