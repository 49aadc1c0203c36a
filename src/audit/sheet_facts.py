"""What a workbook of Excel says of its cells beside their values.

Readers of values leave out what a person sees: that a cell has an error, that a formula was never calculated,
that a format shows 01234 where the cell holds 1234, that rows are hidden. It is read here from the parts of
the file, ISO/IEC 29500 in both its forms, *Transitional* and *Strict*.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Callable
    from zipfile import ZipFile

_BY_NUMBER: Final = {"22": "m/d/yy h:mm"}  # of the built-in formats the one with a date and a time
_TRUE: Final = ("1", "true")
_SHOWN: Final = re.compile(r'"[^"]*"?|\\.|[_*].|\[[^\]]*\]')
_PLACES: Final = re.compile("[0#?@ymdhsYMDHS]|General")
_TOKEN: Final = re.compile(r'"[^"]*"|\\.|[0 ()+-]')
_DAY: Final = re.compile("[dy]", re.IGNORECASE)
_HOUR: Final = re.compile("[hs]", re.IGNORECASE)
_PIECE: Final = 1 << 16

Place = tuple[int, int]
"""Row and column of a cell, from 0."""


class CellFormat(str):
    """The code of a number format."""

    __slots__ = ()

    @property
    def fills_up(self) -> bool:
        """Whether whole numbers are shown with all digits, as ids are: 00123, KD-0012, 078-05-1120."""
        tokens = _TOKEN.findall(self)
        return tokens.count("0") > 1 and "".join(tokens) == str(self)

    def filled_up(self, number: int) -> str:
        tokens = _TOKEN.findall(self)
        places = tokens.count("0")
        digits = f"{abs(number):0{places}d}"
        # The first place takes the digits for which there are no places.
        left = iter([digits[: len(digits) - places + 1], *digits[len(digits) - places + 1 :]])
        shown = (next(left) if token == "0" else token.strip('"').removeprefix("\\") for token in tokens)  # noqa: S105
        return ("-" if number < 0 else "") + "".join(shown)

    @property
    def has_time(self) -> bool:
        """Whether days are shown with their time."""
        bare = _SHOWN.sub("", self)
        return bool(_DAY.search(bare) and _HOUR.search(bare))

    def shows(self, *, text: bool) -> bool:
        """Whether cells show their own text, or their own number or time.

        18.8.31: sections for positive and negative numbers, zero and texts. What stands in quotes or behind a
        backslash is shown as it is; colours, and blanks as wide as a letter, are no text.
        """
        return _shows(str(self), text)


@lru_cache(maxsize=256)
def _shows(code: str, text: bool) -> bool:
    bare = _SHOWN.sub(lambda found: "\0" if found[0][0] in '"\\' else "", code)
    sections = bare.split(";")
    if text:
        section = sections[3] if len(sections) > 3 else sections[-1]
        return section.strip() == "@" or (len(sections) < 4 and "@" not in section)
    return all(_PLACES.search(section) or not section.strip() for section in sections[:3])


@dataclass(slots=True)
class SheetFacts:
    errors: dict[Place, str] = field(default_factory=dict[Place, str])
    uncalculated: set[Place] = field(default_factory=set[Place])
    formats: dict[Place, CellFormat] = field(default_factory=dict[Place, CellFormat])
    """The formats that say something of a value: zeros before numbers, days with their time, other texts."""
    hidden_rows: set[int] = field(default_factory=set[int])
    end: Place = (-1, -1)
    """The last row and the last column that have values."""


class WorkbookFacts:
    """The parts of a workbook, by the names of its sheets."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        book = next((path for kind, path in self._related("").values() if kind == "officeDocument"), "")
        related = self._related(book)
        self._parts: dict[str, str] = {}
        # Programs that do not calculate write 0 as the value, and ask who opens the file to calculate.
        self._to_calculate = False
        for name, attributes in self._starts(book):
            if name == "sheet":
                reference = next((value for key, value in attributes.items() if key.endswith(" id")), "")
                self._parts[attributes.get("name", "")] = related.get(reference, ("", ""))[1]
            elif name == "calcPr":
                self._to_calculate = attributes.get("fullCalcOnLoad") in _TRUE
        styles = next((path for kind, path in related.values() if kind == "styles"), None)
        self._formats = {} if styles is None else self._read_formats(styles)

    def sheet(self, name: str) -> SheetFacts:
        reading = _SheetReading(self._formats, self._to_calculate)
        self._parse(self._parts[name], reading.start, reading.take_parser)
        reading.close()
        return reading.facts

    def _related(self, part: str) -> dict[str, tuple[str, str]]:
        """Kind and path of the parts that a part refers to, by its names for them."""
        folder, name = posixpath.split(part)
        file = posixpath.join(folder, "_rels", f"{name}.rels")
        return {
            attributes["Id"]: (
                attributes["Type"].rpartition("/")[2],
                posixpath.normpath(posixpath.join("/", folder, attributes["Target"]))[1:],
            )
            for name, attributes in self._starts(file)
            if name == "Relationship"
        }

    def _read_formats(self, part: str) -> dict[str, CellFormat]:
        codes, formats = dict(_BY_NUMBER), dict[str, CellFormat]()
        within, number = "", 0
        for name, attributes in self._starts(part):
            if name == "numFmt":
                codes[attributes["numFmtId"]] = attributes["formatCode"]
            elif name in ("cellStyleXfs", "cellXfs"):
                within = name
            elif name == "xf" and within == "cellXfs":
                code = CellFormat(codes.get(attributes.get("numFmtId", "0"), "General"))
                if code.fills_up or code.has_time or not (code.shows(text=True) and code.shows(text=False)):
                    formats[str(number)] = code
                number += 1
        return formats

    def _starts(self, part: str) -> list[tuple[str, dict[str, str]]]:
        found: list[tuple[str, dict[str, str]]] = []
        self._parse(part, lambda name, attributes: found.append((name, attributes)))
        return found

    def _parse(
        self,
        part: str,
        start: Callable[[str, dict[str, str]], None],
        take_parser: Callable[[Any], None] | None = None,
    ) -> None:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = lambda name, attributes: start(name[name.rfind(" ") + 1 :], attributes)
        if take_parser is not None:
            take_parser(parser)
        with self._archive.open(part) as stream:
            while piece := stream.read(_PIECE):
                parser.Parse(piece, False)
            parser.Parse(b"", True)


