"""The demo's MCP server: tools for the files of one folder, made with the official SDK, on loopback only.

Runs as a separate process, ``python -m knime_mcp.cli.demo_files_server FOLDER [PORT]``. It prints one line
with its URL as soon as it listens, and ends when its standard input closes, so that it always ends with the
process that started it.
"""

import asyncio
import base64
import json
import socket
import sys
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.resources import FileResource
from mcp.types import BlobResourceContents, EmbeddedResource, ToolAnnotations
from pydantic import Field

from ..system import take_port_again
from ..version import VERSION
from . import demo_file_tools as files
from .demo_file_tools import ColumnCheck, ColumnSummary, FileInfo, Match, WordCount
from .demo_process import when_stdin_closes

INSTRUCTIONS = """A small server that belongs to knime-mcp's demo. It reads the files of one folder and \
changes nothing. Start with list_files."""

_READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_Path = Annotated[str, Field(description="Name of the file, as list_files gives it.")]


def build_server(folder: Path) -> MCPServer:
    server = MCPServer(
        "knime-mcp-demo",
        title="knime-mcp demo",
        version=VERSION,
        instructions=INSTRUCTIONS,
        log_level="WARNING",
    )
    _add_text_tools(server, folder)
    _add_csv_tools(server, folder)
    _add_report_tools(server, folder)
    _add_resources_and_a_prompt(server, folder)
    return server


def _add_text_tools(server: MCPServer, folder: Path) -> None:
    @server.tool(annotations=_READ_ONLY)
    def list_files() -> list[FileInfo]:
        """List the files of the folder with kind, size and number of lines."""
        return files.list_files(folder)

    @server.tool(annotations=_READ_ONLY)
    def count_words(
        path: _Path,
        min_length: Annotated[int, Field(ge=1, description="Count words from this many letters on.")] = 1,
        top: Annotated[
            int, Field(ge=0, le=100, description="How many of the most common words to return.")
        ] = 3,
    ) -> WordCount:
        """Count the words of a file and return the most common ones."""
        return files.count_words(folder, path, min_length, top)

    @server.tool(annotations=_READ_ONLY)
    def search_text(
        text: Annotated[str, Field(min_length=1, description="The text to look for.")],
        path: Annotated[str | None, Field(description="One file; all files if left out.")] = None,
        case_sensitive: bool = False,
    ) -> list[Match]:
        """Find the lines that hold a text."""
        return files.search_text(folder, text, path, case_sensitive=case_sensitive)


def _add_csv_tools(server: MCPServer, folder: Path) -> None:
    @server.tool(annotations=_READ_ONLY)
    def summarize_csv(
        path: _Path,
        columns: Annotated[
            list[str] | None, Field(description="These columns only; all if left out.")
        ] = None,
    ) -> list[ColumnSummary]:
        """Summarize the columns of a CSV file: type, missing cells, distinct values, range and mean."""
        return files.summarize_csv(folder, path, columns or [])

    @server.tool(annotations=_READ_ONLY, structured_output=False)
    def convert_csv(
        path: _Path,
        to: Annotated[Literal["json", "markdown"], Field(description="The format to write.")] = "markdown",
        rows: Annotated[int, Field(ge=1, le=1000, description="How many rows, from the first on.")] = 10,
    ) -> str:
        """Write the first rows of a CSV file as JSON or as a Markdown table."""
        return files.convert_csv(folder, path, to, rows)

    @server.tool(annotations=_READ_ONLY, structured_output=False)
    def plot_column(
        path: _Path,
        column: Annotated[str, Field(description="A column of numbers.")],
        bars: Annotated[int, Field(ge=1, le=60, description="How many bars to draw.")] = 20,
    ) -> Image:
        """Draw the distribution of a column of numbers as a picture."""
        return Image(data=files.plot_column(folder, path, column, bars), format="png")


def _add_report_tools(server: MCPServer, folder: Path) -> None:
    @server.tool(annotations=_READ_ONLY)
    def check_columns(path: _Path) -> list[ColumnCheck]:
        """Count the missing readings and the outliers of each column of numbers of a CSV file."""
        return files.check_columns(folder, path)

    @server.tool(annotations=_READ_ONLY, structured_output=False)
    def report_page(
        column: Annotated[str, Field(description="What the page is about.")],
        picture: Annotated[str, Field(description="A chart: a PNG in base64.")],
        path: Annotated[str, Field(description="Where it is from.")] = "",
        missing: Annotated[int, Field(ge=0, description="Readings that are missing.")] = 0,
        outliers: Annotated[int, Field(ge=0, description="Readings far from all others.")] = 0,
    ) -> EmbeddedResource:
        """Make a page for a report, as PDF: what was found about a column of numbers, with its chart."""
        text = f"File: {path}\nMissing readings: {missing}\nReadings far from all others: {outliers}"
        data = base64.b64encode(files.report_page(f"Please look at: {column}", text, picture)).decode()
        uri = f"report:///{quote(path)}/{quote(column)}.pdf"
        return EmbeddedResource(
            type="resource", resource=BlobResourceContents(uri=uri, blob=data, mime_type="application/pdf")
        )


def _add_resources_and_a_prompt(server: MCPServer, folder: Path) -> None:
    for file in files.list_files(folder):
        kind = "text/csv" if file.kind == "csv" else "text/plain"
        path = (folder / file.path).absolute()
        server.add_resource(
            FileResource(uri=f"demo:///{file.path}", name=file.path, path=path, mime_type=kind)
        )

    @server.prompt()
    def answer_letter(path: str, tone: str = "friendly") -> str:
        """Ask a model to answer a letter."""
        letter = files.inside(folder, path).read_text(encoding="utf-8")
        return f"Answer this letter in a {tone} tone, in at most 120 words. Promise nothing.\n\n{letter}"


def serve(folder: Path, port: int) -> None:
    """Serves the files of a folder until standard input closes; port 0 takes a free one."""
    # asyncio sets TCP_NODELAY only if the protocol is given; without it a reply waits 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    take_port_again(listening)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    app = build_server(folder).streamable_http_app(stateless_http=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))

    def end() -> None:
        server.should_exit = True

    when_stdin_closes(end)
    print(json.dumps({"url": url}), flush=True)
    asyncio.run(server.serve(sockets=[listening]))


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
