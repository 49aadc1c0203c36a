"""The names in an expression by which it looks values up in the whole context. Nothing is evaluated."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from .jsonata import context_paths, name_span, symbols

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_CACHED: Final = 2048
_END: Final = object()
_OF_NODES: Final = frozenset({"executionCount", "nodeExecution", "nodeExecutions", "nodeContent"})


@dataclass(frozen=True, slots=True)
class Name:
    """A name in an expression; so many characters from its beginning."""

    text: str
    offset: int


@lru_cache(maxsize=_CACHED)
def plain_paths(text: str) -> tuple[tuple[Name, ...], ...]:
    """The names with which each path begins, up to the first step that is something else."""
    paths: list[tuple[Name, ...]] = []
    for steps in context_paths(text):
        names: list[Name] = []
        for step in steps:
            if step["type"] != "name" or any(step.get(key) for key in ("focus", "index", "tuple")):
                break
            names.append(Name(str(step["value"]), name_span(text, step)[0]))
        if names:
            paths.append(tuple(names))
    return tuple(paths)


def asked_nodes(text: str) -> list[Name]:
    """The ids of nodes that functions of the history are asked about, where they are written."""
    found: list[Name] = []
    for symbol in symbols(text) if "$" in text else ():
        match symbol:
            case {
                "type": "function",
                "procedure": {"value": str(name)},
                "arguments": [{"type": "string", "value": str(node), "position": int(end)}, *_],
            } if name in _OF_NODES:
                found.append(Name(node, max(end - 1, 0)))
            case _:
                pass
    return found


def nothing_found(text: str, context: Any) -> list[str]:
    """The paths of an expression that lead nowhere in a context, up to the name where they end."""
    lost: dict[str, None] = {}
    for path in plain_paths(text):
        names = [name.text for name in path]
        if (found := _followed(names, context)) < len(names):
            lost[".".join(names[: found + 1])] = None
    return list(lost)


def _followed(names: Sequence[str], context: Any) -> int:
    """How many of the names lead on in a value, also through the entries of lists."""
    # Without recursion, and not all entries at once: what servers give may be deep and large.
    furthest, open_ = 0, [(iter([context]), 0)]
    while open_:
        values, number = open_[-1]
        value: Any = next(values, _END)
        if value is _END:
            open_.pop()
            continue
        furthest = max(furthest, number)
        if furthest == len(names):
            break
        if isinstance(value, list):
            open_.append((iter(cast("list[Any]", value)), number))
        elif isinstance(value, dict) and names[number] in value:
            open_.append((iter([cast("dict[str, Any]", value)[names[number]]]), number + 1))
    return furthest


def renamed(text: str, old: str, new: str, *, within: Collection[str] = ()) -> str:
    """The expression with another name for the value `old` of the context, also in history functions.

    `within` are names of values that have a member of the same name, which is renamed, too.
    """
    paths = context_paths(text)
    for symbol in symbols(text):  # $$ is the whole context everywhere
        match symbol:
            case {"type": "path", "steps": [{"type": "variable", "value": "$"}, {}, *_] as steps}:
                paths.append(cast("list[Any]", steps)[1:])
            case _:
                pass
    spans: set[tuple[int, int]] = set(_history_names(text, old))
    for first, *rest in paths:
        if first.get("value") == old:
            spans.add(name_span(text, first))
        if first.get("value") in within and rest and rest[0].get("value") == old:
            spans.add(name_span(text, rest[0]))
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        written = json.dumps(new, ensure_ascii=False) if text[start] in "\"'" else _name(new)
        parts += [text[done:start], written]
        done = end
    return "".join([*parts, text[done:]])


_HISTORY_NAME: Final = re.compile(
    r"""\$(?:nodeExecutions?|executionCount|nodeContent)\s*\(\s*(?P<text>"[^"\\]*"|'[^'\\]*')"""
)
_PLAIN_NAME: Final = re.compile(r"(?!(?:and|or|in|true|false|null)$)[A-Za-z_][A-Za-z0-9_]*")


def _history_names(text: str, name: str) -> Iterator[tuple[int, int]]:
    for match in _HISTORY_NAME.finditer(text):
        if match["text"][1:-1] == name:
            yield match.span("text")


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name}`"
