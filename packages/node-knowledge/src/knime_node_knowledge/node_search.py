"""Finds nodes by exact names, by words of other tools, and by words in their fields.

The order is total, so the same query always has the same answer:

1. the node with exactly this name or id,
2. nodes for a word of another tool (`vocabulary`), or with this name earlier,
3. nodes by score: most of it is how well the query is one of the phrases by which people ask for the node
   (`asked_phrases`), then whether it names the node, and words in the node's fields,
4. deprecated nodes, in the same order,

and nodes that are equal in this order, by name and id.

`search` ranks. Below it, the words of a query are expanded and looked up in the full-text index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import compress, pairwise
from operator import mul
from typing import TYPE_CHECKING, Final

from .asked_phrases import asked_for, is_asked, is_unfinished, nodes_asked_with, phrase_text
from .catalogue_file import FIELDS
from .catalogue_reader import per_version
from .node_index import index_of
from .query_words import (
    LONGEST_QUERY,
    MOST_WORDS,
    QueryWord,
    compact,
    identifiers,
    parse_query,
    spellings,
    stem,
    within_one_edit,
)
from .typed_words import typed_words
from .vocabulary import vocabulary
from .word_meanings import has_meaning, telling_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .asked_phrases import Asked
    from .catalogue_reader import CatalogueReader
    from .node_index import NodeIndex
    from .node_model import NodeSummary
    from .query_words import Query
    from .vocabulary import ForeignWord


_EXACT_SCORE: Final = 100.0
_CALLED_SCORE: Final = 60.0
_LEAST_SCORE: Final = 0.01
_ASKED: Final = 120.0
"""The points of a node that is asked for in the query's own words."""

_TELLING_FIT: Final = 0.5
"""From this on, a phrase is said to be the reason for a hit."""

_FULL_TEXT: Final = 0.3
"""How much BM25 over the fields counts: it prefers short texts, and words by chance."""

_NAMED: Final = 14.0
_IN_ORDER: Final = 18.0
"""For names with words in the query's order: *String to Number* is not *Number to String*."""

_CLOSE: Final = 0.6
_OF_OTHER_TOOLS: Final = 40.0
"""For nodes that the vocabulary has for a part of the query, if it is most of it."""

_SETTING: Final = 160.0
_MOST_WITH_SETTING: Final = 25
"""For nodes with a setting whose key is in the query. A key that more nodes have tells nothing."""

_SPECIAL_LOSS: Final = 9.0
"""What nodes lose that are for a system, or of an old generation, which the query does not name."""

_ELSEWHERE_LOSS: Final = 20.0
"""What nodes of the workflow engine lose where KNIME's are called alike."""

_SPECIAL: Final = frozenset(
    """
    db spark keras dl4j dl h2o mojo snowflake pmml amazon azure google databricks tensorflow weka python r
    json xml
    hilite active giskard labs legacy experimental preview javascript widget configuration variable dictionary
    apply brat oscar abner
    """.split()  # noqa: SIM905 - words are easier to read than a list of texts
)

_OLD: Final = ("(deprecated)", "(Deprecated)", "(legacy)")
"""The ends of names that say themselves that a node is no longer in use."""

_WEIGHTS: Final = "10.0, 7.0, 3.0, 2.0, 1.0"
"""The weights of the fields, in the order of `catalogue_file.FIELDS`."""

_TELLING: Final = "{name aliases category parameters}"
"""The fields that identify a node. Descriptions also mention many other things."""

_ROWS: Final = 50
"""The largest number of rows from each part of the search. They are ranked again afterwards."""

_ENOUGH: Final = 50
"""With so many nodes that have all words, nodes with only some of the words are not searched."""

_FREQUENT: Final = 0.05
_FEW_ENOUGH: Final = 60
"""A word in more nodes than this, and in more than the share `_FREQUENT`, is not searched on its own."""

_SHORTEST_PREFIX: Final = 2
_SHORTEST_FOR_TYPOS: Final = 4
_SHORT_PLURAL: Final = 4
"""The length of plurals such as *rows* and *keys*, which are too short for a stem."""


class Tier(IntEnum):
    """The reasons for a hit, the best first."""

    EXACT = 0
    CALLED = 1
    ALL_WORDS = 2
    ANY_WORD = 3


