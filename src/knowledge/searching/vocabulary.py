"""Words of Excel, SQL, pandas, R, Alteryx and n8n, and the nodes that do the same in KNIME."""

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
    """The meanings of a word.

    Attributes:
        phrase: The word or words, folded.
        tool: Where they come from, such as ``Excel``.
        targets: Names or ids of nodes, the best first.
    """

    phrase: str
    tool: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """All entries.

    Attributes:
        entries: By phrase, also by phrase without its spaces.
        synonyms: Plain words that mean the same, by word.
        tools: What the words come from, as far as that is one word: ``alteryx`` in *alteryx summarize*.
        spelled: Phrases of one word, by what `spellings` makes of them.
    """

    entries: Mapping[str, Entry]
    synonyms: Mapping[str, tuple[str, ...]]
    tools: frozenset[str]
    spelled: Mapping[str, tuple[str, ...]]

    def exact(self, key: str) -> Entry | None:
        """The entry for a whole query, also when it is written in one word."""
        return self.entries.get(key) or self.entries.get(key.replace(" ", ""))

    def called(self, *keys: str) -> Entry | None:
        """The entry for one of several forms of a query, with or without the tool that it names."""
        bare = (" ".join(word for word in key.split() if word not in self.tools) for key in keys)
        return next(filter(None, map(self.exact, (*keys, *bare))), None)

    def inside(self, key: str) -> list[Entry]:
        """The entries for parts of a query.

        A word of a longer phrase that was found is not looked up again.
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
    """Reads a vocabulary. Of two tools with the same word the first one wins."""
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
        tools=frozenset(name for name in map(folded, document) if " " not in name),
        spelled=spelled,
    )
