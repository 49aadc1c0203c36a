"""German words in a query, where the catalogue does not have them: what they are in English."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from .search_words import LONGEST_WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ENDINGS: Final = ("ungen", "ung", "en", "er", "es", "em", "e", "n", "s")
_JOINTS: Final = ("", "s", "n", "en", "e")
"""Between the words of a compound: Entscheidung-s-baum."""

_SHORTEST: Final = 3


def in_english(key: str, is_known: Callable[[str], bool]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Translates what can be, and leaves the small words out if anything was.

    Args:
        key: A folded query.
        is_known: Whether the catalogue has a word: such a word is what was meant.

    Returns:
        The query, and the words that were translated with what they are in English.
    """
    found: dict[str, str] = {}
    for word in key.split():
        english = _translated(word, is_known)
        if english not in ("", word) and not is_known(word):
            found[word] = english
    if not found:
        return key, ()
    small = _small_words()
    kept = (found.get(word, word) for word in key.split() if word in found or word not in small)
    return " ".join(kept), tuple(found.items())


def _translated(word: str, is_known: Callable[[str], bool]) -> str:
    """A word, or the words of a compound, in English; empty if it is not known."""
    whole = _english(word)
    if whole or len(word) > LONGEST_WORD:
        return whole
    for end in range(len(word) - _SHORTEST, _SHORTEST - 1, -1):
        last = _english(word[end:])
        firsts = (_english(word[:end].removesuffix(joint)) for joint in _JOINTS)
        first = next(filter(None, firsts), "")
        # One of the two may be a word of both languages: Textdatei.
        if last and not first and is_known(word[:end]):
            first = word[:end]
        if first and not last and is_known(word[end:]):
            last = word[end:]
        if first and last:
            return f"{first} {last}"
    return ""


def _english(word: str) -> str:
    words = _words()
    return words.get(word) or words.get(_stem(word), "")


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word


@cache
def _words() -> Mapping[str, str]:
    return {_stem(word): english for word, english in _read().items() if word}


@cache
def _small_words() -> frozenset[str]:
    return frozenset(_read()[""])


@cache
def _read() -> dict[str, Any]:
    text = files(__package__ or __name__).joinpath("german.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
