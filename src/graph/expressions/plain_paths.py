"""The paths of names in an expression that begin in the whole context. Nothing is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from .javascript import UNDEFINED
from .jsonata import SAME_CONTEXT, Fault, context_steps, parsed, symbols

_CACHED: Final = 2048
_OF_NODES: Final = frozenset({"executionCount", "nodeExecution", "nodeExecutions", "nodeContent"})


@dataclass(frozen=True, slots=True)
class Name:
    """A name in an expression; so many characters from its beginning."""

    text: str
    offset: int


@lru_cache(maxsize=_CACHED)
def plain_paths(text: str) -> tuple[tuple[Name, ...], ...]:
    """The names with which each path begins, up to the first step that is something else."""
    compiled = parsed(text)
    if isinstance(compiled, Fault):
        return ()
    paths: list[tuple[Name, ...]] = []
    for steps in context_steps(compiled.ast, (*SAME_CONTEXT, "body")):
        names: list[Name] = []
        for step in steps:
            if step.type != "name" or any(getattr(step, key, None) for key in ("focus", "index", "tuple")):
                break
            name = str(step.value)
            end = int(step.position or 0)  # the library's positions are behind a name
            names.append(Name(name, max(end - len(name) - 2 * (text[end - 1 : end] == "`"), 0)))
        if names:
            paths.append(tuple(names))
    return tuple(paths)


def asked_nodes(text: str) -> list[Name]:
    """The ids of nodes that functions of the history are asked about, where they are written."""
    compiled = parsed(text) if "$" in text else Fault("")
    if isinstance(compiled, Fault):
        return []
    found: list[Name] = []
    for symbol in symbols(compiled.ast):
        if symbol.type == "function" and str(getattr(symbol.procedure, "value", "")) in _OF_NODES:
            argument = next(iter(symbol.arguments or []), None)
            if argument is not None and argument.type == "string":
                found.append(Name(str(argument.value), max(int(argument.position or 0) - 1, 0)))
    return found


def nothing_found(text: str, context: Any) -> list[str]:
    """The paths of an expression that lead nowhere in a context, up to the name where they end."""
    lost: dict[str, None] = {}
    for path in plain_paths(text):
        value = context
        for number, name in enumerate(path, 1):
            value = _field(value, name.text)
            if value is UNDEFINED:
                lost[".".join(name.text for name in path[:number])] = None
                break
    return list(lost)


def _field(value: Any, name: str) -> Any:
    """The field of an object, or those of the entries of a list; `UNDEFINED` if there is none."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(name, UNDEFINED)
    if not isinstance(value, list):
        return UNDEFINED
    found = [_field(entry, name) for entry in cast("list[Any]", value)]
    return [one for one in found if one is not UNDEFINED] or UNDEFINED
