"""Serves the tools of a graph document, for `knime-mcp graph serve` and for `mcpgraph`.

Without typer, whose imports would take a third of the time until a server on standard input answers.
"""

from __future__ import annotations

import gc
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..errors import CommandError, ExitCode
from ..files import check_journal, open_journal
from ..serving import LogLevel, announce, end_now, log_to_stderr
from .reading import DialectChoice, error_lines, read_document

if TYPE_CHECKING:
    from pathlib import Path


def serve_document(
    file: Path,
    *,
    http: int | None = None,
    host: str = "127.0.0.1",
    mcp: Path | None = None,
    dialect: DialectChoice = DialectChoice.AUTO,
    audit: Path | None = None,
    reload: bool = True,
    validate: bool = True,
    log_level: LogLevel = LogLevel.INFO,
) -> ExitCode:
    """Serves a document until the client leaves or a signal comes.

    Args:
        file: The document.
        http: The port for HTTP, 0 for any; None for standard input and output.
        host: The address to listen on.
        mcp: A file with further servers.
        dialect: The dialect of the document.
        audit: The journal for the calls, or None.
        reload: Whether to apply changes of the document.
        validate: Whether to validate arguments and results by the schemas in the document.
        log_level: The level of the log.

    Returns:
        The exit code.

    Raises:
        CommandError: The document has errors.
        UsageError: The journal cannot be written.
    """
    check_journal(audit)
    gc.disable()  # collections during the imports would take a tenth of the start
    import anyio

    from ...graph.api import McpGraphApi
    from ...graph.execution.spans import spans_from_environment
    from ...graph.serving.reload import Reload
    from ...graph.serving.serve import serve_http, serve_stdio
    from ...graph.serving.service import GraphService

    log_to_stderr(log_level, "[%(levelname)s] %(message)s")
    for noisy in ("httpx", "httpcore", "mcp", "uvicorn", "opentelemetry"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with ExitStack() as stack:
        stack.callback(gc.enable)
        journal = stack.enter_context(open_journal(audit, about=f"knime-mcp graph serve {file.name}"))
        spans = spans_from_environment()
        if spans is not None:
            stack.callback(spans.close)

        def load() -> McpGraphApi:
            checked = read_document(file, dialect=dialect, mcp_file=mcp)
            if checked.document is None:
                raise CommandError(
                    "\n".join(f"[ERROR] {line}" for line in error_lines(file, checked.problems))
                )
            return McpGraphApi(checked.document, journal=journal, spans=spans, check_schemas=validate)

        # Made before the document is loaded, so that no change is missed.
        watch = Reload([file, *([mcp] if mcp else [])], load) if reload else None
        # With the old dialect, tools are listed without output schemas, like the programs of that dialect.
        service = GraphService(load(), output_schemas=dialect is not DialectChoice.TARGET)
        gc.enable()
        gc.freeze()  # long-lived objects; collecting them would delay calls
        signaled = False
        if http is None:
            signaled = anyio.run(serve_stdio, service, watch)
        else:
            anyio.run(lambda: serve_http(service, http, host=host, reload=watch, on_ready=announce))
    if signaled:
        end_now()
    return ExitCode.OK
