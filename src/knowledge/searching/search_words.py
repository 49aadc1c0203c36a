"""Splits a query into words, without a catalogue, and tells what it may be as a whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..words import camel_case_parts, folded, words_in

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_WORDS: Final = 24
"""More words say nothing more about which node is wanted, but cost time."""

LONGEST_WORD: Final = 64
LONGEST_QUERY: Final = 4_000
"""Characters that are looked at; no name or question is that long."""

SAYING_NOTHING: Final = frozenset(
    """
    a about all an and any are as at be by can could do does for from get give has have how i if in into is it
    its like make me my need of on one or should so some that the their them then there this to use using via
    want was way what when where which while will with would you your node nodes please knime something
    everything anything other two three does did many these those only just up let lets thing things somebody
    someone anybody anyone everybody everyone again very really us our
    """.split()  # noqa: SIM905 - words are easier to read than a list of texts
)
"""Words without which a query says the same."""

_KINDS: Final = frozenset(("tool", "node", "nodes", "function", "formula", "clause", "step", "statement"))
"""What people call the things that nodes are here."""

_ENDINGS: Final = ("ations", "ation", "ings", "ing", "ers", "ies", "ed", "er", "es", "or", "s", "e", "y")
"""Taken off the end of a word to find its relatives: longest first."""
_SHORTEST_STEM: Final = 4

_JAVA_CLASS: Final = re.compile(
    r"(?:\w+[.$])*([^\W\d]\w*?[^\W\d])\d*Node(?:Factory|Model|Dialog)?\d*(?:#.*)?"
)
"""A node's class in Java: its package and its ending say nothing about what the node does."""


_CALL: Final = re.compile(r"=?\s*(?:\w+(?:\.|::))*(\w+)\(")
"""A formula or a call, and the function in it: ``=VLOOKUP(A2;B:C;2)``, ``df.groupby('a')``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWord:
    """One word of a query.

    Attributes:
        text: Folded, as words are indexed.
        parts: Its parts, if it is in CamelCase.
        stem: The beginning that its relatives share; the word itself if it is short.
    """

    text: str
    parts: tuple[str, ...] = ()
    stem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query, taken apart.

    Attributes:
        text: As it was given, without the space around it.
        key: Folded, for comparing with whole names.
        words: Those that say something, or all if none does; without repetitions.
        cut: Whether a part of the query was not looked at.
    """

    text: str
    key: str
    words: tuple[QueryWord, ...]
    cut: bool = False

    @property
    def bare(self) -> str:
        """The folded query without what only says that a node is meant, such as ``tool`` at its end."""
        words = self.key.split()
        while len(words) > 1 and words[-1] in _KINDS:
            words.pop()
        return " ".join(words)

    @property
    def function(self) -> str:
        """The folded name of the function that the query calls; empty if it is no call."""
        call = _CALL.match(self.text)
        return folded(call[1]) if call else ""

    @property
    def terms(self) -> tuple[str, ...]:
        """The words as they are indexed."""
        return tuple(word.text for word in self.words)


def parse_query(text: str) -> Query:
    """Splits a query into words. Quotes and operators have no meaning."""
    looked_at = text[:LONGEST_QUERY].strip()
    found: dict[str, QueryWord] = {}
    for written in looked_at.replace("_", " ").split():
        java = _JAVA_CLASS.fullmatch(written)
        for word in _words(" ".join(camel_case_parts(java[1])) if java else written):
            found.setdefault(word.text, word)
    key = folded(looked_at)
    # Signs such as ™ are no words, but stand for some.
    every = list(found.values()) or _words(key)
    telling = [word for word in every if word.text not in SAYING_NOTHING] or every
    return Query(
        text=looked_at,
        key=key,
        words=tuple(telling[:MOST_WORDS]),
        cut=len(text.strip()) > len(looked_at) or len(telling) > MOST_WORDS,
    )


def stem(word: str) -> str:
    """The beginning that a word shares with its relatives: ``filter`` of ``filtering`` and ``filters``."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return _undoubled(word[: -len(ending)])
    return word


def within_one_edit(left: str, right: str) -> bool:
    """Returns whether two words differ by one letter: added, missing, changed, or swapped with the next."""
    if abs(len(left) - len(right)) > 1 or left == right:
        return left == right
    shared = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if shared is None:
        return True
    a, b = left[shared:], right[shared:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[1::-1] == b[:2] and a[2:] == b[2:])


def phrases(words: Iterable[str], longest: int) -> list[str]:
    """Neighbouring words as phrases, the longest first."""
    listed = list(words)[:MOST_WORDS]
    return [
        " ".join(listed[at : at + length])
        for length in range(min(longest, len(listed)), 0, -1)
        for at in range(len(listed) - length + 1)
    ]


def _words(written: str) -> list[QueryWord]:
    entries = [entry[:LONGEST_WORD] for entry in words_in(written)]
    # words_in gives a CamelCase word first whole and then in parts; "a-b" gives two words.
    whole = folded(written).split()
    if len(whole) == 1 and len(entries) > 1 and "".join(entries[1:]) == entries[0]:
        return [QueryWord(text=entries[0], parts=tuple(entries[1:]), stem=stem(entries[0]))]
    return [QueryWord(text=entry, stem=stem(entry)) for entry in entries]


def _undoubled(text: str) -> str:
    double = len(text) > _SHORTEST_STEM and text[-1] == text[-2] and text[-1] in "bdgmnpt"
    return text[:-1] if double else text
