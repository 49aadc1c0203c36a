"""The words of a text, as they are indexed, searched for, and compared."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"\w+")
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])")


def folded(text: str) -> str:
    """A text without case and accents, with one space between words, to compare names."""
    if not text.isascii():
        plain = unicodedata.normalize("NFKD", text)
        text = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return " ".join(_WORD.findall(text.casefold().replace("_", " ")))


def words_in(text: str) -> list[str]:
    """The words of a text as they are indexed: ``RowFilter`` gives ``rowfilter``, ``row`` and ``filter``."""
    return [part for word in _WORD.findall(text.replace("_", " ")) for part in _parts_of(word)]


def camel_case_parts(word: str) -> list[str]:
    """The parts of a word in CamelCase: ``RowFilter`` gives ``Row`` and ``Filter``; otherwise the word."""
    return _CAMEL_CASE.sub(" ", word).split()


@lru_cache(maxsize=50_000)  # the same words occur in many descriptions
def _parts_of(word: str) -> tuple[str, ...]:
    parts = camel_case_parts(word)
    spelled = [word, *parts] if len(parts) > 1 else [word]
    return tuple(part for entry in spelled for part in folded(entry).split())


def spellings(word: str) -> set[str]:
    """A word, and the word without each of its letters. Words that are one edit apart share one of these."""
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}
