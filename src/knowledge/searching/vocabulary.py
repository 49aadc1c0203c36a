"""Words of Excel, SQL, pandas, R, Alteryx and n8n, with the KNIME nodes that do the same."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from ..words import folded, spellings
from .search_words import phrases, within_one_edit

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYNONYMS: Final = "synonyms"
LONGEST_PHRASE: Final = 4
_SHORTEST_FOR_TYPOS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A word or phrase of another tool, with the nodes for it.

    Attributes:
        phrase: The folded word or phrase.
        tool: The tool that has the word, such as ``Excel``.
        targets: Names or ids of nodes, the best first.
    """

    phrase: str
    tool: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The entries and synonyms.

    Attributes:
        entries: The entries by phrase, and by phrase without spaces.
        synonyms: The synonyms of ordinary words.
        tools: The names of tools, as ``alteryx`` in *alteryx summarize*.
        spelled: Phrases of one word, by each of their `spellings`.
    """

    entries: Mapping[str, Entry]
    synonyms: Mapping[str, tuple[str, ...]]
    tools: frozenset[str]
    spelled: Mapping[str, tuple[str, ...]]

    def exact(self, key: str) -> Entry | None:
        """The entry for a whole query, with or without its spaces."""
        return self.entries.get(key) or self.entries.get(key.replace(" ", ""))

    def knows(self, word: str) -> bool:
        """Returns whether a word is an entry or the name of a tool."""
        return word in self.tools or self.exact(word) is not None

    def called(self, *keys: str) -> Entry | None:
        """The entry for one of several forms of a query, with or without names of tools in the query."""
        return next(filter(None, map(self.exact, (*keys, *map(self.without_tools, keys)))), None)

    def without_tools(self, key: str) -> str:
        """A query without names of tools."""
        left = f" {key} "
        for tool in self.tools:
            left = left.replace(f" {tool} ", " ")
        return left.strip()

    def inside(self, key: str) -> list[Entry]:
        """The entries for parts of a query.

        Words of a phrase that was found are not looked up again.
        """
        words = key.split()
        found: list[Entry] = []
        left = f" {key} "
        for phrase in phrases(words, LONGEST_PHRASE):
            entry = self.entries.get(phrase)
            if entry is not None and f" {phrase} " in left:
                found.append(entry)
                left = left.replace(f" {phrase} ", " | ", 1)
        return found

    def misspelled(self, word: str) -> Entry | None:
        """The entry that is one typing error away from a word."""
        if len(word) < _SHORTEST_FOR_TYPOS:
            return None
        near = {phrase for key in spellings(word) for phrase in self.spelled.get(key, ())}
        fitting = sorted(phrase for phrase in near if within_one_edit(word, phrase))
        return self.entries[fitting[0]] if fitting else None


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary that comes with this program."""
    text = files(__package__ or __name__).joinpath("vocabulary.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> Vocabulary:
    """Reads a vocabulary. If two tools have the same word, the first tool's entry is used."""
    document: dict[str, dict[str, list[str]]] = tomllib.loads(text)
    entries: dict[str, Entry] = {}
    for tool, words in document.items():
        if tool == _SYNONYMS:
            continue
        for word, targets in words.items():
            phrase = folded(word)
            entries.setdefault(phrase, Entry(phrase=phrase, tool=tool, targets=tuple(targets)))
    synonyms = {folded(word): tuple(others) for word, others in document.get(_SYNONYMS, {}).items()}
    spelled: dict[str, tuple[str, ...]] = {}
    for phrase in entries:
        if " " not in phrase and len(phrase) >= _SHORTEST_FOR_TYPOS:
            for key in spellings(phrase):
                spelled[key] = (*spelled.get(key, ()), phrase)
    compact = {phrase.replace(" ", ""): entry for phrase, entry in entries.items()}
    return Vocabulary(
        entries=compact | entries,
        synonyms=synonyms,
        tools=frozenset(map(folded, document.keys() - {_SYNONYMS})),
        spelled=spelled,
    )
