"""The functions behind the tools of the demo's server, which work on the files of one folder.

Every function takes the folder first and refuses paths outside it, as a server must that gets paths from a
model. Failures are `ToolError`, with a text for the caller. The dataclasses have no slots, because the SDK
would take a slot for the default of its field.
"""

import base64
import csv
import json
import re
import statistics
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from mcp.server.mcpserver.exceptions import ToolError

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


@dataclass(frozen=True)
class FileInfo:
    """One file of the folder."""  # is in the tool's output schema, with which recorded calls are compared

    path: str
    kind: str
    bytes: int
    lines: int


@dataclass(frozen=True)
class WordCount:
    """The words of one file; `most_common` maps a word to how often it occurs."""

    path: str
    words: int
    distinct: int
    most_common: dict[str, int]


@dataclass(frozen=True)
class Match:
    """A line that holds the text; lines count from 1."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a CSV file; the numbers are null for a column of texts."""

    column: str
    type: Literal["number", "text"]
    rows: int
    missing: int
    distinct: int
    minimum: float | None
    mean: float | None
    maximum: float | None


@dataclass(frozen=True)
class ColumnCheck:
    """A column of numbers: its readings, those that are missing, and those far from all others."""

    path: str
    column: str
    readings: int
    missing: int
    outliers: int


def inside(folder: Path, path: str) -> Path:
    """Finds a file in the folder; ToolError for files that do not exist, or are outside."""
    root = folder.resolve()
    # Resolved before it is compared, as links may lead outside.
    file = (root / path).resolve()
    names = ", ".join(known_file.name for known_file in _files(root))
    if not file.is_relative_to(root):
        raise ToolError(f"'{path}' is outside of the folder. There are: {names}.")
    if not file.is_file():
        raise ToolError(f"There is no file '{path}'. There are: {names}.")
    return file


def list_files(folder: Path) -> list[FileInfo]:
    """Lists the files with kind and size."""
    return [
        FileInfo(
            path=file.name,
            kind=file.suffix.removeprefix(".") or "file",
            bytes=file.stat().st_size,
            lines=len(_text(file).splitlines()),
        )
        for file in _files(folder)
    ]


def count_words(folder: Path, path: str, min_length: int, top: int) -> WordCount:
    """Counts the words of a file with at least `min_length` letters, ignoring case."""
    words = [word for word in _WORD.findall(_text(inside(folder, path)).lower()) if len(word) >= min_length]
    counts = Counter(words)
    # Equally common words are sorted alphabetically, so that results are always the same.
    common = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
    return WordCount(path=path, words=len(words), distinct=len(counts), most_common=dict(common))


def search_text(folder: Path, text: str, path: str | None, *, case_sensitive: bool) -> list[Match]:
    """Finds the lines that contain a text, in one file or in all files."""
    files = [inside(folder, path)] if path else _files(folder)
    wanted = text if case_sensitive else text.casefold()
    return [
        Match(path=file.name, line=number, text=line.strip())
        for file in files
        for number, line in enumerate(_text(file).splitlines(), 1)
        if wanted in (line if case_sensitive else line.casefold())
    ]


def summarize_csv(folder: Path, path: str, columns: Sequence[str]) -> list[ColumnSummary]:
    """Summarizes the columns of a CSV file: type, missing cells, distinct values, range and mean."""
    table = _columns(inside(folder, path))
    return [_summary(name, _column(table, name)) for name in columns or table]


def convert_csv(folder: Path, path: str, to: Literal["json", "markdown"], rows: int) -> str:
    """Writes the first rows of a CSV file as JSON or as a Markdown table."""
    with inside(folder, path).open(encoding="utf-8", newline="") as stream:
        head = list(islice(csv.reader(stream), rows + 1))
    header, body = head[0], head[1:]
    if to == "json":
        return json.dumps(
            [dict(zip(header, row, strict=False)) for row in body], ensure_ascii=False, indent=1
        )
    lines = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def plot_column(folder: Path, path: str, column: str, bars: int) -> bytes:
    """Draws the distribution of a column of numbers as bars; returns a PNG."""
    cells = _column(_columns(inside(folder, path)), column)
    numbers = [number for cell in cells if cell and (number := _number(cell)) is not None]
    if not numbers:
        raise ToolError(f"The column '{column}' of '{path}' holds no numbers.")
    low, width = min(numbers), (max(numbers) - min(numbers)) or 1
    heights = [0] * bars
    for number in numbers:
        # The largest number belongs into the last bar, and not behind it.
        heights[min(bars - 1, int((number - low) / width * bars))] += 1
    return _png_of_bars(heights)