@dataclass(slots=True, kw_only=True)
class Hit:
    node: NodeSummary
    tier: Tier
    elsewhere: bool = False  # of the workflow engine, while KNIME's nodes are called alike
    score: float  # above 0; of no hit larger than of one before it
    field: str = ""  # the one of `FIELDS` that matched, ``id``, ``vocabulary`` or ``phrase``
    words: tuple[str, ...] = ()
    phrase: int | None = None  # the number of the phrase that the query is, if it is close to one

    @property
    def order(self) -> tuple[object, ...]:
        tier = min(self.tier, Tier.ALL_WORDS)
        is_named = tier is Tier.EXACT and self.node.deprecated and self.field != "id"
        late = self.node.deprecated and self.field != "id" and not is_named
        if is_named and not self.node.name.endswith(_OLD):
            tier = Tier.ALL_WORDS  # who types an old name wants what is in use, if it is called alike
        loss = 0.0
        # *switch* is a word, of which KNIME has nodes; TRIGGER_MANUAL means one node.
        is_old_id = tier is Tier.CALLED and self.field == "aliases" and not self.words[0].isalpha()
        is_one_word = tier is not Tier.EXACT or " " not in self.node.name
        if self.elsewhere and self.field != "id" and is_one_word and not is_old_id:
            tier, loss = Tier.ALL_WORDS, _ELSEWHERE_LOSS
        return late, tier, loss - self.score, self.node.deprecated, self.node.name, self.node.id


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    hits: tuple[Hit, ...]
    total: int
    # words that were not found, with the words that were searched instead
    corrected: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] = ()  # words that are in no node, and that nobody asks with
    cut: bool = False  # whether the query was too long, so that only its beginning was used


def search(
    reader: CatalogueReader, text: str, *, limit: int = 10, offset: int = 0, node_type: str | None = None
) -> SearchAnswer:
    """Finds nodes by the query of a person or model: any text, without a syntax."""
    query = parse_query(text)
    if not query.key:
        return SearchAnswer(hits=(), total=0, cut=query.cut)
    index = index_of(reader)
    function = vocabulary().functions.get(query.formula)
    if function is not None:
        query = parse_query(query.formula)
    elif not _is_name(index, query):
        inside = filter(None, (query.formula, query.function, query.java_class))
        named = next((part for part in inside if _is_name(index, parse_query(part))), query.formula)
        query = parse_query(named) if named else query
    # What is passed to a function is compared with nothing.
    kinds = () if query.function else typed_words(query.text)
    said = kinds or [part for word in query.words for part in word.parts or (word.text,)]
    found: dict[int, Hit] = {}
    settings = _with_settings(reader, text)
    if function is None:
        _add_exact(found, index, query)
    query, corrected = respelled(reader, query)
    expansions = [expand(reader, word) for word in query.words]
    nearness = _Nearness(expansions)
    _add_called(found, index, query, function or _called(query))
    asked = asked_for(reader, _respelled_words(reader, said))
    _add_matches(found, reader, index, query, nearness, asked)
    for row, key in settings.items():
        _add_setting(found, index, row, key)
    for hit in found.values():
        hit.elsewhere = node_type is None and index.is_elsewhere(hit.node, query.terms)
    hits = sorted(
        (hit for hit in found.values() if node_type is None or hit.node.node_type == node_type),
        key=lambda hit: hit.order,
    )
    for better, hit in pairwise(hits):
        hit.score = min(hit.score, better.score)
    shown = hits[offset : offset + limit]
    _add_reasons(reader, shown, nearness)
    return SearchAnswer(
        hits=tuple(shown),
        total=len(hits),
        corrected=tuple(corrected.items()),
        unknown=()
        if hits and hits[0].tier <= Tier.CALLED
        else _unknown(reader, query, {*corrected.values(), *settings.values()}),
        cut=query.cut,
    )


def _with_settings(reader: CatalogueReader, text: str) -> dict[int, str]:
    """The nodes with a setting whose key is in a text, by row."""
    found: dict[int, str] = {}
    for key in sorted(identifiers(text[:LONGEST_QUERY]))[:MOST_WORDS]:
        rows = reader.rows("SELECT node FROM settings WHERE key = ? LIMIT ?", key, _MOST_WITH_SETTING + 1)
        if len(rows) <= _MOST_WITH_SETTING:
            found |= {row: key for (row,) in rows}
    return found


