"""Words that mean nodes, though no node has them: those of other tools, and of other languages.

`vocabulary.toml` has words of Excel, SQL, pandas, R, Alteryx, n8n and others with the KNIME nodes that do
the same; `languages.toml` German, French and Spanish words in English, for words that no node has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from .query_words import (
    LONGEST_WORD,
    MOST_WORDS,
    SAYING_NOTHING,
    folded,
    phrases,
    spellings,
    within_one_edit,
    word_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_SYNONYMS: Final = "synonyms"
_FUNCTIONS: Final = "functions"
_EXCEL: Final = "Excel"
LONGEST_PHRASE: Final = 4
_SHORTEST_FOR_TYPOS: Final = 5

_ENDINGS: Final = (
    ("ungen", "ung", "en", "er", "es", "em", "e", "n", "s"),
    ("ees", "ee", "es", "er", "ez", "e", "s"),
    ("adas", "ados", "ada", "ado", "as", "os", "es", "ar", "er", "ir", "a", "e", "o", "s"),
)
"""The endings of German, French and Spanish words, in the order of the columns in the table."""

_GERMAN: Final = 0
_UMLAUT: Final = re.compile("([aou])e")
_JOINTS: Final = ("", "s", "n", "en", "e")
"""Linking letters between the words of a German compound: Entscheidung-s-baum."""

_SHORTEST: Final = 3
_TELLING_SMALL: Final = 3
"""The number of small words (which English does not have) that identify a language on their own."""

_ENGLISH_AROUND: Final = 2
"""With so many words of the catalogue beside it, a single word that looks French or Spanish is English."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    has_compounds: bool  # words are joined to longer words, and umlauts may be written with two letters
    endings: tuple[str, ...]
    words: Mapping[str, str]
    small: frozenset[str]  # words without a meaning for the search

    def count_of(self, words: list[str], translated: Mapping[str, str]) -> int:
        """Counts the words that belong to this language; the language with the most words wins."""
        small = sum(word in self.small and word not in SAYING_NOTHING for word in words)
        return len(translated) + small if translated or small >= _TELLING_SMALL else 0

    def translations(self, words: list[str], is_known: Callable[[str], bool]) -> dict[str, str]:
        """Translates the words that the catalogue does not have into English."""
        found = {word: self._translated(word, is_known) for word in words[: 2 * MOST_WORDS]}
        return {
            word: english
            for word, english in found.items()
            if english not in ("", word) and not is_known(word)
        }

    def _translated(self, word: str, is_known: Callable[[str], bool]) -> str:
        """The English translation of a word or compound; empty if there is none."""
        if not self.has_compounds:
            return self._english(word)
        # Also with oe read as ö, of which folding has made an o.
        spellings = dict.fromkeys((word, _UMLAUT.sub(r"\1", word)))
        ways = (self._english(spelled) or self._compound(spelled, is_known) for spelled in spellings)
        return next(filter(None, ways), "")

    def _compound(self, word: str, is_known: Callable[[str], bool]) -> str:
        if len(word) > LONGEST_WORD:
            return ""
        for end in range(len(word) - _SHORTEST, _SHORTEST - 1, -1):
            last = self._english(word[end:])
            firsts = (self._english(word[:end].removesuffix(joint)) for joint in _JOINTS)
            first = next(filter(None, firsts), "")
            # One of the two parts may be an English word, too: Textdatei.
            if last and not first and is_known(word[:end]):
                first = word[:end]
            if first and not last and is_known(word[end:]):
                last = word[end:]
            if first and last:
                return f"{first} {last}"
        return ""

    def _english(self, word: str) -> str:
        return self.words.get(word) or self.words.get(_stem(word, self.endings), "")


def in_english(key: str, is_known: Callable[[str], bool]) -> tuple[str, dict[str, str]]:
    """Translates the known words of a query into English, and removes small words of its language.

    Words that the catalogue knows are not translated. Returns the query, and the translation of each word.
    """
    words = key.split()
    choices = [(language, language.translations(words, is_known)) for language in _languages()]
    spoken, found = max(choices, key=lambda choice: choice[0].count_of(words, choice[1]))
    if not spoken.count_of(words, found) or (
        # One word among English ones is English, such as *demand*, which looks like French for a request.
        not spoken.has_compounds
        and spoken.count_of(words, found) == 1
        and sum(map(is_known, words)) >= _ENGLISH_AROUND
    ):
        return key, {}
    kept = (found.get(word, word) for word in words if word in found or word not in spoken.small)
    return " ".join(kept) or key, found


def _stem(word: str, endings: tuple[str, ...]) -> str:
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word


@cache
def _languages() -> tuple[_Language, ...]:
    table: dict[str, list[str]] = word_table("languages.toml")
    small = table.pop("")
    return tuple(
        _Language(
            has_compounds=at == _GERMAN,
            endings=endings,
            words={
                _stem(word, endings): english
                for english, columns in table.items()
                for word in columns[at].split()
            },
            small=frozenset(small[at].split()),
        )
        for at, endings in enumerate(_ENDINGS)
    )