def check_columns(folder: Path, path: str) -> list[ColumnCheck]:
    """Counts missing readings and outliers (Tukey's fences) of each column of numbers of a CSV file."""
    table = _columns(inside(folder, path))
    checks: list[ColumnCheck] = []
    for name in table:
        present = [cell for cell in _column(table, name) if cell]
        numbers = [number for cell in present if (number := _number(cell)) is not None]
        # Quartiles need two numbers; a column with a text among its numbers is none of readings.
        if len(numbers) < 2 or len(numbers) < len(present):
            continue
        low, _, high = statistics.quantiles(numbers, n=4)
        reach = 1.5 * (high - low)
        far = sum(not low - reach <= number <= high + reach for number in numbers)
        checks.append(ColumnCheck(path, name, len(present), len(table[name]) - len(present), far))
    return checks


def report_page(title: str, text: str, picture: str) -> bytes:
    """Makes a PDF of one page: a title, lines of text, and a picture, which is a PNG of 8-bit RGB in base64.

    The pixels of a PNG are in a PDF as they are: it has the same filters.
    """
    try:
        png = base64.b64decode(picture, validate=True)
    except ValueError:
        raise ToolError("The picture is no base64 text.") from None
    # The header chunk is always the first: https://www.w3.org/TR/png-3/#11IHDR
    if png[:8] != b"\x89PNG\r\n\x1a\n" or png[24:29] != b"\x08\x02\0\0\0":
        raise ToolError("The picture is no PNG of 8-bit RGB without interlacing.")
    width, height = struct.unpack(">II", png[16:24])
    pixels, place = b"", 8
    while place < len(png):
        size, kind = struct.unpack(">I4s", png[place : place + 8])
        # Not unpacked: PDF reads a PNG's compressed rows as they are, with the predictor below.
        pixels += png[place + 8 : place + 8 + size] if kind == b"IDAT" else b""
        place += size + 12
    lines = [(title, 20), ("", 12), *((line, 12) for line in text.splitlines())]
    drawn = "".join(f"/F {size} Tf ({_pdf_text(line)}) Tj 0 -{size + 6} Td " for line, size in lines)
    scale = min(1.0, 480 / width)
    drawn = f"BT 56 770 Td {drawn}ET q {width * scale:g} 0 0 {height * scale:g} 56 400 cm /P Do Q"
    image = (
        f"<</Type/XObject/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceRGB/BitsPerComponent 8"
        f"/Filter/FlateDecode/DecodeParms<</Predictor 15/Colors 3/Columns {width}>>/Length {len(pixels)}>>"
    )
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    content = drawn.encode("cp1252", "replace")
    return _pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>/XObject<</P 6 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        font,
        image.encode() + b"stream\n" + pixels + b"\nendstream",
    )


def _pdf_text(text: str) -> str:
    return re.sub(r"([\\()])", r"\\\1", text)


def _pdf(*objects: bytes) -> bytes:
    data, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    # With the space before the line break, as each entry has exactly 20 bytes.
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    end = f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<</Size {count}/Root 1 0 R>>\n"
    return data + f"{end}startxref\n{len(data)}\n%%EOF\n".encode()


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _columns(file: Path) -> dict[str, list[str]]:
    if file.suffix != ".csv":
        raise ToolError(f"'{file.name}' is not a CSV file.")
    with file.open(encoding="utf-8", newline="") as stream:
        rows = csv.reader(stream)
        header = next(rows)
        body = list(rows)
    return {name: [row[index] for row in body] for index, name in enumerate(header)}


def _column(table: dict[str, list[str]], name: str) -> list[str]:
    if name not in table:
        raise ToolError(f"There is no column '{name}'. There are: {', '.join(table)}.")
    return table[name]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _summary(name: str, cells: list[str]) -> ColumnSummary:
    present = [cell for cell in cells if cell]
    numbers = [number for cell in present if (number := _number(cell)) is not None]
    numeric = bool(present) and len(numbers) == len(present)
    return ColumnSummary(
        column=name,
        type="number" if numeric else "text",
        rows=len(cells),
        missing=len(cells) - len(present),
        distinct=len(set(present)),
        minimum=min(numbers) if numeric else None,
        mean=round(statistics.fmean(numbers), 4) if numeric else None,
        maximum=max(numbers) if numeric else None,
    )


def _png_of_bars(heights: list[int]) -> bytes:
    bar, gap, height = 24, 4, 160  # pixels
    tallest = max(heights)
    tops = [height - round(count / tallest * (height - 8)) for count in heights]
    paper, ink = b"\xff\xff\xff", b"\x2f\x6f\xb3"

    def line(y: int) -> Iterator[bytes]:
        yield b"\x00"  # PNG's filter type "none", before every line
        for top in tops:
            yield paper * gap + (ink if y >= top else paper) * bar
        yield paper * gap

    pixels = b"".join(part for y in range(height) for part in line(y))
    size = struct.pack(">IIBBBBB", len(heights) * (bar + gap) + gap, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
