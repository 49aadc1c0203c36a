"""``knime-mcp graph``: documents that declare tools as graphs, checked, drawn and served."""

from pathlib import Path
from typing import Annotated

import typer

from .reading import DialectChoice

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A graph document (YAML).")]
DialectOption = Annotated[
    DialectChoice,
    typer.Option(
        help="How the document is written: 'target' (conditions have a target, arguments that begin with $"
        " are expressions) or 'next' (conditions have a next, expressions are written {expr: ...})."
    ),
]
McpFileOption = Annotated[
    Path | None,
    typer.Option(
        "--mcp", "-m", metavar="MCP.json", help="Further servers; those of the document win on a clash."
    ),
]

AuditOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="Add a record of each call that a graph makes to this journal."),
]
