"""What a word means: its root, and the roots of English words that often mean the same, in any language.

`meanings.toml` has the English words, `languages.toml` the German, French and Spanish ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Final

from .query_words import SAYING_NOTHING, word_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ENDINGS: Final = (
    *("ierungen", "ierung", "ieren", "iert", "ations", "ation"),
    *("ungen", "ings", "ung", "ing", "adas", "ados", "ers", "ies", "ees"),
    *("en", "er", "ed", "em", "es", "as", "os", "ar", "ir", "or", "ee", "e", "s", "y", "a", "o", "n"),
)
"""Endings of the four languages, as what somebody asks is short, and does not say in which it is."""

_SHORTEST_ROOT: Final = 4
_DOUBLED: Final = frozenset("bdgmnptlr")
_JOINTS: Final = ("", "s", "n", "en", "e", "es")
"""Linking letters between the words of a German compound: Entscheidung-s-baum."""

_UMLAUT: Final = re.compile("([aou])e")
_SHORTEST_COMPOUND: Final = 8
_SHORTEST_PART: Final = 4
_SYNONYM: Final = 0.7
_TRANSLATION: Final = 0.9
_PART: Final = 0.8
"""How close a word is to a synonym, to its translation, and to a part of it."""


def telling_words(words: Iterable[str]) -> list[str]:
    """The words, each once, without those that say nothing in any of the languages."""
    small = _small()
    return [word for word in dict.fromkeys(words) if word not in small]


@cache
def root(word: str) -> str:
    """The word without its ending: ``zeil`` for *Zeile* and *Zeilen*, ``group`` for *grouped*."""
    # Plurals such as *rows*, whose roots would be too short below.
    if len(word) == _SHORTEST_ROOT and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_ROOT:
            left = word[: -len(ending)]
            double = len(left) > _SHORTEST_ROOT and left[-1] == left[-2] and left[-1] in _DOUBLED
            return left[:-1] if double else left
    return word


@cache
def meanings(word: str) -> Mapping[str, float]:
    """The root of a word, then roots that mean the same, each with its closeness."""
    own = root(word)
    # Also with oe read as ö, of which folding has made an o.
    related = _related().get(own) or _related().get(root(_UMLAUT.sub(r"\1", word)), {})
    return {**related, own: 1.0}


def has_meaning(word: str) -> bool:
    """Whether a word means others that are known, as each word with a translation does."""
    return len(meanings(word)) > 1


def compound(word: str, known: frozenset[str]) -> tuple[str, ...]:
    """The two words that a German compound joins, whose roots are both known; empty if it joins none."""
    # A word that has a meaning of its own is not taken apart.
    if len(word) < _SHORTEST_COMPOUND or root(word) in _related():
        return ()
    for end in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        first, last = word[:end], word[end:]
        if root(last) in known:
            for joint in _JOINTS:
                part = first.removesuffix(joint)
                if first.endswith(joint) and len(part) >= _SHORTEST_PART and root(part) in known:
                    return part, last
    return ()


def meanings_with_parts(word: str, known: frozenset[str]) -> Mapping[str, float]:
    """As `meanings`, with those of the parts of a compound."""
    found = dict(meanings(word))
    for part in compound(word, known):
        for key, closeness in meanings(part).items():
            found[key] = max(found.get(key, 0.0), _PART * closeness)
    return found


@cache
def _related() -> Mapping[str, Mapping[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)

    def relate(word: str, other: str, closeness: float) -> None:
        to = found[root(word)]
        to[root(other)] = max(to.get(root(other), 0.0), closeness)

    for meant, others in word_table("meanings.toml").items():
        for other in others.split():
            relate(other, meant, _SYNONYM)
    for english, columns in word_table("languages.toml").items():
        for word in " ".join(columns).split() if english else ():
            for meant in english.split():
                relate(word, meant, _TRANSLATION)
    for own, to in list(found.items()):  # a translation means what its English word means, too
        for key, closeness in list(to.items()):
            for other, further in found.get(key, {}).items():
                if other != own:
                    to[other] = max(to.get(other, 0.0), closeness * further)
    return found


def foreign_words() -> list[str]:
    """The German, French and Spanish words that have a translation."""
    return [
        word for columns in word_table("languages.toml").values() for text in columns for word in text.split()
    ]


@cache
def _small() -> frozenset[str]:
    foreign = " ".join(word_table("languages.toml")[""]).split()
    return frozenset((*SAYING_NOTHING, *foreign)) - {"if"}
