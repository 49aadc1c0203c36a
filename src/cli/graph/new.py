"""``knime-mcp graph new``: a document to start with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import CommandError, ExitCode, reports_errors
from ..extras import needs_graph
from ..files import check_output, writing
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

    check_output(file)
    if file.exists() and not force:
        raise CommandError(f"{file} exists. Choose another name, or replace it with --force.")
    with writing(file):
        file.write_text(STARTER, encoding="utf-8")
    note(f"Wrote {file}. Next: knime-mcp graph check {file}")
    return ExitCode.OK
