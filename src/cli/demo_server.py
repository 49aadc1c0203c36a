"""The demo's MCP server: tools for the files of one folder, made with the official SDK, on loopback only."""

import asyncio
import base64
import csv
import json
import logging
import re
import statistics
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote, urlsplit

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resources import FileResource
from mcp.types import BlobResourceContents, EmbeddedResource, ToolAnnotations
from pydantic import Field

from ..version import VERSION
from ..web.listening import Listener

_INSTRUCTIONS = """A small server that belongs to knime-mcp's demo. It reads the files of one folder and \
changes nothing. Start with list_files."""
_READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_Path = Annotated[str, Field(description="Name of the file, as list_files gives it.")]
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


class DemoServer:
    """Serves the files of a folder, from a thread, while the block lasts; port 0 takes a free one."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        # The SDK sets up the log of the whole process, unless it has a handler.
        logging.getLogger().addHandler(logging.NullHandler())
        app = _mcp_server(folder).streamable_http_app(stateless_http=True)
        self._listener = Listener(app, "127.0.0.1", port, grace=1)
        self._answers = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.url = f"{self._listener.url}/mcp"
        self.port = urlsplit(self.url).port

    def __enter__(self) -> Self:
        self._thread.start()
        self._answers.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.end()
        self._thread.join()

    async def _serve(self) -> None:
        running = asyncio.create_task(self._listener.run())
        try:
            await self._listener.ready([running])
        finally:
            self._answers.set()
        await running


def _mcp_server(folder: Path) -> MCPServer:
    server = MCPServer("knime-mcp-demo", title="knime-mcp demo", version=VERSION, instructions=_INSTRUCTIONS)
    files = DemoFiles(folder)
    for tool in (files.list_files, files.count_words, files.search_text, files.summarize_csv):
        server.add_tool(tool, annotations=_READ_ONLY)
    server.add_tool(files.convert_csv, annotations=_READ_ONLY, structured_output=False)
    server.add_tool(files.plot_column, annotations=_READ_ONLY, structured_output=False)
    server.add_tool(files.check_columns, annotations=_READ_ONLY)
    server.add_tool(files.report_page, annotations=_READ_ONLY, structured_output=False)
    for file in files.list_files():
        kind = "text/csv" if file.kind == "csv" else "text/plain"
        path = (folder / file.path).absolute()
        server.add_resource(
            FileResource(uri=f"demo:///{file.path}", name=file.path, path=path, mime_type=kind)
        )
    server.prompt()(files.answer_letter)
    return server


# In the tools' output schemas, so that their docstrings are what servers say. They have no slots, which the
# SDK would take for the defaults of the fields.


@dataclass(frozen=True)
class FileInfo:
    """One file of the folder."""

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


class DemoFiles:
    """The tools, whose docstrings and parameters are their definitions.

    They refuse paths outside the folder, as a server must that gets paths from a model. Failures are
    `ToolError`, with a text for the caller.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def list_files(self) -> list[FileInfo]:
        """List the files of the folder with kind, size and number of lines."""
        return [
            FileInfo(
                path=file.name,
                kind=file.suffix.removeprefix(".") or "file",
                bytes=file.stat().st_size,
                lines=len(_text(file).splitlines()),
            )
            for file in self._files()
        ]

    def count_words(
        self,
        path: _Path,
        min_length: Annotated[int, Field(ge=1, description="Count words from this many letters on.")] = 1,
        top: Annotated[
            int, Field(ge=0, le=100, description="How many of the most common words to return.")
        ] = 3,
    ) -> WordCount:
        """Count the words of a file and return the most common ones."""
        found = _WORD.findall(_text(self._file(path)).lower())
        counts = Counter(word for word in found if len(word) >= min_length)
        # Equally common words are sorted alphabetically, so that results are always the same.
        common = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
        return WordCount(path=path, words=counts.total(), distinct=len(counts), most_common=dict(common))

    def search_text(
        self,
        text: Annotated[str, Field(min_length=1, description="The text to look for.")],
        path: Annotated[str | None, Field(description="One file; all files if left out.")] = None,
        case_sensitive: bool = False,
    ) -> list[Match]:
        """Find the lines that hold a text."""
        wanted = text if case_sensitive else text.casefold()
        return [
            Match(path=file.name, line=number, text=line.strip())
            for file in ([self._file(path)] if path else self._files())
            for number, line in enumerate(_text(file).splitlines(), 1)
            if wanted in (line if case_sensitive else line.casefold())
        ]

    def summarize_csv(
        self,
        path: _Path,
        columns: Annotated[
            list[str] | None, Field(description="These columns only; all if left out.")
        ] = None,
    ) -> list[ColumnSummary]:
        """Summarize the columns of a CSV file: type, missing cells, distinct values, range and mean."""
        table = _columns(self._file(path))
        return [_summary(name, _column(table, name)) for name in columns or table]

    def convert_csv(
        self,
        path: _Path,
        to: Annotated[Literal["json", "markdown"], Field(description="The format to write.")] = "markdown",
        rows: Annotated[int, Field(ge=1, le=1000, description="How many rows, from the first on.")] = 10,
    ) -> str:
        """Write the first rows of a CSV file as JSON or as a Markdown table."""
        with self._file(path).open(encoding="utf-8", newline="") as stream:
            header, *body = islice(csv.reader(stream), rows + 1)
        if to == "json":
            records = [dict(zip(header, row, strict=False)) for row in body]
            return json.dumps(records, ensure_ascii=False, indent=1)
        lines = [header, ["---"] * len(header), *body]
        return "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )

    def plot_column(
        self,
        path: _Path,
        column: Annotated[str, Field(description="A column of numbers.")],
        bars: Annotated[int, Field(ge=1, le=60, description="How many bars to draw.")] = 20,
    ) -> Image:
        """Draw the distribution of a column of numbers as a picture."""
        numbers = _numbers(_column(_columns(self._file(path)), column))
        if not numbers:
            raise ToolError(f"The column '{column}' of '{path}' holds no numbers.")
        low, width = min(numbers), (max(numbers) - min(numbers)) or 1
        # The largest number belongs into the last bar, and not behind it.
        counts = Counter(min(bars - 1, int((number - low) / width * bars)) for number in numbers)
        return Image(data=_png_of_bars([counts[bar] for bar in range(bars)]), format="png")

    def check_columns(self, path: _Path) -> list[ColumnCheck]:
        """Count the missing readings and the outliers of each column of numbers of a CSV file."""
        table = _columns(self._file(path))
        checks: list[ColumnCheck] = []
        for name, cells in table.items():
            present = [cell for cell in cells if cell]
            numbers = _numbers(present)
            # Quartiles need two numbers; a column with a text among its numbers is none of readings.
            if len(numbers) < 2 or len(numbers) < len(present):
                continue
            low, _, high = statistics.quantiles(numbers, n=4)
            reach = 1.5 * (high - low)  # Tukey's fences
            far = sum(not low - reach <= number <= high + reach for number in numbers)
            checks.append(ColumnCheck(path, name, len(present), len(cells) - len(present), far))
        return checks

    def report_page(
        self,
        column: Annotated[str, Field(description="What the page is about.")],
        picture: Annotated[str, Field(description="A chart: a PNG in base64.")],
        path: Annotated[str, Field(description="Where it is from.")] = "",
        missing: Annotated[int, Field(ge=0, description="Readings that are missing.")] = 0,
        outliers: Annotated[int, Field(ge=0, description="Readings far from all others.")] = 0,
    ) -> EmbeddedResource:
        """Make a page for a report, as PDF: what was found about a column of numbers, with its chart."""
        text = f"File: {path}\nMissing readings: {missing}\nReadings far from all others: {outliers}"
        data = base64.b64encode(_pdf_page(f"Please look at: {column}", text, picture)).decode()
        uri = f"report:///{quote(path)}/{quote(column)}.pdf"
        return EmbeddedResource(
            type="resource", resource=BlobResourceContents(uri=uri, blob=data, mime_type="application/pdf")
        )

    def answer_letter(self, path: str, tone: str = "friendly") -> str:
        """Ask a model to answer a letter."""
        letter = _text(self._file(path))
        return f"Answer this letter in a {tone} tone, in at most 120 words. Promise nothing.\n\n{letter}"

    def _file(self, path: str) -> Path:
        # Resolved before it is compared, as links may lead outside.
        file = (self._folder / path).resolve()
        names = ", ".join(known.name for known in self._files())
        if not file.is_relative_to(self._folder):
            raise ToolError(f"'{path}' is outside of the folder. There are: {names}.")
        if not file.is_file():
            raise ToolError(f"There is no file '{path}'. There are: {names}.")
        return file

    def _files(self) -> list[Path]:
        return sorted(
            file for file in self._folder.iterdir() if file.is_file() and not file.name.startswith(".")
        )


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _columns(file: Path) -> dict[str, list[str]]:
    if file.suffix != ".csv":
        raise ToolError(f"'{file.name}' is not a CSV file.")
    with file.open(encoding="utf-8", newline="") as stream:
        header, *body = csv.reader(stream)
    return {name: [row[index] for row in body] for index, name in enumerate(header)}


