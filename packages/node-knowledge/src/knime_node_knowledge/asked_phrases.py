"""What people ask for when they need a node: phrases, and how well a query is one of them, in any order.

`sources.phrase_tables` writes them into a catalogue, by the meanings of their words. `asked_for` compares: a
phrase fits as well as it covers the query, and the query covers it.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from .catalogue_reader import per_version
from .query_words import MOST_WORDS
from .word_meanings import compound, meanings_with_parts, root, telling_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .catalogue_reader import CatalogueReader

_OF_THE_QUERY: Final = 0.6
_OF_THE_PHRASE: Final = 0.4
"""How much it counts that the query is covered, and that the phrase is."""

_TOGETHER: Final = 0.5
"""How much it counts that the words are somewhere in a node's phrases, beside its best phrase."""

_OFTEN: Final = 0.1
"""How much it counts that a node is often needed. Of such nodes there is more to say."""

_UNKNOWN: Final = 2.5
"""The weight of a word that is in no phrase: less than that of a rare one, as it tells nothing."""

_BEGINNING: Final = 0.7
"""How close an unknown word is to one that begins with it."""

_SHORTEST_BEGINNING: Final = 3
_MOST_ENDINGS: Final = 4
LONGEST_PHRASE: Final = 32
_KIND: Final = 2.0
"""How much more a kind of thing (`typed_words`) tells than a word: who compares needs a filter for rows."""

_COMPARED: Final = 60
"""So many nodes, those whose phrases have most of the query's words, have each of their phrases compared."""

Place = tuple[int, int, float, float]
"""Where a key is: the phrase, the position in it, its closeness, and its share of the phrase's weight."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a key is in the phrases of nodes, by row."""

    nearest: dict[int, float]  # the closeness of the closest
    listed: dict[int, list[Place]]


_NOWHERE: Final = _Places({}, {})
_AskedWords = list[tuple[float, list[tuple[float, _Places]]]]
"""The words of a query: the weight of each, and where its keys are, each with its closeness to the word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How well a query asks for a node."""

    fit: float  # of its best phrase, 1 if it is the query
    together: float  # the share of the query's words that are in any of its phrases
    phrase: int  # the number of its best phrase
    often: float  # the share of the phrases of the node with the most: it is more often needed than others

    @property
    def points(self) -> float:
        return self.fit + _TOGETHER * self.together + _OFTEN * self.often


def rarity(nodes: int, having: int) -> float:
    """The weight of a word that so many of the nodes have."""
    return math.log(1 + (nodes - having + 0.5) / (having + 0.5))


class _Phrases:
    """The phrases of one version of a catalogue; the places of a key are read when it is first asked for."""

    def __init__(self, reader: CatalogueReader) -> None:
        self.row_of: list[int] = [row for (row,) in reader.rows("SELECT row FROM phrases ORDER BY id")]
        self.often = Counter(self.row_of)
        self.most = max(self.often.values(), default=1)
        self.nodes_with: dict[str, int] = dict(reader.rows("SELECT key, nodes FROM asked"))
        self.roots = frozenset(self.nodes_with)
        self._in_order = sorted(self.roots)
        self._places: dict[str, _Places] = {}

    def places(self, reader: CatalogueReader, key: str) -> _Places:
        if key not in self.roots:
            return _NOWHERE
        if key not in self._places:
            # Read key by key, as a query has few of them.
            ((text,),) = reader.rows("SELECT places FROM asked WHERE key = ?", key)
            listed: dict[int, list[Place]] = defaultdict(list)
            for phrase, position, closeness, share in json.loads(text):
                listed[self.row_of[phrase]].append((phrase, position, closeness, share))
            nearest = {row: max(place[2] for place in places) for row, places in listed.items()}
            self._places[key] = _Places(nearest, dict(listed))
        return self._places[key]

    def beginning_with(self, word: str) -> list[str]:
        """The first roots that begin with a word, as people leave words unfinished."""
        first = bisect_left(self._in_order, word)
        found = self._in_order[first : first + _MOST_ENDINGS]
        return [key for key in found if key.startswith(word) and len(word) >= _SHORTEST_BEGINNING]

    def weight(self, nodes: int, own: str, keys: Iterable[str]) -> float:
        """The weight of a word of a query: by its own root, or else by the most frequent of its meanings."""
        having = self.nodes_with.get(own) or max((self.nodes_with.get(key, 0) for key in keys), default=0)
        return rarity(nodes, having) if having else _UNKNOWN


