"""Finds nodes by exact names, by words of other tools, and by words in their fields.

The order is total, so the same query always has the same answer:

1. the node with exactly this name or id,
2. nodes for a word of another tool (`vocabulary`), or with this name earlier,
3. nodes that have all words, then nodes that have some of them, each by score,
4. deprecated nodes, in the same order,

and nodes that are equal in this order, by name and id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from ..catalogue.file_format import FIELDS
from ..words import folded
from .languages import in_english
from .search_index import index_of
from .search_terms import Expansion, expand, is_word_of, matches, respelled
from .search_words import SAYING_NOTHING, parse_query
from .vocabulary import vocabulary

if TYPE_CHECKING:
    from ..catalogue.reading import CatalogueReader
    from ..model import NodeSummary
    from .search_index import NodeIndex
    from .search_words import Query

_EXACT_SCORE: Final = 100.0
_CALLED_SCORE: Final = 60.0
_LEAST_SCORE: Final = 0.01
_NAME_BONUS: Final = 14.0
_RELATED_BONUS: Final = 16.0
"""The bonus for a node whose name has the query's words in other forms: *Column Rename*, Column Renamer."""

_ORDER_BONUS: Final = 6.0
"""The bonus for names with words in the query's order: *String to Number* is not *Number to String*."""

_CLOSE: Final = 0.6
_PART_BONUS: Final = 24.0


class Tier(IntEnum):
    """The reasons for a hit, the best first."""

    EXACT = 0
    CALLED = 1
    ALL_WORDS = 2
    ANY_WORD = 3


@dataclass(slots=True, kw_only=True)
class Hit:
    """A node that was found.

    Attributes:
        node: The summary of the node.
        tier: The reason for the hit.
        score: A number above 0, larger for better hits; comparable within one answer.
        field: The field that matched: ``name``, ``id``, ``aliases``, ``category``, ``parameters``,
            ``description`` or ``vocabulary``.
        words: The words that matched in that field.
    """

    node: NodeSummary
    tier: Tier
    score: float
    field: str = ""
    words: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[object, ...]:
        """The sort key of hits."""
        late = self.node.deprecated and self.tier is not Tier.EXACT
        return late, self.tier, -self.score, self.node.deprecated, self.node.name, self.node.id


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """The result of a search.

    Attributes:
        hits: The hits on this page, the best first.
        total: The number of hits on all pages.
        corrected: Words that were not found, with the words that were searched instead.
        cut: Whether the query was too long, so that only its beginning was used.
    """

    hits: tuple[Hit, ...]
    total: int
    corrected: tuple[tuple[str, str], ...] = ()
    cut: bool = False


def search(
    reader: CatalogueReader, text: str, *, limit: int = 10, offset: int = 0, node_type: str | None = None
) -> SearchAnswer:
    """Finds nodes.

    Args:
        reader: The catalogue.
        text: The query of a person or model: any text, without a syntax.
        limit: The largest number of hits.
        offset: The number of hits to skip.
        node_type: Only nodes of this type.

    Returns:
        The hits, always in the same order.
    """
    query = parse_query(text)
    if not query.key:
        return SearchAnswer(hits=(), total=0, cut=query.cut)
    index = index_of(reader)
    instead: dict[str, str] = {}
    if not _is_name(index, query.key) and _is_name(index, query.function):
        query = parse_query(query.function)
    if not _is_name(index, query.key):
        english, instead = in_english(query.key, lambda word: is_word_of(reader, word))
        if english != query.key:
            query = parse_query(english)
    found: dict[int, Hit] = {}
    _add_exact(found, index, query)
    query, corrected = respelled(reader, query)
    expansions = [expand(reader, word) for word in query.words]
    _add_called(found, index, query)
    _add_matches(found, reader, index, query, expansions)
    hits = sorted(
        (hit for hit in found.values() if node_type is None or hit.node.node_type == node_type),
        key=lambda hit: hit.order,
    )
    shown = hits[offset : offset + limit]
    _add_reasons(reader, shown, expansions)
    return SearchAnswer(
        hits=tuple(shown),
        total=len(hits),
        corrected=(*instead.items(), *corrected.items()),
        cut=query.cut,
    )


def _is_name(index: NodeIndex, key: str) -> bool:
    """Returns whether this is the name of a node, or a word of another tool."""
    return bool(key) and (bool(index.exact(key)) or vocabulary().exact(key) is not None)


def _add_exact(found: dict[int, Hit], index: NodeIndex, query: Query) -> None:
    for node in index.exact(query.key):
        named = query.key.replace(" ", "") == folded(node.name).replace(" ", "")
        found[node.row] = Hit(
            node=node,
            tier=Tier.EXACT,
            score=_EXACT_SCORE if query.text in (node.name, node.id) else _EXACT_SCORE - 0.5,
            field="name" if named else "id",
            words=(query.text,),
        )


