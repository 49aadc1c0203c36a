"""Words of other tools that mean nodes, though no node has them.

`vocabulary.toml` has words of Excel, SQL, pandas, R, Alteryx, n8n and others with the KNIME nodes that do
the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from .query_words import (
    folded,
    phrases,
    spellings,
    within_one_edit,
    word_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_SYNONYMS: Final = "synonyms"
_FUNCTIONS: Final = "functions"
_EXCEL: Final = "Excel"
LONGEST_PHRASE: Final = 4
_SHORTEST_FOR_TYPOS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWord:
    """A word or phrase of another tool, such as ``Excel``, with the nodes for it."""

    phrase: str
    tool: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    entries: Mapping[str, ForeignWord]  # by phrase, and by phrase without spaces
    functions: Mapping[str, ForeignWord]  # those of Excel by name, for formulas
    synonyms: Mapping[str, tuple[str, ...]]
    tools: tuple[str, ...]  # as ``alteryx`` in *alteryx summarize*; the longest first
    spelled: Mapping[str, tuple[str, ...]]

    def exact(self, key: str) -> ForeignWord | None:
        """The entry for a whole query, with or without its spaces."""
        return self.entries.get(key) or self.entries.get(key.replace(" ", ""))

    def knows(self, word: str) -> bool:
        return word in self.tools or self.exact(word) is not None

    def called(self, *keys: str) -> ForeignWord | None:
        """The entry for one of several forms of a query, with or without names of tools in the query."""
        return next(filter(None, map(self.exact, (*keys, *map(self.without_tools, keys)))), None)

    def without_tools(self, key: str) -> str:
        left = f" {key} "
        for tool in self.tools:
            left = left.replace(f" {tool} ", " ")
        return left.strip()

    def inside(self, key: str) -> list[ForeignWord]:
        """The entries for parts of a query.

        Words of a phrase that was found are not looked up again.
        """
        words = key.split()
        found: list[ForeignWord] = []
        left = f" {key} "
        for phrase in phrases(words, LONGEST_PHRASE):
            entry = self.entries.get(phrase)
            if entry is not None and f" {phrase} " in left:
                found.append(entry)
                left = left.replace(f" {phrase} ", " | ", 1)
        return found

    def misspelled(self, word: str) -> ForeignWord | None:
        """The entry that is one typing error away from a word."""
        if len(word) < _SHORTEST_FOR_TYPOS:
            return None
        near = {phrase for key in spellings(word) for phrase in self.spelled.get(key, ())}
        fitting = sorted(phrase for phrase in near if within_one_edit(word, phrase))
        return self.entries[fitting[0]] if fitting else None


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary that comes along. If two tools have the same word, the first tool's entry is used."""
    document: dict[str, dict[str, list[str]]] = word_table("vocabulary.toml")
    entries: dict[str, ForeignWord] = {}
    own = {name: document.pop(name, {}) for name in (_SYNONYMS, _FUNCTIONS)}
    for tool, words in document.items():
        for word, targets in words.items():
            phrase = folded(word)
            entries.setdefault(phrase, ForeignWord(phrase=phrase, tool=tool, targets=tuple(targets)))
    spelled: dict[str, tuple[str, ...]] = {}
    for phrase in entries:
        if " " not in phrase and len(phrase) >= _SHORTEST_FOR_TYPOS:
            for key in spellings(phrase):
                spelled[key] = (*spelled.get(key, ()), phrase)
    compact = {phrase.replace(" ", ""): entry for phrase, entry in entries.items()}
    return Vocabulary(
        # The phrases themselves win where one is written like another without its space.
        entries=compact | entries,
        functions={
            folded(name): ForeignWord(phrase=name, tool=_EXCEL, targets=(target,))
            for target, names in own[_FUNCTIONS].items()
            for name in names
        },
        synonyms={folded(word): tuple(others) for word, others in own[_SYNONYMS].items()},
        tools=tuple(sorted(map(folded, document), key=lambda tool: (-len(tool), tool))),
        spelled=spelled,
    )
