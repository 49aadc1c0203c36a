"""The command ``mcpgraph``: serves a graph document on stdio, like the npm program of that name."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..version import VERSION
from .app import until_canceled
from .command_errors import ExitCode, exit_code, needs_graph
from .graph.graph_documents import DialectChoice, serve_document


def main() -> None:
    """Runs ``mcpgraph`` with the arguments of this process."""
    until_canceled(_run)


def _run() -> None:
    options = _parser().parse_args()
    sys.exit(exit_code(lambda: _serve(options)))


@needs_graph
def _serve(options: Namespace) -> ExitCode:
    return serve_document(options.graph, mcp=options.mcp, dialect=options.dialect)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="mcpgraph",
        description="Serve the tools of a graph document over standard input and output.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-g",
        "--graph",
        metavar="FILE",
        type=Path,
        default=Path("config.yaml"),
        help="the graph document (%(default)s)",
    )
    parser.add_argument("-m", "--mcp", metavar="MCP.json", type=Path, help="further servers")
    parser.add_argument(
        "--dialect",
        type=DialectChoice,
        choices=list(DialectChoice),
        default=DialectChoice.AUTO,
        help="how the document is written (%(default)s)",
    )
    parser.add_argument("-v", "--version", action="version", version=VERSION)
    return parser


if __name__ == "__main__":
    main()
