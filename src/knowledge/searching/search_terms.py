"""Full-text search: what the words of a query may stand for in a catalogue, and the rows that have them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ..catalogue import per_version
from ..words import spellings
from .search_words import QueryWord, stem, within_one_edit
from .vocabulary import vocabulary

if TYPE_CHECKING:
    from ..catalogue import CatalogueReader
    from .search_words import Query

_WEIGHTS: Final = "10.0, 7.0, 3.0, 2.0, 1.0"
"""Of the fields, in the order of `schema.FIELDS`: name, aliases, category, parameters, description."""

_TELLING: Final = "{name aliases category parameters}"
"""The fields that say what a node is. Descriptions mention much else."""

_ROWS: Final = 50
"""Rows that each part of the search brings at most. They are ranked again afterwards."""

_ENOUGH: Final = 50
"""So many nodes with all words, and none with only some of them is looked for."""

_FEW: Final = 10
"""Fewer nodes than these, and descriptions are searched for any word as well."""

_ALL_BONUS: Final = 8.0
"""For nodes that have all words, but some in the description only."""

_FREQUENT: Final = 0.12
_FEW_ENOUGH: Final = 60
"""A word that more nodes than these, and more than this share of all, have finds nothing by itself."""

_BY_CHANCE: Final = 1_000
"""A word of another language may be in one of so many nodes."""

_SHORTEST_PREFIX: Final = 2
_SHORTEST_FOR_TYPOS: Final = 4
_SHORT_PLURAL: Final = 4
"""*Rows* and *keys*: without the ending they are too short for a stem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """A word of the query and what it may stand for.

    Attributes:
        word: The word.
        weight: The rarer it is in this catalogue, the more it says.
        synonyms: Words that mean the same.
        frequent: So many nodes have it that it finds nothing by itself.
        seen: Results of `closeness`.
    """

    word: QueryWord
    weight: float = 1.0
    synonyms: tuple[str, ...] = ()
    frequent: bool = False
    seen: dict[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)

    def expression(self) -> str:
        """The word for FTS5: itself, what begins like it, and what means the same.

        Words hold letters and digits only, and are quoted all the same
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


@dataclass(slots=True, kw_only=True)
class Match:
    """A row that has words of the query.

    Attributes:
        score: BM25 over weighted fields; larger is better.
        all_words: It has all of them in its name, aliases, category or parameters.
        phrase: They stand together in its name or its aliases.
    """

    score: float
    all_words: bool = False
    phrase: bool = False


def expand(reader: CatalogueReader, word: QueryWord) -> Expansion:
    """Finds what a word may stand for in a catalogue."""
    synonyms = vocabulary().synonyms.get(word.text, ())
    if len(word.text) == _SHORT_PLURAL and word.text.endswith("s"):
        synonyms = (*synonyms, word.text[:-1])
    nodes = len(reader)
    count = _count(reader, word)
    weight = math.log(1 + (nodes - count + 0.5) / (count + 0.5)) if count <= nodes else 0.1
    if count == 1 and not word.parts and (near := _corrected(reader, word.text)):
        synonyms = (*synonyms, near)  # the beginning of a rare word may be a common one, misspelled
    frequent = count > max(_FEW_ENOUGH, _FREQUENT * nodes)
    return Expansion(word=word, weight=weight, synonyms=synonyms, frequent=frequent)


def respelled(reader: CatalogueReader, query: Query) -> tuple[Query, dict[str, str]]:
    """A query without typing errors: words that are in no node are replaced by those one letter away.

    Returns:
        The query, and the words that were replaced with those that replace them.
    """
    found: dict[str, str] = {}
    for word in query.words:
        # A word that another tool has is no typing error.
        if word.parts or vocabulary().exact(word.text) or _count(reader, word):
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
    """Returns whether more nodes have a word than could by chance."""
    return _nodes_with(reader, word) * _BY_CHANCE > len(reader)


def matches(reader: CatalogueReader, query: Query, expansions: list[Expansion]) -> dict[int, Match]:
    """Searches for all words, then for any of them.

    How far it looks does not depend on how many results are wanted, so that pages of results fit together.

    Args:
        reader: The catalogue.
        query: The query.
        expansions: Of its words.

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
    if len(found) < _FEW:
        for row, score in _search(reader, " OR ".join(telling)):
            found.setdefault(row, Match(score=score))
    if len(query.words) > 1:
        together = " ".join(_quoted(entry.word.text) for entry in expansions)
        phrase = f"{{name aliases}} : ({' + '.join(together.split())})"
        for row, _ in _search(reader, phrase):
            if row in found:
                found[row].phrase = True
    return found


def _count(reader: CatalogueReader, word: QueryWord) -> int:
    """The number of nodes with a word; 1 if it is only a prefix of others, 0 if not even that."""
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
"""In how many nodes words are, as far as queries had them: counting a frequent word takes long."""


def _search(reader: CatalogueReader, expression: str) -> list[tuple[int, float]]:
    rows = reader.rows(
        f"SELECT rowid, bm25(search, {_WEIGHTS}) AS rank FROM search WHERE search MATCH ?"  # noqa: S608 - numbers
        " ORDER BY rank, rowid LIMIT ?",
        expression,
        _ROWS,
    )
    return [(row, -rank) for row, rank in rows]


def _corrected(reader: CatalogueReader, word: str) -> str:
    """The word of names, aliases, categories and parameters that is one typing error away, or nothing."""
    if len(word) < _SHORTEST_FOR_TYPOS:
        return ""
    keys = sorted(spellings(word))
    marks = ", ".join("?" * len(keys))
    statement = f"SELECT DISTINCT term, doc FROM spelling JOIN terms USING (term) WHERE key IN ({marks})"  # noqa: S608 - marks
    rows = reader.rows(statement, *keys)
    # People double letters, and swap them, more often than they take a wrong one.
    near = [
        (set(term) != set(word), -int(count), term) for term, count in rows if within_one_edit(word, term)
    ]
    return min(near)[2] if near and not any(term == word for *_, term in near) else ""


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
