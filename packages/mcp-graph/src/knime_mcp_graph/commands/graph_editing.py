"""``mcpgraph studio`` and ``toolkit``: documents changed on a page, and over MCP."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from knime_mcp.cli.command_errors import CommandError, ExitCode, reports_errors
from knime_mcp.cli.files import check_journal, recorded_run
from knime_mcp.cli.serving import LogLevel, announce, end_now, log_to_stderr
from knime_mcp.cli.shared_options import LogLevelOption

from .graph_commands import AuditOption, DialectOption, FileArgument, McpFileOption
from .program import DialectChoice


@reports_errors
def studio(
    file: FileArgument,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="The port of the page; 0 is any.")
    ] = 0,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in your browser.")
    ] = True,
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
) -> ExitCode:
    """See, change and run the graphs of a document on a page of this machine.

    The address has a token, and ends with the command. Comments, order and quotes of the document stay as
    they are; the file is written when you save.

    Example: mcpgraph studio tools.yaml
    """
    from ..studio.app import Studio
    from ..studio.desk import DocumentDesk

    if not file.is_file():
        raise CommandError(f"There is no {file}. Make one with: mcpgraph new {file}")

    def ready(url: str) -> None:
        announce(url)
        if open_page:
            typer.launch(url)

    asyncio.run(Studio(DocumentDesk(file, dialect=dialect, mcp_file=mcp)).run(port, ready))
    return ExitCode.OK


@reports_errors
def toolkit(
    file: FileArgument,
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    audit: AuditOption = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> ExitCode:
    """Let an agent read, add, change, remove, test and run the tools of a graph document, over MCP.

    Over standard input and output. A change is saved only if it brings no errors and no recorded case
    fails. Running a tool calls its servers.

    Example: mcpgraph toolkit tools.yaml
    """
    check_journal(audit)
    from knime_mcp.web.tool_server import ToolServer

    from ..document_loading import load_document
    from ..toolkit import Toolkit

    log_to_stderr(log_level, "[%(levelname)s] %(message)s")
    load_document(file, dialect=dialect, mcp_file=mcp)  # says what is wrong before a client comes
    with recorded_run(audit, about=f"mcpgraph toolkit {file.name}") as run:
        served = Toolkit(file, dialect=dialect, mcp_file=mcp, run=run)
        try:
            signaled = ToolServer(served).run_stdio()
        finally:
            served.close()
    if signaled:
        end_now()
    return ExitCode.OK
