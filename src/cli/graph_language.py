"""``knime-mcp graph lsp``: graph documents in editors."""

from __future__ import annotations

from typing import Annotated

import typer

from .command_errors import ExitCode, needs_language_server, reports_errors
from .serving import LogLevel, end_now, log_to_stderr
from .shared_options import LogLevelOption


@reports_errors
@needs_language_server
def lsp(
    online: Annotated[
        bool,
        typer.Option("--online", help="Ask a document's servers for their tools when it is opened or saved."),
    ] = False,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> ExitCode:
    """Serve an editor over standard input and output, by the Language Server Protocol.

    It shows what graph check finds as a document is typed, and completes nodes, tools, arguments and paths.

    Example: knime-mcp graph lsp
    """
    log_to_stderr(log_level, "%(levelname)s %(name)s: %(message)s")
    from ..graph.language_server import GraphLanguage

    GraphLanguage(online=online).run()
    end_now()  # the library has closed standard output