_phrases: Final = per_version(_Phrases)


def is_asked(reader: CatalogueReader, word: str) -> bool:
    """Returns whether a word is in a phrase, in any form, or as a compound of such words."""
    index = _phrases(reader)
    return root(word) in index.roots or bool(compound(word, index.roots))


def nodes_asked_with(reader: CatalogueReader, word: str) -> int:
    """The number of nodes with a word in their phrases, in any form."""
    return _phrases(reader).nodes_with.get(root(word), 0)


def is_unfinished(reader: CatalogueReader, word: str) -> bool:
    return bool(_phrases(reader).beginning_with(word))


def asked_for(reader: CatalogueReader, words: Iterable[str]) -> dict[int, Asked]:
    """How well the words of a query ask for nodes, by row, for those that they ask for best."""
    index = _phrases(reader)
    asked = [
        (weight, [(closeness, index.places(reader, key)) for key, closeness in keys.items()])
        for weight, keys in _weighted(reader, index, words)
    ]
    total = sum(weight for weight, _ in asked)
    together: dict[int, float] = {}  # how much of the query, by row
    for weight, keys in asked:
        closest: dict[int, float] = {}
        for closeness, places in keys:
            for row, near in places.nearest.items():
                if closeness * near > closest.get(row, 0.0):
                    # Of several meanings of a word the closest counts, and not their sum.
                    closest[row] = closeness * near
        for row, closeness in closest.items():
            together[row] = together.get(row, 0.0) + weight * closeness
    found: dict[int, Asked] = {}
    for row in nlargest(_COMPARED, together, key=lambda row: (together[row], index.often[row])):
        fit, phrase = _best_phrase(row, asked, total)
        often = index.often[row] / index.most
        found[row] = Asked(fit=fit, together=together[row] / total, phrase=phrase, often=often)
    return found


def _best_phrase(row: int, asked: _AskedWords, total: float) -> tuple[float, int]:
    """How well the best phrase of a node is the query, and which that is."""
    having: dict[int, float] = defaultdict(float)  # how much of the query, by phrase
    covered: dict[tuple[int, int], float] = {}  # how much of a phrase's weight, by phrase and position
    for weight, keys in asked:
        closest: dict[int, float] = {}
        for closeness, places in keys:
            for phrase, position, near, share in places.listed.get(row, ()):
                value = closeness * near
                if value > closest.get(phrase, 0.0):
                    closest[phrase] = value
                if value * share > covered.get((phrase, position), 0.0):
                    covered[phrase, position] = value * share
        for phrase, value in closest.items():
            having[phrase] += weight * value
    shares: dict[int, float] = defaultdict(float)
    for (phrase, _), share in covered.items():
        shares[phrase] += share
    fit, last = max(
        (
            ((having[phrase] / total) ** _OF_THE_QUERY * shares[phrase] ** _OF_THE_PHRASE, -phrase)
            for phrase in having
        ),
    )
    return fit, -last


def phrase_text(reader: CatalogueReader, phrase: int) -> str:
    ((text,),) = reader.rows("SELECT text FROM phrases WHERE id = ?", phrase)
    return text


def _weighted(
    reader: CatalogueReader, index: _Phrases, words: Iterable[str]
) -> Iterator[tuple[float, Mapping[str, float]]]:
    """The weight of each telling word, and the keys under which it is looked up, with their closeness."""
    for word in telling_words(words)[:MOST_WORDS]:
        keys = meanings_with_parts(word, index.roots)
        if root(word) not in index.roots:
            keys = {**dict.fromkeys(index.beginning_with(word), _BEGINNING), **keys}
        weight = index.weight(len(reader), root(word), keys)
        # Only kinds of things are in capitals.
        yield weight * _KIND if word.isupper() else weight, keys
