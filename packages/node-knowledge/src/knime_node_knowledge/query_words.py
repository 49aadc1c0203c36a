"""The words of a text, as they are indexed, searched for, and compared, and the words of a query.

Function calls and Java classes are recognized. No catalogue is needed.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


_WORD: Final = re.compile(r"\w+")
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])")

MOST_WORDS: Final = 24
"""The largest number of words that are searched. Further words take time without better results."""

LONGEST_WORD: Final = 64
LONGEST_QUERY: Final = 4_000
"""The largest number of characters that are used."""

SAYING_NOTHING: Final = frozenset(
    """
    a about all an and any are as at be by can could do does for from get give has have how i if in into is it
    its like make me my need of on one or should so some that the their them then there this to use using via
    want was way what when where which while will with would you your node nodes please knime something
    everything anything other two three does did many these those only just up let lets thing things somebody
    someone anybody anyone everybody everyone again very really us our than not never ever
    """.split()  # noqa: SIM905 - words are easier to read than a list of texts
)
"""Words without a meaning for the search."""

_KINDS: Final = frozenset(("tool", "node", "nodes", "function", "formula", "clause", "step", "statement"))
"""Words that people use for nodes, and for the things in other tools that correspond to nodes."""

_VERBS_OF_HTTP: Final = frozenset(("put", "post", "head", "patch", "options"))
_OF_THE_WEB: Final = frozenset(
    ["http", "https", "api", "apis", "rest", "web", "request", "endpoint", "url", "service", "json", "server"]
)
_SHORT_QUERY: Final = 3
"""In longer queries *put* is a word like any other if nothing else is about the web."""

_ENDINGS: Final = ("ations", "ation", "ings", "ing", "ers", "ies", "ed", "er", "es", "or", "s", "e", "y")
"""Endings that are removed to get the stem of a word, longest first."""

_SHORTEST_STEM: Final = 4
_LONGEST_SCRAP: Final = 2
_JAVA_CLASS: Final = re.compile(
    r"(?:\w+[.$])*([^\W\d]\w*?[^\W\d])\d*Node(?:Factory|Model|Dialog)?\d*(?:#.*)?"
)
"""Matches a node's Java class; the group is its name without package and ending."""

_FORMULA: Final = re.compile(r"=\s*([\w.]+)\(")
"""Matches a formula: ``=VLOOKUP(A2;B:C;2)``, ``=CONTAR.SI(A:A;1)``; the group is the function."""

_CALL: Final = re.compile(r"=?\s*(?:\w+(?:\[\[?[^\[\]]*\]\]?)?(?:\.|::))*(\w+)\(")
"""Matches a call: ``df['a'].shift(1)``, ``dplyr::left_join(x)``; the group is the function."""


_MOST_MEANT: Final = 3


def word_table(name: str) -> dict[str, Any]:
    """A table that comes along beside this module, such as ``languages.toml``."""
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


def folded(text: str) -> str:
    """A text without case and accents, with one space between words, to compare names."""
    return " ".join(_WORD.findall(unaccented(text).casefold().replace("_", " ")))


def compact(text: str) -> str:
    """A folded text without spaces: *GroupBy* and *Group By* are the same name."""
    return folded(text).replace(" ", "")


def near_keys(written: str, keys: Iterable[str], cutoff: float = 0.7) -> tuple[str, ...]:
    """The keys that may be meant by one that is written differently, the most similar first.

    `cutoff` is how similar they have to be, unless they have all of its words; 1 is equal.
    """
    by_form = {compact(key): key for key in keys}
    near = [by_form[form] for form in difflib.get_close_matches(compact(written), by_form, cutoff=cutoff)]
    words = set(words_in(written))
    longer = (key for key in by_form.values() if words and words <= set(words_in(key)))
    return tuple(dict.fromkeys((*near, *longer)))[:_MOST_MEANT]


