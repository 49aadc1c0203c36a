"""The phrases by which people ask for nodes, as the tables of a catalogue that `asked_phrases` reads.

Those of KNIME's nodes are in ``packs/knime-words.toml``, written by hand; every node also has its name, its
aliases and keywords, and its summary.
"""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from ..asked_phrases import LONGEST_PHRASE, rarity
from ..node_index import is_engines
from ..packs import WORDS
from ..query_words import compact, folded
from ..typed_words import typed_words
from ..word_meanings import meanings_with_parts, root, telling_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..node_model import NodeSpec

_LANGUAGES: Final = ("en", "de", "fr", "es")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWords:
    summary: str
    phrases: tuple[str, ...]
    category: str  # which the node's has to contain, where several nodes have the name


@cache
def _words_by_name() -> Mapping[str, Sequence[NodeWords]]:
    found: dict[str, list[NodeWords]] = defaultdict(list)
    for key, entry in tomllib.loads(WORDS.read_text("utf-8")).items():
        name, _, category = key.partition("@")
        listed = ";".join(entry.get(language, "") for language in _LANGUAGES).split(";")
        phrases = tuple(phrase.strip() for phrase in listed if phrase.strip())
        words = NodeWords(summary=entry.get("is", ""), phrases=phrases, category=category)
        found[compact(name)].insert(0 if category else len(found[compact(name)]), words)
    return found


def words_of(node: NodeSpec) -> NodeWords | None:
    """Our own words for a node of KNIME, by its name."""
    named = _words_by_name().get(compact(node.name), ())
    place = " / ".join(node.category)
    return next((words for words in named if words.category in place), None)


def phrase_tables(nodes: Sequence[NodeSpec]) -> tuple[list[tuple[int, int, str]], list[tuple[str, int, str]]]:
    """The rows of the tables ``phrases`` and ``asked``; nodes have the rows from 1."""
    phrases = [(row, phrase) for row, node in enumerate(nodes, 1) for phrase in _phrases_of(node)]
    read = (typed_words(phrase) or folded(phrase).split() for _, phrase in phrases)
    split = [telling_words(words)[:LONGEST_PHRASE] for words in read]
    known = frozenset(root(word) for words in split for word in words)
    every = {word: meanings_with_parts(word, known) for words in split for word in words}
    rows: dict[str, set[int]] = defaultdict(set)
    for (row, _), words in zip(phrases, split, strict=True):
        for word in words:
            for key in every[word]:
                rows[key].add(row)
    places: dict[str, list[tuple[int, int, float, float]]] = defaultdict(list)
    for number, words in enumerate(split):
        weights = [rarity(len(nodes), len(rows[root(word)])) for word in words]
        for position, (word, weight) in enumerate(zip(words, weights, strict=True)):
            for key, closeness in every[word].items():
                places[key].append((number, position, round(closeness, 3), round(weight / sum(weights), 4)))
    return (
        [(number, row, phrase) for number, (row, phrase) in enumerate(phrases)],
        [(key, len(rows[key]), json.dumps(found, separators=(",", ":"))) for key, found in places.items()],
    )


def _phrases_of(node: NodeSpec) -> Iterable[str]:
    words = None if is_engines(node) or node.deprecated else words_of(node)
    own = words.phrases if words else ()
    said = (node.name, *node.aliases, *node.keywords, *node.tags, *own, node.short_description)
    return dict.fromkeys(filter(None, said))
