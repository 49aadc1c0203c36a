"""The paths of names in an expression that begin in the whole context. Nothing is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from .jsonata import context_paths, name_span, symbols

if TYPE_CHECKING:
    from collections.abc import Sequence

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