def unaccented(text: str) -> str:
    if text.isascii():
        return text
    # Letters are taken apart from their accents, and ligatures and wide forms become plain letters.
    plain = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


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


def identifiers(text: str) -> set[str]:
    """The words of a text that are written as programs write names: ``matchCriteria``, ``how_many``."""
    written = _WORD.findall(text)
    return {word.casefold() for word in written if "_" in word or len(camel_case_parts(word)) > 1}


def spellings(word: str) -> set[str]:
    """A word, and the word without each of its letters. Words that are one edit apart share one of these."""
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWord:
    text: str
    parts: tuple[str, ...] = ()
    stem: str = ""  # without its ending; the whole word if it is short


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    text: str  # as given, without surrounding space
    key: str
    # those with a meaning for the search, or all if there are none; without repetitions
    words: tuple[QueryWord, ...]
    cut: bool = False  # whether the query was too long, so that a part is not used

    @property
    def bare(self) -> str:
        """The folded query without words at its end that only mean a node, such as ``tool``."""
        words = self.key.split()
        while len(words) > 1 and words[-1] in _KINDS:
            words.pop()
        return " ".join(words)

    @property
    def formula(self) -> str:
        """The folded name of the function, if the query is a formula; otherwise empty."""
        formula = _FORMULA.match(self.text)
        return folded(formula[1]) if formula else ""

    @property
    def function(self) -> str:
        """The folded name of the function without its module, if the query is a call; otherwise empty."""
        call = _CALL.match(self.text)
        return folded(call[1]) if call else ""

    @property
    def java_class(self) -> str:
        """The folded name of the class without its ending, if the query is a node's class in Java."""
        java = _JAVA_CLASS.fullmatch(self.text)
        return folded(" ".join(camel_case_parts(java[1]))) if java else ""

    @property
    def terms(self) -> tuple[str, ...]:
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
    # Signs such as ™ are not words, but folding turns them into letters.
    every = list(found.values()) or _words(key)
    telling = [word for word in every if word.text not in SAYING_NOTHING] or every
    if len(telling) > _SHORT_QUERY and _OF_THE_WEB.isdisjoint(word.text for word in every):
        telling = [word for word in telling if word.text not in _VERBS_OF_HTTP] or telling
    return Query(
        text=looked_at,
        key=key,
        words=tuple(telling[:MOST_WORDS]),
        cut=len(text.strip()) > len(looked_at) or len(telling) > MOST_WORDS,
    )


def stem(word: str) -> str:
    """The word without its ending: ``filter`` for ``filtering`` and ``filters``."""
    # The longest first, as `ing` is an end of `ings`.
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
    # In this order: a letter changed, added, missing, or swapped with the next.
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[1::-1] == b[:2] and a[2:] == b[2:])


def phrases(words: Iterable[str], longest: int) -> list[str]:
    """All phrases of up to `longest` neighbouring words, the longest first."""
    listed = list(words)[:MOST_WORDS]
    return [
        " ".join(listed[at : at + length])
        for length in range(min(longest, len(listed)), 0, -1)
        for at in range(len(listed) - length + 1)
    ]


def _words(written: str) -> list[QueryWord]:
    entries = [entry[:LONGEST_WORD] for entry in words_in(written)]
    # words_in returns a CamelCase word first whole and then in parts; for "a-b" it returns two words.
    whole = folded(written).split()
    if len(whole) == 1 and len(entries) > 1 and "".join(entries[1:]) == entries[0]:
        # Parts such as those of *H2O* are in words of all kinds.
        parts = tuple(entries[1:]) if max(map(len, entries[1:])) > _LONGEST_SCRAP else ()
        return [QueryWord(text=entries[0], parts=parts, stem=stem(entries[0]))]
    return [QueryWord(text=entry, stem=stem(entry)) for entry in entries]


def _undoubled(text: str) -> str:
    double = len(text) > _SHORTEST_STEM and text[-1] == text[-2] and text[-1] in "bdgmnpt"
    return text[:-1] if double else text