def _add_setting(found: dict[int, Hit], index: NodeIndex, row: int, key: str) -> None:
    hit = found.setdefault(row, Hit(node=index.summaries[row], tier=Tier.ANY_WORD, score=0.0))
    if hit.tier > Tier.CALLED:
        hit.score += _SETTING
        hit.field, hit.words = "parameters", (key,)


def _unknown(reader: CatalogueReader, query: Query, known_as: set[str]) -> tuple[str, ...]:
    """The words of a query that no node has and nobody asks with: what is found is not about them."""

    def is_known(word: str) -> bool:
        has = _nodes_with(reader, word) or _is_said(reader, word) or vocabulary().inside(word)
        return bool(has) or not word.isalpha()

    words = {word.text: word.parts for word in query.words if word.text not in known_as}
    return tuple(
        word
        for word in telling_words(words)
        # Of *MongoDB* the half that nodes have says nothing.
        if not is_known(word) and not (words[word] and all(map(is_known, words[word])))
    )


def _is_name(index: NodeIndex, query: Query) -> bool:
    """Returns whether this is the name of a node, or a word of another tool."""
    return bool(index.exact(query.key)) or _called(query) is not None


def _called(query: Query) -> ForeignWord | None:
    return vocabulary().called(query.key, " ".join(query.terms), query.bare)


def _add_exact(found: dict[int, Hit], index: NodeIndex, query: Query) -> None:
    for node in index.exact(query.key):
        named = query.key.replace(" ", "") == compact(node.name)
        found[node.row] = Hit(
            node=node,
            tier=Tier.EXACT,
            score=_EXACT_SCORE if query.text in (node.name, node.id) else _EXACT_SCORE - 0.5,
            field="name" if named else "id",
            words=(query.text,),
        )


def _add_called(found: dict[int, Hit], index: NodeIndex, query: Query, entry: ForeignWord | None) -> None:
    for place, node in enumerate(index.old(query.key)):
        hit = Hit(
            node=node, tier=Tier.CALLED, score=_EXACT_SCORE - 1 - place, field="aliases", words=(query.text,)
        )
        found.setdefault(node.row, hit)
    if entry is None:
        return
    meant = (node for target in entry.targets for node in index.targets(target))
    for place, node in enumerate(meant):
        hit = Hit(
            node=node,
            tier=Tier.CALLED,
            score=_CALLED_SCORE - place,
            field="vocabulary",
            words=(f"{entry.phrase} ({entry.tool})",),
        )
        found.setdefault(node.row, hit)


def _add_matches(
    found: dict[int, Hit],
    reader: CatalogueReader,
    index: NodeIndex,
    query: Query,
    nearness: _Nearness,
    asked: dict[int, Asked],
) -> None:
    expansions = nearness.expansions
    bonus = _bonus_of_parts(index, query, expansions)
    for row, entry in asked.items():
        bonus[row] = bonus.get(row, 0.0) + _ASKED * entry.points
    full_text = matches(reader, expansions)
    for row in bonus.keys() | full_text.keys():
        if row in found:
            continue
        node, name, match = index.summaries[row], index.name_words(row), full_text.get(row, _NO_MATCH)
        score = bonus.get(row, 0.0) + _FULL_TEXT * match.score + _points_of_name(name, nearness)
        special = _SPECIAL.intersection(name)
        if special and not any(nearness[word] for word in special):
            score -= _SPECIAL_LOSS
        tier = Tier.ALL_WORDS if match.all_words else Tier.ANY_WORD
        phrase = asked[row].phrase if row in asked and asked[row].fit >= _TELLING_FIT else None
        found[row] = Hit(node=node, tier=tier, score=score, phrase=phrase)


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
                points = _OF_OTHER_TOOLS * share / (1 + 0.25 * place)
                bonus[node.row] = bonus.get(node.row, 0.0) + points
    return bonus


def _points_of_name(name: tuple[str, ...], nearness: _Nearness) -> float:
    """Points for the overlap of name and query, and for several words of the query in the same order."""
    near = [found for word in name if (found := nearness[word])]
    if not near:
        return 0.0
    asked = sum(map(mul, map(max, *(found.closeness for found in near), nearness.none), nearness.weights))
    named = sum(found.closest for found in near)
    places = [place for found in near for place in found.close_to]
    is_in_order = len(set(places)) > 1 and places == sorted(places)
    coverage = (asked / nearness.total) * (0.6 + 0.4 * named / len(name))
    return _NAMED * coverage + _IN_ORDER * is_in_order


