"""Another name for a value of the context in the expressions that look it up."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from .jsonata import SAME_CONTEXT, Fault, context_steps, parsed, symbols

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def renamed(text: str, old: str, new: str, *, within: Collection[str] = ()) -> str:
    """The expression with another name for the value `old` of the context, also in history functions.

    `within` are names of values that have a member of the same name, which is renamed, too.
    """
    compiled = parsed(text)
    if isinstance(compiled, Fault):
        return text
    paths = list(context_steps(compiled.ast, (*SAME_CONTEXT, "body")))
    for symbol in symbols(compiled.ast):  # $$ is the whole context everywhere
        steps: list[Any] = symbol.steps if symbol.type == "path" else []
        if len(steps) > 1 and steps[0].type == "variable" and steps[0].value == "$":
            paths.append(steps[1:])
    ends: set[int] = set()
    for first, *rest in paths:
        ends |= {first.position} if first.value == old else set()
        if first.value in within and rest and rest[0].value == old:
            ends.add(rest[0].position)
    parts: list[str] = []
    done = 0
    for start, end in sorted([*_names_at(text, old, ends), *_history_names(text, old)]):
        written = json.dumps(new, ensure_ascii=False) if text[start] in "\"'" else _name(new)
        parts += [text[done:start], written]
        done = end
    return "".join([*parts, text[done:]])


def _names_at(text: str, name: str, ends: Collection[int]) -> Iterator[tuple[int, int]]:
    for end in sorted(ends):
        quoted = text[end - 1 : end] == "`"
        yield end - len(name) - 2 * quoted, end


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
