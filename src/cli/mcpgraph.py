"""The command ``mcpgraph``: serves a graph document on stdio, as the program of that name does."""

import sys
from pathlib import Path
from typing import Annotated

from .app import until_canceled

_EXTRA = "cli,server,graph"


def main() -> None:
    """Runs ``mcpgraph`` with the arguments of this process."""
    until_canceled(_run)


def _run() -> None:
    try:
        import typer
    except ModuleNotFoundError:
        sys.exit(f"mcpgraph needs extras. Install them with: pip install 'knime-mcp[{_EXTRA}]'")
    from ..version import VERSION
    from .graph.options import DialectChoice, DialectOption
    from .graph.serve import serve

    def print_version(wanted: bool) -> None:
        if wanted:
            print(VERSION)
            raise typer.Exit

    def run(
        graph: Annotated[
            Path, typer.Option("--graph", "-g", metavar="FILE", help="The graph document.")
        ] = Path("config.yaml"),
        mcp: Annotated[
            Path | None, typer.Option("--mcp", "-m", metavar="MCP.json", help="Further servers.")
        ] = None,
        dialect: DialectOption = DialectChoice.AUTO,
        _version: Annotated[
            bool, typer.Option("--version", "-v", callback=print_version, is_eager=True, help="Show version.")
        ] = False,
    ) -> None:
        """Serve the tools of a graph document over standard input and output."""
        serve(graph, mcp=mcp, dialect=dialect)

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command()(run)
    app(prog_name="mcpgraph")


if __name__ == "__main__":
    main()