def _add_called(found: dict[int, Hit], index: NodeIndex, query: Query) -> None:
    for place, node in enumerate(index.old(query.key)):
        hit = Hit(
            node=node, tier=Tier.CALLED, score=_EXACT_SCORE - 1 - place, field="aliases", words=(query.text,)
        )
        found.setdefault(node.row, hit)
    entry = vocabulary().called(query.key, " ".join(query.terms), query.bare)
    if entry is None:
        return
    place = 0
    for target in entry.targets:
        for node in index.targets(target):
            hit = Hit(
                node=node,
                tier=Tier.CALLED,
                score=_CALLED_SCORE - place,
                field="vocabulary",
                words=(f"{entry.phrase} ({entry.tool})",),
            )
            found.setdefault(node.row, hit)
            place += 1


def _add_matches(
    found: dict[int, Hit],
    reader: CatalogueReader,
    index: NodeIndex,
    query: Query,
    expansions: list[Expansion],
) -> None:
    bonus = _bonus_of_parts(index, query, expansions)
    for row, match in matches(reader, expansions).items():
        if row in found:
            continue
        name = index.name_words(row)
        score = match.score + _NAME_BONUS * _name_coverage(name, expansions) + bonus.pop(row, 0.0)
        score += _RELATED_BONUS * _is_same_name(name, expansions)
        score += _ORDER_BONUS * _is_in_order(name, expansions)
        tier = Tier.ALL_WORDS if match.all_words else Tier.ANY_WORD
        found[row] = Hit(node=index.summaries[row], tier=tier, score=score)
    for row, score in bonus.items():
        if row not in found:
            found[row] = Hit(node=index.summaries[row], tier=Tier.ANY_WORD, score=score, field="vocabulary")


def _bonus_of_parts(index: NodeIndex, query: Query, expansions: list[Expansion]) -> dict[int, float]:
    """Points by row for nodes that the vocabulary has for parts of the query, more for larger parts."""
    bonus: dict[int, float] = {}
    weights = {expansion.word.text: expansion.weight for expansion in expansions}
    total = sum(weights.values())
    for entry in vocabulary().inside(query.key):
        words = entry.phrase.split()
        share = max(
            len(words) / len(query.key.split()), sum(weights.get(word, 0.0) for word in words) / total
        )
        for place, target in enumerate(entry.targets):
            for node in index.targets(target):
                points = _PART_BONUS * share / (1 + 0.25 * place)
                bonus[node.row] = bonus.get(node.row, 0.0) + points
    return bonus


def _name_coverage(name: tuple[str, ...], expansions: list[Expansion]) -> float:
    """The overlap of name and query: 1 if each word of one is in the other."""
    if not name or not expansions:
        return 0.0
    table = [[expansion.closeness(word) for word in name] for expansion in expansions]
    asked = sum(max(row) * expansion.weight for row, expansion in zip(table, expansions, strict=True))
    total = sum(expansion.weight for expansion in expansions) or 1.0
    named = sum(max(column) for column in zip(*table, strict=True))
    return (asked / total) * (0.6 + 0.4 * named / len(name))


def _is_same_name(name: tuple[str, ...], expansions: list[Expansion]) -> bool:
    """Returns whether name and query have the same words in order, in any form, or synonyms of them."""
    telling = [word for word in name if word not in SAYING_NOTHING]
    return len(telling) == len(expansions) and all(
        entry.closeness(word) >= _CLOSE for entry, word in zip(expansions, telling, strict=True)
    )


def _is_in_order(name: tuple[str, ...], expansions: list[Expansion]) -> bool:
    """Returns whether several words of the query are in a name, in the same order."""
    places = [
        place for word in name for place, entry in enumerate(expansions) if entry.closeness(word) >= _CLOSE
    ]
    return len(set(places)) > 1 and places == sorted(places)


def _add_reasons(reader: CatalogueReader, hits: list[Hit], expansions: list[Expansion]) -> None:
    for hit in hits:
        hit.score = max(round(hit.score, 2), _LEAST_SCORE)
        if not hit.words:
            field, words = _matched_field(reader, hit.node.row, expansions)
            hit.field, hit.words = (field, words) if words else (hit.field or "description", ())


def _matched_field(
    reader: CatalogueReader, row: int, expansions: list[Expansion]
) -> tuple[str, tuple[str, ...]]:
    """The first of `FIELDS` in which a node has words of the query, and these words."""
    columns = ", ".join(FIELDS)
    for texts in reader.rows(f"SELECT {columns} FROM texts WHERE row = ?", row):  # noqa: S608 - names of fields
        for field, text in zip(FIELDS, texts, strict=True):
            words = set(text.split())
            found = tuple(e.word.text for e in expansions if any(e.closeness(word) > 0 for word in words))
            if found:
                return field, found
    return "", ()
