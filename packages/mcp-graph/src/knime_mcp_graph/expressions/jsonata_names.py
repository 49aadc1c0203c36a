"""Another name for a value of the context in the expressions that look it up."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from .jsonata import context_paths, name_span, symbols

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


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
