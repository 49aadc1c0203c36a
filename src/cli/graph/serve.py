"""``knime-mcp graph serve``: the tools of a document as an MCP server."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import ExitCode, reports_errors
from ..extras import needs_graph
from ..serving import LogLevel
from ..shared_options import HostOption, HttpOption, LogLevelOption
from .options import AuditOption, DialectOption, FileArgument, McpFileOption
from .reading import DialectChoice
from .serve_document import serve_document


@reports_errors
@needs_graph
def serve(
    file: FileArgument,
    http: HttpOption = None,
    host: HostOption = "127.0.0.1",
    mcp: McpFileOption = None,
    dialect: DialectOption = DialectChoice.AUTO,
    audit: AuditOption = None,
    reload: Annotated[bool, typer.Option(help="Apply changes of the document while it is served.")] = True,
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
    return serve_document(
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
