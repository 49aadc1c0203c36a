"""Full-text search: expands the words of a query, and finds the rows that have them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ..catalogue.reading import per_version
from ..words import spellings
from .search_words import QueryWord, stem, within_one_edit
from .vocabulary import vocabulary

if TYPE_CHECKING:
    from ..catalogue.reading import CatalogueReader
    from .search_words import Query

_WEIGHTS: Final = "10.0, 7.0, 3.0, 2.0, 1.0"
"""The weights of the fields, in the order of `schema.FIELDS`."""

_TELLING: Final = "{name aliases category parameters}"
"""The fields that identify a node. Descriptions also mention many other things."""

_ROWS: Final = 50
"""The largest number of rows from each part of the search. They are ranked again afterwards."""

_ENOUGH: Final = 50
"""With so many nodes that have all words, nodes with only some of the words are not searched."""

_ALL_BONUS: Final = 8.0
"""The bonus for nodes that have all words, but some of them only in the description."""

_FREQUENT: Final = 0.12
_FEW_ENOUGH: Final = 60
"""A word in more nodes than this, and in more than the share `_FREQUENT`, is not searched on its own."""

_BY_CHANCE: Final = 1_000
"""A word in fewer than one of so many nodes may be there by chance, for example from another language."""

_SHORTEST_PREFIX: Final = 2
_SHORTEST_FOR_TYPOS: Final = 4
_SHORT_PLURAL: Final = 4
"""The length of plurals such as *rows* and *keys*, which are too short for a stem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """A word of the query with its synonyms and weight.

    Attributes:
        word: The word.
        weight: The weight, which is larger for words that are rarer in this catalogue.
        synonyms: Words with the same meaning.
        frequent: Whether the word is in so many nodes that it is not searched on its own.
        seen: Cached results of `closeness`.
    """

    word: QueryWord
    weight: float = 1.0
    synonyms: tuple[str, ...] = ()
    frequent: bool = False
    seen: dict[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)

    def expression(self) -> str:
        """The FTS5 expression for the word: the word itself, words with its stem, its parts, and synonyms.

        Words consist of letters and digits only, but are quoted because of FTS5's keywords
        (https://www.sqlite.org/fts5.html#fts5_strings).
        """
        word = self.word.text
        ways = [_quoted(word)]
        if len(self.word.stem) >= _SHORTEST_PREFIX:
            ways.append(f"{_quoted(self.word.stem)}*")
        if self.word.parts:
            ways.append(f"({' AND '.join(_quoted(part) for part in self.word.parts)})")
        ways += [_quoted(other) for other in self.synonyms]
        return f"({' OR '.join(ways)})"

    def closeness(self, word: str) -> float:
        """The closeness of a node's word: 1 for the same word, less for a form, a prefix or a synonym."""
        found = self.seen.get(word)
        if found is None:
            found = self.seen[word] = self._closeness(word)
        return found

    def _closeness(self, word: str) -> float:
        own = self.word.text
        if word == own:
            return 1.0
        if word in self.word.parts:
            return 0.8
        if word in self.synonyms:
            return 0.6
        if word[0] != own[0]:
            return 0.0
        if stem(word) == self.word.stem:
            return 0.85
        if len(own) >= _SHORTEST_PREFIX and word.startswith(own):
            return 0.5 + 0.4 * len(own) / len(word)
        if word.startswith(self.word.stem) and len(self.word.stem) > _SHORTEST_FOR_TYPOS:
            return 0.5
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A row that has words of the query.

    Attributes:
        score: BM25 over weighted fields; larger is better.
        all_words: Whether name, aliases, category and parameters have all words of the query.
    """

    score: float
    all_words: bool = False


def expand(reader: CatalogueReader, word: QueryWord) -> Expansion:
    """Finds the synonyms and the weight of a word in a catalogue."""
    synonyms = vocabulary().synonyms.get(word.text, ())
    if len(word.text) == _SHORT_PLURAL and word.text.endswith("s"):
        synonyms = (*synonyms, word.text[:-1])
    nodes = len(reader)
    count = _count(reader, word)
    weight = math.log(1 + (nodes - count + 0.5) / (count + 0.5)) if count <= nodes else 0.1
    if count == 1 and not word.parts and (near := _corrected(reader, word.text)):
        synonyms = (*synonyms, near)  # the word may be a typing error that is the beginning of a rare word
    frequent = count > max(_FEW_ENOUGH, _FREQUENT * nodes)
    return Expansion(word=word, weight=weight, synonyms=synonyms, frequent=frequent)


def respelled(reader: CatalogueReader, query: Query) -> tuple[Query, dict[str, str]]:
    """Corrects typing errors: a word that is in no node is replaced by a word that differs by one letter.

    Returns:
        The query, and the replacement of each replaced word.
    """
    found: dict[str, str] = {}
    for word in query.words:
        # Words and names of other tools are not typing errors.
        if word.parts or vocabulary().knows(word.text) or _count(reader, word):
            continue
        of_another_tool = vocabulary().misspelled(word.text) if len(query.words) == 1 else None
        near = of_another_tool.phrase if of_another_tool else _corrected(reader, word.text)
        if near:
            found[word.text] = near
    if not found:
        return query, {}
    words = (
        QueryWord(text=near, stem=stem(near)) if (near := found.get(word.text)) else word
        for word in query.words
    )
    key = " ".join(found.get(word, word) for word in query.key.split())
    return replace(query, key=key, words=tuple(dict.fromkeys(words))), found


def is_word_of(reader: CatalogueReader, word: str) -> bool:
    """Returns whether so many nodes have a word that it is not there by chance."""
    return _nodes_with(reader, word) * _BY_CHANCE > len(reader)


def matches(reader: CatalogueReader, expansions: list[Expansion]) -> dict[int, Match]:
    """Searches for all words, then for any of them.

    The number of rows does not depend on the number of requested results, so that pages fit together.

    Args:
        reader: The catalogue.
        expansions: The expansions of the query's words.

    Returns:
        Matches by row.
    """
    ways = [entry.expression() for entry in expansions]
    telling = [way for way, entry in zip(ways, expansions, strict=True) if not entry.frequent] or ways
    rows = _search(reader, f"{_TELLING} : ({' AND '.join(ways)})")
    found = {row: Match(score=score, all_words=True) for row, score in rows}
    if len(ways) > 1 and len(found) < _ENOUGH:
        for row, score in _search(reader, " AND ".join(ways)):
            found.setdefault(row, Match(score=score + _ALL_BONUS))
        for row, score in _search(reader, f"{_TELLING} : ({' OR '.join(telling)})"):
            found.setdefault(row, Match(score=score))
    if len(ways) == 1 or not found:
        # In descriptions, too; frequent words only if the others are unknown.
        for row, score in _search(reader, " OR ".join(telling)) or _search(reader, " OR ".join(ways)):
            found.setdefault(row, Match(score=score))
    return found


def _count(reader: CatalogueReader, word: QueryWord) -> int:
    """The number of nodes with a word; 1 if the word is only a prefix of other words, otherwise 0."""
    if found := _nodes_with(reader, word.text):
        return found
    start = word.stem or word.text
    after = f"{start}\U0010ffff"
    return len(reader.rows("SELECT 1 FROM terms WHERE term >= ? AND term < ? LIMIT 1", start, after))


def _nodes_with(reader: CatalogueReader, word: str) -> int:
    """The number of nodes with exactly this word."""
    known = _counts_of(reader)
    if word not in known:
        rows = reader.rows("SELECT doc FROM terms WHERE term = ?", word)
        if not rows:
            return 0
        known[word] = int(rows[0][0])
    return known[word]


def _no_counts(_: CatalogueReader) -> dict[str, int]:
    return {}


_counts_of = per_version(_no_counts)
"""Caches the number of nodes by word, as counting a frequent word takes long."""


def _search(reader: CatalogueReader, expression: str) -> list[tuple[int, float]]:
    rows = reader.rows(
        f"SELECT rowid, bm25(search, {_WEIGHTS}) AS rank FROM search WHERE search MATCH ?"  # noqa: S608 - numbers
        " ORDER BY rank, rowid LIMIT ?",
        expression,
        _ROWS,
    )
    return [(row, -rank) for row, rank in rows]


def _corrected(reader: CatalogueReader, word: str) -> str:
    """The most frequent indexed word that is one typing error away; empty if there is none."""
    if len(word) < _SHORTEST_FOR_TYPOS:
        return ""
    keys = sorted(spellings(word))
    marks = ", ".join("?" * len(keys))
    statement = f"SELECT DISTINCT term, doc FROM spelling JOIN terms USING (term) WHERE key IN ({marks})"  # noqa: S608 - marks
    rows = reader.rows(statement, *keys)
    # Words with the same letters first, as people more often double or swap letters than type a wrong one.
    near = [
        (set(term) != set(word), -int(count), term) for term, count in rows if within_one_edit(word, term)
    ]
    return min(near)[2] if near and not any(term == word for *_, term in near) else ""


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
