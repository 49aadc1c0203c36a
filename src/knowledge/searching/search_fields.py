"""Says where words were found."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ..errors import CatalogueError
from ..schema import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..catalogue import CatalogueReader
    from .search_terms import Expansion


def matched_fields(
    reader: CatalogueReader, row: int, expansions: Iterable[Expansion]
) -> tuple[str, tuple[str, ...]]:
    """The weightiest field of a node that has words of the query, and those words.

    Raises:
        CatalogueError: The catalogue is damaged.
    """
    try:
        found: tuple[str | None, ...] | None = reader.db.execute(
            f"SELECT {', '.join(FIELDS)} FROM texts WHERE row = ?",  # noqa: S608 - the names of fields
            (row,),
        ).fetchone()

    except sqlite3.DatabaseError as error:
        raise CatalogueError(
            f"The node catalogue is damaged: {error}", fix="Build it again: knime-mcp nodes build."
        ) from None
    wanted = list(expansions)
    for field, text in zip(FIELDS, found or (), strict=False):
        words = dict.fromkeys((text or "").split())
        hit = tuple(entry.word.text for entry in wanted if any(entry.closeness(word) > 0 for word in words))
        if hit:
            return field, hit
    return "", ()
