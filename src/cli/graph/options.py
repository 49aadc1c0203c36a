"""``knime-mcp graph``: documents that declare tools as graphs, checked, drawn and served."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import CommandError

if TYPE_CHECKING:
    from ...graph.documents.loading import CheckedDocument
    from ...graph.documents.problems import Problem
    from ...graph.model import GraphDocument


class DialectChoice(StrEnum):
    """How a document is written."""

    AUTO = "auto"
    TARGET = "target"
    NEXT = "next"


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


def read_document(
    file: Path, *, dialect: DialectChoice, mcp_file: Path | None, fill_in: bool = True
) -> CheckedDocument:
    """Reads a document for a command.

    Args:
        file: The document.
        dialect: What the person said about it.
        mcp_file: Further servers.
        fill_in: Fill in ``${NAME}`` from the environment; a missing variable is an error then.

    Returns:
        The document, if it can be served, and all problems.
    """
    import os

    from ...graph.documents.loading import check_document

    return check_document(
        file,
        dialect=None if dialect is DialectChoice.AUTO else dialect.value,
        mcp_file=mcp_file,
        environ=os.environ if fill_in else None,
    )


def usable(file: Path, checked: CheckedDocument) -> GraphDocument:
    """The document, if it has no errors.

    Raises:
        CommandError: It has; the text holds all of them.
    """
    if checked.document is None:
        raise CommandError("\n".join(error_lines(file, checked.problems)))
    return checked.document


def error_lines(file: Path, problems: tuple[Problem, ...]) -> list[str]:
    """The errors among problems, one line each."""
    from ...graph.documents.problems import Severity

    return [problem.text(str(file)) for problem in problems if problem.severity is Severity.ERROR]
