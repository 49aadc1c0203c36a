"""The demo's node knowledge server: like ``knime-mcp nodes serve --http 0`` without a built catalogue.

Runs as a separate process, ``python -m knime_mcp.cli.demo.nodes_server``. Like the demo's other server it
prints one line with its URL as soon as it listens, and ends when its standard input closes.
"""

import json
import signal
from contextlib import suppress

import anyio

from ...knowledge.catalogue_reader import Catalogue
from ...knowledge.mcp_server import ServedTools, serve_http
from ...knowledge.node_service import NodeKnowledgeMCPService
from ..nodes.node_catalogue import catalogue_that_comes_along
from .processes import when_stdin_closes


def serve() -> None:
    """Serves until standard input closes."""
    when_stdin_closes(lambda: signal.raise_signal(signal.SIGINT))
    with Catalogue(catalogue_that_comes_along()) as catalogue, suppress(KeyboardInterrupt):
        tools = ServedTools(NodeKnowledgeMCPService(catalogue))
        anyio.run(
            lambda: serve_http(tools, 0, on_ready=lambda url: print(json.dumps({"url": url}), flush=True))
        )


if __name__ == "__main__":
    serve()
