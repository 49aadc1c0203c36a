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
        what: The message.
        line: Line of the mistake, from 1.
        column: Column of the mistake, from 1.
        path: The keys and indices of its place, as far as they are known.
        fix: The next step, or None.
    """

    what: str
    line: int
    column: int
    path: tuple[str | int, ...] = ()
    fix: str | None = None


class YamlError(Exception):
    """The text cannot be read.

    Args:
        mistakes: All mistakes that were found; the last one ended the reading.

    Attributes:
        mistakes: All mistakes that were found.
    """

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"line {mistake.line}: {mistake.what}" for mistake in self.mistakes))
