"""What is wrong with a file, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str | int, ...]
"""Keys and indices from the top of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in a file: line and column from 1, and the keys and indices that lead to it."""

    line: int
    column: int
    path: Path = ()

    @property
    def key_path(self) -> str:
        return key_path(self.path)


def key_path(path: Path) -> str:
    """Writes keys and indices as a path for people: ``tools[0].nodes[2].next``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


class Severity(StrEnum):
    """The severity of a problem.

    Attributes:
        ERROR: The file cannot be used.
        WARNING: The file can be used, but is probably not what its author meant.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem of a file.

    Attributes:
        message: The problem in words.
        position: Its place, or None.
        severity: Its severity.
        fix: The next step, or None.
        file: Name of the file if it is not the one that everybody speaks of.
    """

    message: str
    position: Position | None
    severity: Severity = Severity.ERROR
    fix: str | None = None
    file: str | None = None

    def text(self, file: str) -> str:
        """Place, severity, message, key path and fix, for people; `file` is the name of the file."""
        position = self.position
        where = self.file or file
        if position is not None:
            where = f"{where}:{position.line}:{position.column}"
        path = f" (at {position.key_path})" if position is not None and position.path else ""
        fix = f". {self.fix.removesuffix('.')}" if self.fix else ""
        end = "." if fix and not fix.endswith("?") else ""
        return f"{where}: {self.severity.value}: {self.message}{path}{fix}{end}"


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


class YamlError(Exception):
    """The text cannot be read.

    Attributes:
        problems: All problems that were found; the last one ended the reading.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(_short(problem) for problem in self.problems))


def _short(problem: Problem) -> str:
    return f"line {problem.position.line if problem.position else '?'}: {problem.message}"
