"""``knime-mcp graph studio``: a local page on which a document is seen, changed and run."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from .command_errors import CommandError, ExitCode, needs_graph, reports_errors
from .graph_commands import DialectOption, FileArgument, McpFileOption
from .mcpgraph import DialectChoice
from .serving import announce


@reports_errors
@needs_graph
def studio(
    file: FileArgument,
    port: Annotated[int, typer.Option(metavar="PORT", help="The port of the page; 0 is any.")] = 0,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in your browser.")
    ] = True,
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
) -> ExitCode:
    """See, change and run the graphs of a document on a page of this machine.

    The address has a token, and ends with the command. Comments, order and quotes of the document stay as
    they are; the file is written when you save.

    Example: knime-mcp graph studio tools.yaml
    """
    from ..graph.studio.app import Studio
    from ..graph.studio.desk import Desk

    if not file.is_file():
        raise CommandError(f"There is no {file}. Make one with: knime-mcp graph new {file}")

    def ready(url: str) -> None:
        announce(url)
        if open_page:
            typer.launch(url)

    asyncio.run(Studio(Desk(file, dialect=dialect, mcp_file=mcp)).run(port, ready))
    return ExitCode.OK