class _SheetReading:
    """Reads the elements of a sheet: `row`, `c` for a cell, `f` for its formula and `v` for its value."""

    def __init__(self, formats: dict[str, CellFormat], to_calculate: bool) -> None:
        self.facts = SheetFacts()
        self._formats = formats
        self._to_calculate = to_calculate
        self._row = self._column = -1
        self._kind = ""
        self._has_formula = self._is_read = False
        self._value = ""
        self._parser: Any = None

    def take_parser(self, parser: Any) -> None:
        self._parser = parser

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._is_read:
            self._is_read = False
            self._parser.CharacterDataHandler = None
        match name:
            case "c":
                self._end_cell()
                reference = attributes.get("r")
                self._column = self._column + 1 if reference is None else _column(reference)
                self._kind = attributes.get("t", "n")
                found = self._formats.get(attributes.get("s", ""))
                if found is not None:
                    self.facts.formats[self._row, self._column] = found
            case "v" | "is":
                row, column = self.facts.end
                self.facts.end = max(row, self._row), max(column, self._column)
                self._is_read = self._has_formula or self._kind == "e"
                if self._is_read:
                    self._parser.CharacterDataHandler = self._take
            case "f":
                self._has_formula = True
            case "row":
                self._end_cell()
                self._row = int(attributes["r"]) - 1 if "r" in attributes else self._row + 1
                self._column = -1
                if attributes.get("hidden") in _TRUE:
                    self.facts.hidden_rows.add(self._row)
            case _:
                pass

    def _take(self, text: str) -> None:
        self._value += text

    def _end_cell(self) -> None:
        if not self._has_formula and self._kind != "e":
            return
        value = self._value.strip()
        place = self._row, self._column
        if self._kind == "e":
            self.facts.errors[place] = value
        # A formula whose value is the empty text is a text.
        elif self._kind != "str" and (not value or (value == "0" and self._to_calculate)):
            self.facts.uncalculated.add(place)
        self._has_formula, self._kind, self._value = False, "", ""

    def close(self) -> None:
        self._end_cell()


def _column(reference: str) -> int:
    column = 0
    for letter in reference.rstrip("0123456789"):
        column = column * 26 + ord(letter) - 64
    return column - 1


def cell_name(row: int, column: int) -> str:
    """The name of a cell, such as B5."""
    return f"{column_letters(column)}{row + 1}"


def column_letters(column: int) -> str:
    letters = ""
    while column >= 0:
        column, rest = divmod(column, 26)
        letters = chr(65 + rest) + letters
        column -= 1
    return letters
