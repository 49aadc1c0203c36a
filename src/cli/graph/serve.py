"""``knime-mcp graph serve``: the tools of a document as an MCP server."""

from __future__ import annotations

import gc
import logging
from contextlib import ExitStack
from typing import Annotated

import typer

from ..exits import CommandError, ExitCode, reports_errors
from ..extras import needs_graph
from ..files import check_journal, open_journal
from ..serving import HostOption, HttpOption, LogLevel, LogLevelOption, announce, end_now, log_to_stderr
from .options import (
    AuditOption,
    DialectChoice,
    DialectOption,
    FileArgument,
    McpFileOption,
    error_lines,
    read_document,
)


@reports_errors
@needs_graph
def serve(
    file: FileArgument,
    http: HttpOption = None,
    host: HostOption = "127.0.0.1",
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    audit: AuditOption = None,
    reload: Annotated[
        bool, typer.Option(help="Take over changes of the document while it is served.")
    ] = True,
    validate: Annotated[
        bool, typer.Option(help="Compare arguments and results with the schemas in the document.")
    ] = True,
    log_level: LogLevelOption = LogLevel.INFO,
) -> ExitCode:
    """Serve the tools of a graph document as an MCP server.

    Over standard input and output, as programs start it, or over HTTP. OTEL_EXPORTER_OTLP_ENDPOINT sends a
    span per run and node there.

    Example: knime-mcp graph serve tools.yaml --http 8080
    """
    check_journal(audit)
    gc.disable()  # a tenth of the start would be spent on looking for garbage in what is loaded now
    import anyio

    from ...graph.api import McpGraphApi
    from ...graph.execution.spans import spans_from_environment
    from ...graph.serving.reloading import Reload, serve_http, serve_stdio
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

        # Before the document is loaded: what changes from now on is seen.
        watch = Reload([file, *([mcp] if mcp else [])], load) if reload else None
        # Who asks for the old dialect gets lists of tools as its programs wrote them.
        service = GraphService(load(), output_schemas=dialect is not DialectChoice.TARGET)
        gc.enable()
        gc.freeze()  # what is there by now stays; looking for garbage in it would hold up calls
        signaled = False
        if http is None:
            signaled = anyio.run(serve_stdio, service, watch)
        else:
            anyio.run(lambda: serve_http(service, http, host=host, reload=watch, on_ready=announce))
    if signaled:
        end_now()
    return ExitCode.OK
