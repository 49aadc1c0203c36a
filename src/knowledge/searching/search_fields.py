"""Says where words were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schema import FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..catalogue import CatalogueReader
    from .search_terms import Expansion


def matched_fields(
    reader: CatalogueReader, row: int, expansions: Sequence[Expansion]
) -> tuple[str, tuple[str, ...]]:
    """The weightiest field of a node that has words of the query, and those words.

    Raises:
        CatalogueError: The catalogue is damaged.
    """
    columns = ", ".join(FIELDS)
    for texts in reader.rows(f"SELECT {columns} FROM texts WHERE row = ?", row):  # noqa: S608 - names of fields
        for field, text in zip(FIELDS, texts, strict=True):
            words = set(str(text).split())
            hit = tuple(
                entry.word.text for entry in expansions if any(entry.closeness(word) > 0 for word in words)
            )
            if hit:
                return field, hit
    return "", ()
