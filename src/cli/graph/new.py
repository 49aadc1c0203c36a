"""``knime-mcp graph new``: a document to start with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..exits import CommandError, ExitCode, reports_errors
from ..extras import needs_graph
from ..terminal import note


@reports_errors
@needs_graph
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("graph.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> ExitCode:
    """Write a graph document to start with: commented, and it runs as it is.

    Example: knime-mcp graph new tools.yaml
    """
    from ...graph.documents.starter import STARTER

    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(STARTER)
    except FileExistsError:
        raise CommandError(f"{file} exists. Choose another name, or replace it with --force.") from None
    note(f"Wrote {file}. Next: knime-mcp graph check {file}")
    return ExitCode.OK
