"""Mistakes in a text, with their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake in a text.

    Attributes:
        what: What it is, in words.
        line: Where it stands, from 1.
        column: Likewise.
        path: The keys and indices that lead there, as far as they are known.
        fix: What to do, or None.
    """

    what: str
    line: int
    column: int
    path: tuple[str | int, ...] = ()
    fix: str | None = None


class YamlError(Exception):
    """A text that cannot be read.

    Args:
        mistakes: Everything that was found; the last one is why reading ended.

    Attributes:
        mistakes: The same.
    """

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"line {mistake.line}: {mistake.what}" for mistake in self.mistakes))
