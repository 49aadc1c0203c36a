"""Reads graph documents for commands."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from ..errors import CommandError

if TYPE_CHECKING:
    from pathlib import Path

    from ...graph.documents.loading import CheckedDocument
    from ...graph.model import GraphDocument
    from ...yaml_text import Problem


class DialectChoice(StrEnum):
    """The values of ``--dialect``."""

    AUTO = "auto"
    TARGET = "target"
    NEXT = "next"


def read_document(
    file: Path, *, dialect: DialectChoice, mcp_file: Path | None, fill_in: bool = True
) -> CheckedDocument:
    """Reads a document for a command.

    Args:
        file: The document.
        dialect: The option ``--dialect``.
        mcp_file: A file with further servers.
        fill_in: Whether to fill in ``${NAME}`` from the environment; a missing variable is an error then.

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
    """Returns the document if it has no errors.

    Raises:
        CommandError: The document has errors; the text contains all of them.
    """
    if checked.document is None:
        raise CommandError("\n".join(error_lines(file, checked.problems)))
    return checked.document


def error_lines(file: Path, problems: tuple[Problem, ...]) -> list[str]:
    """The errors among problems, one line each."""
    from ...yaml_text import Severity

    return [problem.text(str(file)) for problem in problems if problem.severity is Severity.ERROR]
