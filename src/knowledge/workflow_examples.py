"""Small workflows for common tasks, as outlines (``examples.toml``). A test checks each of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from .query_words import folded, stem, word_table, words_in
from .vocabulary import in_english

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowExample:
    name: str
    title: str
    outline: Mapping[str, Any]
    words: frozenset[str]  # stems of what people may call it, and of the names of its nodes


@cache
def workflow_examples() -> tuple[WorkflowExample, ...]:
    return tuple(_example(entry) for entry in word_table("examples.toml")["example"])


def _example(entry: Mapping[str, Any]) -> WorkflowExample:
    nodes = [
        {"id": name, **({"node": node} if isinstance(node, str) else node)}
        for name, node in entry["nodes"].items()
    ]
    said = (entry["name"], entry["title"], entry["words"], *(node["node"] for node in nodes))
    return WorkflowExample(
        name=entry["name"],
        title=entry["title"],
        outline={"nodes": nodes, "connections": entry["connections"]},
        words=_stems(" ".join(said)),
    )


@cache
def _uses() -> Counter[str]:
    return Counter(word for entry in workflow_examples() for word in entry.words)


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words_in(text))


def examples_for(query: str) -> list[WorkflowExample]:
    """The examples with words of the query; those come first whose words fewer others have."""
    english, _ = in_english(folded(query), lambda word: stem(word) in _uses())
    asked = _stems(f"{query} {english}")
    weights = {
        entry.name: sum(1 / _uses()[word] for word in asked & entry.words) for entry in workflow_examples()
    }
    found = [entry for entry in workflow_examples() if weights[entry.name]]
    return sorted(found, key=lambda entry: -weights[entry.name])
