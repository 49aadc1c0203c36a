"""``knime-mcp graph show``: draws a document's graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ExitCode, UsageError, reports_errors
from ..extras import needs_graph
from ..files import check_page, read_json, write_page
from ..terminal import print_text
from .options import DialectOption, FileArgument, McpFileOption
from .reading import DialectChoice, read_document, usable

if TYPE_CHECKING:
    from ...graph.model import GraphDocument, ToolDefinition


@reports_errors
@needs_graph
def show(
    file: FileArgument,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tool.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="OUT.html", help="Write a page for a browser instead of Mermaid text."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN.json",
            help="A recorded run (its history as JSON): the page shows path, inputs, outputs.",
        ),
    ] = None,
    dialect: DialectOption = DialectChoice.AUTO,
    mcp: McpFileOption = None,
) -> ExitCode:
    """Draw the graphs of a document, as Mermaid text or as a page for a browser.

    Example: knime-mcp graph show tools.yaml --html tools.html
    """
    check_page(html)
    if run is not None and html is None:
        raise UsageError("--run needs --html OUT.html: a run is shown in a page.")
    # No server is called, so secrets may be missing.
    document = usable(file, read_document(file, dialect=dialect, mcp_file=mcp, fill_in=False))
    tools = _chosen(document, tool)
    if html is None:
        from ...graph.drawing.mermaid import mermaid as drawn

        for number, definition in enumerate(tools):
            heading = f"%% {definition.name}\n" if len(tools) > 1 else ""
            print_text(f"{chr(10) if number else ''}{heading}{drawn(definition)}".rstrip("\n"))
        return ExitCode.OK
    from .page import graph_page

    recorded = read_json(run) if run is not None else None
    write_page(html, graph_page(file.name, document, tools, recorded))
    return ExitCode.OK


def _chosen(document: GraphDocument, name: str | None) -> tuple[ToolDefinition, ...]:
    if name is None:
        return document.tools
    definition = document.tool(name)
    if definition is None:
        known = ", ".join(tool.name for tool in document.tools) or "none"
        raise UsageError(f"There is no tool '{name}'. The document has: {known}.")
    return (definition,)
