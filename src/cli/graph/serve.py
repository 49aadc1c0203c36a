"""``knime-mcp graph serve``: the tools of a document as an MCP server."""

from __future__ import annotations

import gc
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import CommandError, ExitCode, reports_errors
from ..extras import needs_graph
from ..serving import HostOption, HttpOption, LogLevel, LogLevelOption, announce, end_now, log_to_stderr
from .options import DialectChoice, DialectOption, FileArgument, McpFileOption, error_lines, read_document
from .running import AuditOption, opened_journal

if TYPE_CHECKING:
    from pathlib import Path

    from ...audit.journal import Journal
    from ...graph.api import McpGraphApi
    from ...graph.execution.spans import Spans


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
    signaled = serve_document(
        file,
        http=http,
        host=host,
        mcp=mcp,
        dialect=dialect,
        audit=audit,
        reload=reload,
        validate=validate,
        log_level=log_level,
    )
    if signaled:
        end_now()
    return ExitCode.OK


def serve_document(
    file: Path,
    *,
    http: int | None,
    host: str,
    mcp: Path | None,
    dialect: DialectChoice,
    audit: Path | None,
    reload: bool,
    validate: bool,
    log_level: LogLevel,
) -> bool:
    """Serves a document until its client goes or a signal comes; says whether a signal ended it on stdio.

    Raises:
        CommandError: The document cannot be served; says everything that is wrong with it.
    """
    gc.disable()  # a tenth of the start would be spent on looking for garbage in what is loaded now
    import anyio

    from ...graph.execution.spans import spans_from_environment
    from ...graph.serving.reloading import Reload, serve_http, serve_stdio
    from ...graph.serving.service import GraphService

    log_to_stderr(log_level, "[%(levelname)s] %(message)s")
    for noisy in ("httpx", "httpcore", "mcp", "uvicorn", "opentelemetry"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with ExitStack() as stack:
        stack.callback(gc.enable)
        journal = stack.enter_context(opened_journal(audit, f"knime-mcp graph serve {file.name}"))
        spans = spans_from_environment()
        if spans is not None:
            stack.callback(spans.close)

        def load() -> McpGraphApi:
            return _api(file, mcp, dialect, journal, spans, validate=validate)

        # Before the document is loaded: what changes from now on is seen.
        watch = Reload([file, *([mcp] if mcp else [])], load) if reload else None
        # Who asks for the old dialect gets lists of tools as its programs wrote them.
        service = GraphService(load(), output_schemas=dialect is not DialectChoice.TARGET)
        gc.enable()
        gc.freeze()  # what is there by now stays; looking for garbage in it would hold up calls
        if http is None:
            return anyio.run(serve_stdio, service, watch)
        anyio.run(lambda: serve_http(service, http, host=host, reload=watch, on_ready=announce))
        return False


def _api(
    file: Path,
    mcp: Path | None,
    dialect: DialectChoice,
    journal: Journal | None,
    spans: Spans | None,
    *,
    validate: bool,
) -> McpGraphApi:
    from ...graph.api import McpGraphApi

    checked = read_document(file, dialect=dialect, mcp_file=mcp)
    if checked.document is None:
        raise CommandError("\n".join(f"[ERROR] {line}" for line in error_lines(file, checked.problems)))
    return McpGraphApi(checked.document, journal=journal, spans=spans, check_schemas=validate)
