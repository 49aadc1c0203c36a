"""The problems of a document, each with its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ...types.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..nodes import Position


class Severity(StrEnum):
    """The severity of a problem.

    Attributes:
        ERROR: The document cannot be served.
        WARNING: The document can be served, but is probably not what its author meant.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem of a document.

    Attributes:
        message: The problem in words.
        position: Its place, or None.
        severity: Its severity.
        fix: The next step, or None.
        file: Name of the file if it is not the document itself.
    """

    message: str
    position: Position | None
    severity: Severity = Severity.ERROR
    fix: str | None = None
    file: str | None = None

    def text(self, file: str) -> str:
        """The problem as text for people: place, severity, message, key path and fix.

        Args:
            file: Name of the document.
        """
        position = self.position
        where = self.file or file
        if position is not None:
            where = f"{where}:{position.line}:{position.column}"
        path = f" (at {position.key_path})" if position is not None and position.path else ""
        fix = f". {self.fix.removesuffix('.')}" if self.fix else ""
        end = "." if fix and not fix.endswith("?") else ""
        return f"{where}: {self.severity.value}: {self.message}{path}{fix}{end}"


class DocumentError(MCPError):
    """A document cannot be served.

    Args:
        file: Name of the document.
        problems: All its problems, including warnings.

    Attributes:
        problems: All its problems, including warnings, in the order of the file.
    """

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = sorted_problems(problems)
        errors = [problem for problem in self.problems if problem.severity is Severity.ERROR]
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        lines = "\n".join(f"  {problem.text(file)}" for problem in errors)
        super().__init__(f"{file} cannot be used because of {count}:\n{lines}")


def sorted_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems in the order of the file, each once."""
    return tuple(
        sorted(
            dict.fromkeys(problems),
            key=lambda problem: (
                problem.file or "",
                (problem.position.line, problem.position.column) if problem.position else (0, 0),
            ),
        )
    )
