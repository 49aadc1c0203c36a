"""``knime-mcp nodes serve``: serves node knowledge as an MCP server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ExitCode, reports_errors
from ..extras import needs_server
from ..serving import LogLevel, announce, end_now, log_to_stderr
from ..shared_options import HostOption, HttpOption, LogLevelOption
from ..terminal import complain
from .catalogue import CatalogueOption, open_catalogue, tell_origin

if TYPE_CHECKING:
    from ...knowledge.catalogue_reader import Catalogue


@reports_errors
@needs_server
def serve(
    http: HttpOption = None,
    host: HostOption = "127.0.0.1",
    log_level: LogLevelOption = LogLevel.WARNING,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """Serve node knowledge as an MCP server, for agents and for KNIME's MCP Tool Provider.

    Over standard input and output, as programs start it, or over HTTP. It needs no database, no key and no
    network. A catalogue that is built anew while it is served is taken over with the next question.

    Example: knime-mcp nodes serve --http 8080
    """
    log_to_stderr(log_level, "[%(levelname)s] %(name)s: %(message)s")
    with open_catalogue(catalogue) as opened:
        signaled = _serve(opened, http=http, host=host)
    if signaled:
        end_now()
    return ExitCode.OK


def _serve(opened: Catalogue, *, http: int | None, host: str) -> bool:
    import anyio

    from ...knowledge.mcp_server import LOOPBACK, ServedTools, serve_http, serve_stdio
    from ...knowledge.node_service import NodeKnowledgeMCPService

    tools = ServedTools(NodeKnowledgeMCPService(opened))
    if http is None:
        return anyio.run(serve_stdio, tools)
    tell_origin(opened.origin)
    if host not in LOOPBACK:
        complain(
            f"Everybody who reaches {host} can read this catalogue, and nothing is encrypted. Put a proxy"
            " with TLS and access control in front of it."
        )
    anyio.run(lambda: serve_http(tools, http, host=host, on_ready=announce))
    return False