def _add_reasons(reader: CatalogueReader, hits: list[Hit], nearness: _Nearness) -> None:
    for hit in hits:
        hit.score = max(round(hit.score, 2), _LEAST_SCORE)
        if not hit.words:
            field, words = _matched_field(reader, hit.node.row, nearness)
            if hit.phrase is not None and field != "name":
                field, words = "phrase", (phrase_text(reader, hit.phrase),)
            hit.field, hit.words = (field, words) if words else (hit.field or "description", ())


def _matched_field(reader: CatalogueReader, row: int, nearness: _Nearness) -> tuple[str, tuple[str, ...]]:
    """The first of `FIELDS` in which a node has words of the query, and these words."""
    columns = ", ".join(FIELDS)
    for texts in reader.rows(f"SELECT {columns} FROM texts WHERE row = ?", row):  # noqa: S608 - names of fields
        for name, text in zip(FIELDS, texts, strict=True):
            near = [found for word in set(text.split()) if (found := nearness[word])]
            if near:
                fits = map(any, zip(*(found.closeness for found in near), strict=True))
                return name, tuple(compress((e.word.text for e in nearness.expansions), fits))
    return "", ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """A word of the query with its synonyms and weight."""

    word: QueryWord
    weight: float = 1.0  # larger for words that are rarer in this catalogue
    synonyms: tuple[str, ...] = ()
    frequent: bool = False  # in so many nodes that it is not searched on its own

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
        own = self.word.text
        if word == own:
            return 1.0
        if word in self.word.parts:
            return 0.8
        if word in self.synonyms:
            return 0.6
        # Nearly all words end here, without the search for a stem.
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
class _Near:
    """A word of a node that is close to words of the query."""

    closeness: tuple[float, ...]  # to each of them
    closest: float
    close_to: tuple[int, ...]  # the places of those to which it is `_CLOSE`


class _Nearness(dict[str, "_Near | None"]):
    """Whether words of nodes are close to those of one query. Each is compared once: many nodes have it."""

    def __init__(self, expansions: list[Expansion]) -> None:
        super().__init__()
        self.expansions = expansions
        self.weights = [expansion.weight for expansion in expansions]
        self.total = sum(self.weights) or 1.0
        self.none = (0.0,) * len(expansions)

    def __missing__(self, word: str) -> _Near | None:
        closeness = tuple(expansion.closeness(word) for expansion in self.expansions)
        close_to = tuple(place for place, value in enumerate(closeness) if value >= _CLOSE)
        near = _Near(closeness=closeness, closest=max(closeness), close_to=close_to)
        found = self[word] = near if any(closeness) else None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMatch:
    score: float  # BM25 over weighted fields; larger is better
    all_words: bool = False  # whether name, aliases, category and parameters have all words of the query


_NO_MATCH: Final = NodeMatch(score=0.0)


def expand(reader: CatalogueReader, word: QueryWord) -> Expansion:
    """Finds the synonyms and the weight of a word in a catalogue."""
    synonyms = vocabulary().synonyms.get(word.text, ())
    if len(word.text) == _SHORT_PLURAL and word.text.endswith("s"):
        synonyms = (*synonyms, word.text[:-1])
    nodes = len(reader)
    count = _count(reader, word)
    # As BM25 weighs words: https://www.sqlite.org/fts5.html#the_bm25_function
    weight = math.log(1 + (nodes - count + 0.5) / (count + 0.5)) if count <= nodes else 0.1
    if count == 1 and not word.parts and (near := _corrected(reader, word.text)):
        synonyms = (*synonyms, near)  # the word may be a typing error that is the beginning of a rare word
    frequent = count > max(_FEW_ENOUGH, _FREQUENT * nodes)
    return Expansion(word=word, weight=weight, synonyms=synonyms, frequent=frequent)


def respelled(reader: CatalogueReader, query: Query) -> tuple[Query, dict[str, str]]:
    """Corrects typing errors: a word that is in no node is replaced by a word that differs by one letter.

    Returns the query, and the replacement of each replaced word.
    """
    found: dict[str, str] = {}
    for word in query.words:
        # Words and names of other tools are not typing errors.
        if word.parts or vocabulary().knows(word.text) or _count(reader, word) or _is_said(reader, word.text):
            continue
        of_another_tool = vocabulary().misspelled(word.text) if len(query.words) == 1 else None
        near = of_another_tool.phrase if of_another_tool else _meant(reader, word.text)
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


