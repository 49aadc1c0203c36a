"""Searches tools by their purpose, when there are too many to bind them all.

Tools are ranked by BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009) over names,
descriptions and parameters. With the extra `embedding` they are also ranked by meaning, by vectors of words
that come with the package WordLlama, and the rankings are joined (Cormack et al., Reciprocal Rank Fusion,
2009). Neither asks a model or is random: the same query finds the same tools.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ...client.validation.argument_schemas import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SATURATION: Final = 1.2  # k1
_LENGTH: Final = 0.5  # b: lower than the usual 0.75, as the length of a description says little
_NAME, _DESCRIPTION, _PARAMETER = 3.0, 1.0, 0.6
_DEEPEST: Final = 3
# Measured on the first half of tests/agents/toolbox/paraphrases.txt.
_FUSION: Final = 5  # k of the fusion
_MEANING: Final = 4.0  # weight of the meaning
_SIMILAR: Final = 0.15  # below it a tool has nothing to do with the query
_LONGEST_QUERY: Final = 1000
_STOP_WORDS: Final = frozenset(
    word
    for line in (
        "a an and any are as at be by can could do does for from get give has have how i if in into is it",
        "its let me my need of on or our out please tell that the their them then there these they this",
        "those to up us want was we what when where which who will with would you your",
    )
    for word in line.split()
)
# Synonyms: a model may ask for "find" where the server named its tool "search".
_SYNONYMS: Final = (
    "find search look lookup query locate seek",
    "list show display browse enumerate",
    "create add new make open insert register file set",
    "update edit change modify alter adjust rename patch",
    "delete remove erase drop discard destroy trash purge",
    "send mail email message post notify",
    "read fetch retrieve load download view inspect",
    "write save store upload put",
    "cancel abort stop revoke",
    "begin start launch run execute trigger",
    "assign allocate delegate",
    "reserve book schedule plan",
    "approve accept confirm",
    "reject decline refuse deny",
    "export extract dump",
    "merge combine join",
    "repo repository",
    "customer client account",
    "invoice bill",
    "ticket issue bug",
    "employee staff worker colleague person",
    "meeting appointment event",
    "picture image photo",
    "document file doc",
    "price cost quote rate",
    "forecast predict prediction",
    "translate translation",
    "summary summarize summarise",
)


class ToolIndex:
    def __init__(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        functions = [definition["function"] for definition in definitions]
        documents = [_document(function) for function in functions]
        lengths = [sum(document.values()) for document in documents]
        self._count = len(documents)
        mean = sum(lengths) / self._count if self._count else 1.0
        self._penalties = [1 - _LENGTH + _LENGTH * length / (mean or 1.0) for length in lengths]
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, document in enumerate(documents):
            for word, weight in document.items():
                self._postings[word].append((number, weight))
        vectors = _word_vectors() if functions else None
        self._meanings = None if vectors is None else _Meanings(vectors, functions)

    def find(self, query: str, limit: int = 10) -> list[int]:
        """Finds the positions of tools that have a word of the query or its meaning, the best first."""
        by_meaning = self._meanings.find(query) if self._meanings is not None else []
        scores: defaultdict[int, float] = defaultdict(float)
        for weight, ranking in ((1.0, self._by_words(query)), (_MEANING, by_meaning)):
            for place, number in enumerate(ranking):
                # Places are joined and not scores, as those of the two rankings have no common scale.
                scores[number] += weight / (_FUSION + place)
        return sorted(scores, key=lambda number: (-scores[number], number))[:limit]

    def _by_words(self, query: str) -> list[int]:
        scores: defaultdict[int, float] = defaultdict(float)
        for word, importance in _query_words(query).items():
            postings = self._postings.get(word, ())
            # With the 1, so that a word of more than half of the tools does not count against them.
            rarity = math.log(1 + (self._count - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, weight in postings:
                saturated = weight * (_SATURATION + 1) / (weight + _SATURATION * self._penalties[number])
                scores[number] += importance * rarity * saturated
        return sorted(scores, key=lambda number: (-scores[number], number))


class _Meanings:
    """What tools are about, as vectors of their names and descriptions."""

    def __init__(self, model: Any, functions: Sequence[Mapping[str, Any]]) -> None:
        self._model = model
        texts = [f"{' '.join(_parts(function['name']))}. {function['description']}" for function in functions]
        self._vectors = model.embed(texts, norm=True)

    def find(self, query: str) -> list[int]:
        if not _WORD.search(query):
            return []
        [vector] = self._model.embed([query[:_LONGEST_QUERY]], norm=True)
        similar = (self._vectors @ vector).tolist()
        places = [place for place, value in enumerate(similar) if value >= _SIMILAR]
        return sorted(places, key=lambda place: (-similar[place], place))


@cache
def _word_vectors() -> Any:
    """The vectors that WordLlama brings along; None without it."""
    with suppress(ModuleNotFoundError):
        import wordllama

        # Its own folder as the cache: otherwise it does not look where its wheel has the tokenizer.
        return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return None


def _document(function: Mapping[str, Any]) -> Counter[str]:
    words: Counter[str] = Counter()
    for text, weight in (
        (function["name"], _NAME),
        (function["description"], _DESCRIPTION),
        *((text, _PARAMETER) for text in _parameter_texts(function["parameters"])),
    ):
        for word in _words(text):
            words[word] += weight  # pyright: ignore[reportArgumentType] - weights are fractions
    return words


def _parameter_texts(schema: Mapping[str, Any]) -> Iterator[str]:
    root = dict(schema)

    def texts(part: Any, depth: int) -> Iterator[str]:
        schema = resolve(root, part)
        properties = schema.get("properties")
        if isinstance(properties, dict) and depth < _DEEPEST:
            for name, inner in cast("dict[str, Any]", properties).items():
                yield name
                described = resolve(root, inner)
                for key in ("title", "description"):
                    if isinstance(text := described.get(key), str):
                        yield text
                yield from texts(inner, depth + 1)
        if "items" in schema and depth < _DEEPEST:
            yield from texts(schema["items"], depth + 1)

    return texts(root, 0)


def _query_words(query: str) -> dict[str, float]:
    """The words to search for, each with its importance; synonyms count less."""
    asked_words = list(dict.fromkeys(_words(query)))
    words: dict[str, float] = {}
    for word in asked_words:
        for synonym in _GROUPS.get(word, ()):
            words.setdefault(synonym, 0.4)
    words.update(dict.fromkeys(asked_words, 1.0))
    return words


def _words(text: str) -> Iterator[str]:
    for word in _parts(text):
        folded = word.casefold()
        if folded not in _STOP_WORDS:
            yield _stem(folded)


def _parts(text: str) -> list[str]:
    return [word for part in _WORD.findall(text) for word in _HUMP.split(part)]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    for ending in ("ations", "ation", "ings", "ing", "ers", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def _groups(lines: Iterable[str]) -> dict[str, frozenset[str]]:
    groups: dict[str, frozenset[str]] = {}
    for line in lines:
        stems = frozenset(_stem(word) for word in line.split())
        for stem in stems:
            groups[stem] = groups.get(stem, frozenset()) | stems
    return groups


_GROUPS: Final = _groups(_SYNONYMS)
