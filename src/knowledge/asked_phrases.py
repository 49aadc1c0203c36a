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
from typing import TYPE_CHECKING, Final

from .catalogue_reader import per_version
from .query_words import MOST_WORDS
from .word_meanings import compound, meanings_with_parts, root, telling_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
_FREQUENT: Final = 300
"""A key in more phrases is looked up only in phrases that rarer words of the query have found."""

_MOST_NODES: Final = 60
Place = tuple[int, float, float]
"""Where a key is in a phrase: the position, its closeness, and its share of the phrase's weight."""


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
        self._places: dict[str, dict[int, list[Place]]] = {}

    def places(self, reader: CatalogueReader, key: str) -> Mapping[int, Sequence[Place]]:
        """Where a key is, by phrase."""
        if key not in self.roots:
            return {}
        if key not in self._places:
            ((listed,),) = reader.rows("SELECT places FROM asked WHERE key = ?", key)
            found: dict[int, list[Place]] = defaultdict(list)
            for phrase, position, closeness, share in json.loads(listed):
                found[phrase].append((position, closeness, share))
            self._places[key] = dict(found)
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


def is_unfinished(reader: CatalogueReader, word: str) -> bool:
    return bool(_phrases(reader).beginning_with(word))


def asked_for(reader: CatalogueReader, words: Iterable[str]) -> dict[int, Asked]:
    """How well the words of a query ask for nodes, by row, for those that they ask for best."""
    index = _phrases(reader)
    total = 0.0
    asked: dict[int, float] = defaultdict(float)  # by phrase
    together: dict[int, float] = defaultdict(float)  # by row
    covered: dict[int, float] = {}  # by position in a phrase
    for weight, keys in sorted(_weighted(reader, index, words), key=lambda entry: -entry[0]):
        total += weight
        in_row: dict[int, float] = {}
        for phrase, closeness in _closest(reader, index, keys, asked, covered).items():
            asked[phrase] += weight * closeness
            row = index.row_of[phrase]
            if closeness > in_row.get(row, 0.0):
                in_row[row] = closeness
        for row, closeness in in_row.items():
            together[row] += weight * closeness
    shares: dict[int, float] = defaultdict(float)
    for place, share in covered.items():
        shares[place // LONGEST_PHRASE] += share
    best: dict[int, tuple[float, int]] = {}
    for phrase, found in asked.items():
        fit = (found / total) ** _OF_THE_QUERY * shares[phrase] ** _OF_THE_PHRASE
        row = index.row_of[phrase]
        if row not in best or fit > best[row][0]:
            best[row] = fit, phrase
    found = {
        row: Asked(
            fit=fit,
            together=together[row] / total,
            phrase=phrase,
            often=index.often[row] / index.most,
        )
        for row, (fit, phrase) in best.items()
    }
    ranked = sorted(found, key=lambda row: (-found[row].points, row))
    return {row: found[row] for row in ranked[:_MOST_NODES]}


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
        yield index.weight(len(reader), root(word), keys), keys


def _closest(
    reader: CatalogueReader,
    index: _Phrases,
    keys: Mapping[str, float],
    known: Mapping[int, float],
    covered: dict[int, float],
) -> dict[int, float]:
    """The closeness of a word to each phrase that has one of its keys; notes which places are covered."""
    best: dict[int, float] = {}
    for key, closeness in keys.items():
        places = index.places(reader, key)
        for phrase in places.keys() & known.keys() if known and len(places) > _FREQUENT else places:
            for position, near, share in places[phrase]:
                value = closeness * near
                if value > best.get(phrase, 0.0):
                    best[phrase] = value
                place = phrase * LONGEST_PHRASE + position
                if value * share > covered.get(place, 0.0):
                    covered[place] = value * share
    return best