def _respelled_words(reader: CatalogueReader, words: Iterable[str]) -> list[str]:
    """The words, with typing errors corrected in those that nobody asks with."""

    def respelled(word: str) -> str:
        if not word.isalpha() or word.isupper() or _is_said(reader, word):
            return word
        return _meant(reader, word) or word

    return [respelled(word) for word in words]


def _is_said(reader: CatalogueReader, word: str) -> bool:
    """Whether a word is right as it is, in any of the languages."""
    return has_meaning(word) or is_asked(reader, word)


def _meant(reader: CatalogueReader, word: str) -> str:
    near = _corrected(reader, word)
    if is_unfinished(reader, word) and (len(near) <= len(word) or near.startswith(word)):
        return ""  # it counts as the beginning that it is, unless a letter within is missing
    return near


def matches(reader: CatalogueReader, expansions: list[Expansion]) -> dict[int, NodeMatch]:
    """Searches for all words, then for any of them; returns matches by row.

    The number of rows does not depend on the number of requested results, so that pages fit together.
    """
    ways = [entry.expression() for entry in expansions]
    telling = [way for way, entry in zip(ways, expansions, strict=True) if not entry.frequent] or ways
    rows = _search(reader, f"{_TELLING} : ({' AND '.join(ways)})")
    found = {row: NodeMatch(score=score, all_words=True) for row, score in rows}
    if len(ways) > 1 and len(found) < _ENOUGH:
        for row, score in _search(reader, f"{_TELLING} : ({' OR '.join(telling)})"):
            found.setdefault(row, NodeMatch(score=score))
    if len(ways) == 1 or not found:
        # In descriptions, too; frequent words only if the others are unknown.
        for row, score in _search(reader, " OR ".join(telling)) or _search(reader, " OR ".join(ways)):
            found.setdefault(row, NodeMatch(score=score))
    return found


def _count(reader: CatalogueReader, word: QueryWord) -> int:
    """The number of nodes with a word; 1 if the word is only a prefix of other words, otherwise 0."""
    if found := _nodes_with(reader, word.text):
        return found
    start = word.stem or word.text
    after = f"{start}\U0010ffff"
    return len(reader.rows("SELECT 1 FROM terms WHERE term >= ? AND term < ? LIMIT 1", start, after))


def _nodes_with(reader: CatalogueReader, word: str) -> int:
    known = _counts_of(reader)
    if word not in known:
        rows = reader.rows("SELECT doc FROM terms WHERE term = ?", word)
        if not rows:
            return 0
        known[word] = int(rows[0][0])
    return known[word]


_counts_of: Callable[[CatalogueReader], dict[str, int]] = per_version(lambda _: {})
"""Caches the number of nodes by word, as counting a frequent word takes long."""


def _search(reader: CatalogueReader, expression: str) -> list[tuple[int, float]]:
    rows = reader.rows(
        f"SELECT rowid, bm25(search, {_WEIGHTS}) AS rank FROM search WHERE search MATCH ?"  # noqa: S608 - numbers
        " ORDER BY rank, rowid LIMIT ?",
        expression,
        _ROWS,
    )
    # FTS5's ranks are better the smaller they are.
    return [(row, -rank) for row, rank in rows]


def _corrected(reader: CatalogueReader, word: str) -> str:
    """The most frequent indexed word that is one typing error away; empty if there is none."""
    if len(word) < _SHORTEST_FOR_TYPOS:
        return ""
    keys = sorted(spellings(word))
    marks = ", ".join("?" * len(keys))
    rows = reader.rows(f"SELECT DISTINCT term FROM spelling WHERE key IN ({marks})", *keys)  # noqa: S608 - marks
    terms = [term for (term,) in rows if within_one_edit(word, term)]
    if not terms or word in terms:
        return ""
    # Words with the same letters first, as people more often double or swap letters than type a wrong one.
    return min(
        terms,
        key=lambda term: (
            set(term) != set(word),
            -_nodes_with(reader, term),
            -nodes_asked_with(reader, term),
            term,
        ),
    )


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
