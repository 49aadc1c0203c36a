"""Detects the dialect of a document, once per file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from ..model import Dialect
from ..raw_values import entries, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

# "$.entry.path", "$entry", "$count(...)", "$$", "$previousNode()" or "$ ~> $keys()", but not "$5.00" or "$".
_LOOKS_LIKE_JSONATA: Final = re.compile(r"\$(?:[.$\[({^]|[^\W\d]|\s*(?:~>|[&=?!]))")


@dataclass(frozen=True, slots=True)
class Choice:
    """A dialect and the reason for it.

    Attributes:
        dialect: The dialect.
        reason: The part of the document that shows the dialect.
    """

    dialect: Dialect
    reason: str


def choose_dialect(data: Any) -> Choice:
    """Detects the dialect of a document.

    A switch decides first, as its two forms exclude each other; then ``{expr: ...}`` among arguments; then
    arguments that look like expressions. A document with none of these has the same meaning in both dialects.

    Args:
        data: The document's values, of any shape.

    Returns:
        The dialect and the reason, for the log.
    """
    nodes = list(raw_nodes(data))
    for node in nodes:
        if any("target" in condition for condition in _conditions(node)):
            return Choice(Dialect.TARGET, f"the switch '{node.get('id')}' has conditions with 'target'")
    for node in nodes:
        if node.get("type") == "switch" and ("next" in node or any("next" in c for c in _conditions(node))):
            return Choice(Dialect.NEXT, f"the switch '{node.get('id')}' uses 'next'")
    for node in nodes:
        if node.get("type") == "switch":
            return Choice(Dialect.TARGET, f"the switch '{node.get('id')}' has no 'next'")
    args = [(node, node["args"]) for node in nodes if isinstance(node.get("args"), dict)]
    for node, values in args:
        if _has_expr(values):
            return Choice(Dialect.NEXT, f"the arguments of '{node.get('id')}' have {{expr: ...}}")
    for node, values in args:
        for name, value in cast("dict[str, Any]", values).items():
            if isinstance(value, str) and looks_like_jsonata(value):
                return Choice(Dialect.TARGET, f"the argument '{name}' of '{node.get('id')}' begins with '$'")
    return Choice(Dialect.NEXT, "nothing in it depends on the dialect")


def looks_like_jsonata(text: str) -> bool:
    """Returns whether a text begins like an expression (``$.a``, ``$f(``), not like a price (``$5.00``)."""
    return _LOOKS_LIKE_JSONATA.match(text) is not None


def raw_nodes(data: Any) -> Iterator[dict[str, Any]]:
    """All mappings in the document that are nodes."""
    for holder in (data, *_entries(data, "tools")):
        yield from _entries(holder, "nodes")


def _entries(holder: Any, key: str) -> list[dict[str, Any]]:
    return [entry for entry in entries(mapping(holder).get(key)) if isinstance(entry, dict)]


def _conditions(node: dict[str, Any]) -> list[dict[str, Any]]:
    return _entries(node, "conditions") if node.get("type") == "switch" else []


def _has_expr(value: Any) -> bool:
    if isinstance(value, dict):
        values = cast("dict[str, Any]", value)
        is_expression = len(values) == 1 and isinstance(values.get("expr"), str)
        return is_expression or any(_has_expr(entry) for entry in values.values())
    return isinstance(value, list) and any(_has_expr(entry) for entry in cast("list[Any]", value))
