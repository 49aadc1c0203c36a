"""German, French and Spanish words in a query: what they are in English, unless the catalogue has them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from .search_words import LONGEST_WORD, MOST_WORDS, SAYING_NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ENDINGS: Final = (
    ("ungen", "ung", "en", "er", "es", "em", "e", "n", "s"),
    ("ees", "ee", "es", "er", "ez", "e", "s"),
    ("adas", "ados", "ada", "ado", "as", "os", "es", "ar", "er", "ir", "a", "e", "o", "s"),
)
"""Of German, French and Spanish words: the columns of the table."""

_JOINTS: Final = ("", "s", "n", "en", "e")
"""Between the words of a German compound: Entscheidung-s-baum."""

_SHORTEST: Final = 3
_TELLING_SMALL: Final = 3
"""So many small words that English has not say which language it is, if no other word does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    """What a language calls things.

    Attributes:
        endings: Of its words, the longest first.
        words: What words are in English, by their stems.
        small: Words without which a question says the same.
    """

    endings: tuple[str, ...]
    words: Mapping[str, str]
    small: frozenset[str]

    def explained(self, words: list[str], translated: Mapping[str, str]) -> int:
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
        """A word, or the words of a compound, in English; empty if it is not known."""
        whole = self._english(word)
        if whole or len(word) > LONGEST_WORD:
            return whole
        for end in range(len(word) - _SHORTEST, _SHORTEST - 1, -1):
            last = self._english(word[end:])
            firsts = (self._english(word[:end].removesuffix(joint)) for joint in _JOINTS)
            first = next(filter(None, firsts), "")
            # One of the two may be a word of both languages: Textdatei.
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
    """Translates what can be, and leaves the small words of the language out.

    Args:
        key: A folded query.
        is_known: Whether the catalogue has a word: such a word is what was meant.

    Returns:
        The query, and the words that were translated with what they are in English.
    """
    words = key.split()
    choices = [(language, language.translations(words, is_known)) for language in _languages()]
    spoken, found = max(choices, key=lambda choice: choice[0].explained(words, choice[1]))
    if not spoken.explained(words, found):
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
    text = files(__package__ or __name__).joinpath("languages.toml").read_text(encoding="utf-8")
    table: dict[str, list[str]] = tomllib.loads(text)
    small = table.pop("")
    return tuple(
        _Language(
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