def _column(table: dict[str, list[str]], name: str) -> list[str]:
    if name not in table:
        raise ToolError(f"There is no column '{name}'. There are: {', '.join(table)}.")
    return table[name]


def _numbers(cells: list[str]) -> list[float]:
    return [number for cell in cells if (number := _number(cell)) is not None]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _summary(name: str, cells: list[str]) -> ColumnSummary:
    present = [cell for cell in cells if cell]
    numbers = _numbers(present)
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


def _pdf_page(title: str, text: str, picture: str) -> bytes:
    """A PDF of one page: a title, lines of text, and a picture, which is a PNG of 8-bit RGB in base64.

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
    content = drawn.encode("cp1252", "replace")
    image = (
        f"<</Type/XObject/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceRGB/BitsPerComponent 8"
        f"/Filter/FlateDecode/DecodeParms<</Predictor 15/Colors 3/Columns {width}>>/Length {len(pixels)}>>"
    )
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>/XObject<</P 6 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        image.encode() + b"stream\n" + pixels + b"\nendstream",
    )
    data, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    # With the space before the line break, as each entry has exactly 20 bytes.
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    end = f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<</Size {count}/Root 1 0 R>>\n"
    return data + f"{end}startxref\n{len(data)}\n%%EOF\n".encode()


def _pdf_text(text: str) -> str:
    return re.sub(r"([\\()])", r"\\\1", text)
