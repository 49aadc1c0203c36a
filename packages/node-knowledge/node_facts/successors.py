"""Which node to use instead of a deprecated one, as far as KNIME's sources say it.

A rule of migration names both factories; the documentation of a deprecated class links to another; and
otherwise the only current node with the same name, or with the same class name but for its number, is meant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from knime_node_knowledge.query_words import folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .java_classes import JavaClass, JavaIndex
    from .node_factories import Factory

_RULE: Final = re.compile(rb"extends\s+\w*NodeMigrationRule\b")
_CLASS: Final = re.compile(r"\b([A-Z]\w*NodeFactory\w*)\.class")
_COMMENT: Final = re.compile(
    r"/\*\*(.*?)\*/\s*(?:@[\w.]+(?:\([^)]*\))?\s*)*(?:public|final|abstract|\s)*class\s", re.DOTALL
)
_LINK: Final = re.compile(r"@deprecated(.*)", re.DOTALL)
_TARGET: Final = re.compile(r"\{@link\s+([\w.]+)|\b([A-Z]\w*NodeFactory\w*)")
_OUT_OF_USE: Final = re.compile(r"\s*[(\[]\s*(?:deprecated|legacy|obsolete)\s*[)\]]\s*", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d+")


def successors(factories: list[Factory], index: JavaIndex) -> dict[str, str]:
    """The factory to use instead, by the factory of a deprecated node."""
    known = {entry.registered.factory: entry for entry in factories}
    found = {old: new for old, new in _by_rules(index) if old in known and new in known and old != new}
    by_name = _unique(known)
    for name, entry in known.items():
        if not is_deprecated(entry):
            continue
        linked = next((other for other in _linked(entry.cls) if other in known and other != name), None)
        new = found.get(name) or linked or by_name.get(_name_key(entry)) or by_name.get(_class_key(name))
        if new is not None:
            found[name] = new
    return {old: _last(old, found, known) for old in found if is_deprecated(known[old])}


def is_deprecated(entry: Factory) -> bool:
    description = entry.description
    return entry.registered.deprecated or (description is not None and description.deprecated)


def _last(old: str, found: dict[str, str], known: dict[str, Factory]) -> str:
    """The end of a line of successors: a deprecated one has one itself."""
    seen = {old}
    new = found[old]
    while is_deprecated(known[new]) and new in found and found[new] not in seen:
        seen.add(new)
        new = found[new]
    return new


def _by_rules(index: JavaIndex) -> Iterator[tuple[str, str]]:
    for name, path in index.files.items():
        if "Migration" in path.name and _RULE.search(path.read_bytes()):
            cls = index.find(name)
            if cls is None:
                continue
            source = path.read_text("utf-8")
            head, _, tail = source.partition("getReplacementNodeFactoryClass")
            news = _CLASS.findall(tail.partition("}")[0])
            olds = [old for old in _CLASS.findall(head + tail.partition("}")[2]) if old not in news]
            if len(set(news)) == 1:
                yield from ((cls.resolve(old), cls.resolve(news[0])) for old in dict.fromkeys(olds))


def _linked(cls: JavaClass) -> list[str]:
    source = (cls.unit.path).read_text("utf-8", "replace")
    comment = _COMMENT.search(source)
    deprecated = _LINK.search(comment[1]) if comment else None
    names = _TARGET.findall(deprecated[1]) if deprecated else []
    return [cls.resolve(first or second) for first, second in names]


def _unique(known: dict[str, Factory]) -> dict[str, str]:
    """The only current node for a name and for a class name without its number."""
    users: dict[str, list[str]] = defaultdict(list)
    for name, entry in known.items():
        if not is_deprecated(entry) and not entry.registered.hidden:
            for key in (_name_key(entry), _class_key(name)):
                users[key].append(name)
    return {key: names[0] for key, names in users.items() if len(names) == 1}


def _name_key(entry: Factory) -> str:
    return f"name {folded(_OUT_OF_USE.sub(' ', entry.name))}"


def _class_key(name: str) -> str:
    return "class " + _DIGITS.sub("", name).lower()
