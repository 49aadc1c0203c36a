"""``knime-mcp graph serve``: the tools of a document as an MCP server."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import CommandError, ExitCode, reports_errors
from .extra import needs_graph
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
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help="Serve over HTTP on this port (0: any) instead of stdin and stdout."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on with --http.")] = "127.0.0.1",
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    audit: AuditOption = None,
    reload: Annotated[
        bool, typer.Option(help="Take over changes of the document while it is served.")
    ] = True,
    validate: Annotated[
        bool, typer.Option(help="Compare arguments and results with the schemas in the document.")
    ] = True,
    log_level: Annotated[
        str, typer.Option(help="debug, info, warning or error; to standard error.")
    ] = "info",
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
        # A thread still waits for a line on standard input, and would keep the process alive.
        logging.shutdown()
        sys.stderr.flush()
        os._exit(ExitCode.OK)
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
    log_level: str,
) -> bool:
    """Serves a document until its client goes or a signal comes; says whether a signal ended it on stdio.

    Raises:
        CommandError: The document cannot be served; says everything that is wrong with it.
    """
    import anyio

    from ...graph.execution.spans import spans_from_environment
    from ...graph.serving.reloading import Reload, serve_http, serve_stdio
    from ...graph.serving.server import GraphServer

    logging.basicConfig(stream=sys.stderr, level=log_level.upper(), format="[%(levelname)s] %(message)s")
    for noisy in ("httpx", "httpcore", "mcp", "uvicorn", "watchfiles", "opentelemetry"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with ExitStack() as stack:
        journal = stack.enter_context(opened_journal(audit, f"knime-mcp graph serve {file.name}"))
        spans = spans_from_environment()
        if spans is not None:
            stack.callback(spans.close)

        def load() -> McpGraphApi:
            return _api(file, mcp, dialect, journal, spans, validate=validate)

        # Who asks for the old dialect gets lists of tools as its programs wrote them.
        served = GraphServer(load(), output_schemas=dialect is not DialectChoice.TARGET)
        watch = Reload([file, *([mcp] if mcp else [])], load) if reload else None
        if http is None:
            return anyio.run(serve_stdio, served, watch)
        anyio.run(lambda: serve_http(served, http, host=host, reload=watch, on_ready=_announce))
        return False


def _announce(url: str) -> None:
    print(f"Serving at {url}", file=sys.stderr, flush=True)


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
