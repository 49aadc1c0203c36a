"""Writes what was read as one file of facts: a line with what all nodes share, then a line for each node.

A node's line has only what differs from the default; ports name their types by number. The reader of the file
is `knime_node_knowledge.sources.node_facts`, which says what each key means.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from knime_node_knowledge.query_words import folded
from knime_node_knowledge.sources.node_descriptions import parse_xml

from .node_ports import ANY, TABLE

_NO_LIMIT: Final = 2_000_000_000

if TYPE_CHECKING:
    from pathlib import Path

    from .java_classes import JavaIndex
    from .node_ports import PortFact
    from .node_settings import Settings

_LONGEST_NAME: Final = 40
"""Of a port. Longer ones are sentences about the port rather than its name."""
_SUFFIX: Final = re.compile(r"(?<=.)PortObject(?:AndSpec|Base)?$")


_NAMES: Final = {TABLE: "Table", ANY: "Any"}


class PortTypes:
    """The classes of what goes through ports, with their names and what they are kinds of."""

    def __init__(self, index: JavaIndex, folders: list[Path]) -> None:
        self._index = index
        self._registered = _registered_names(folders)
        self._numbers: dict[str, int] = {}
        self._known: dict[str, tuple[str, list[str]]] = {}

    def add(self, types: dict[str, tuple[str, list[str]]]) -> None:
        """Types of a Python extension, by id: name and those above."""
        self._known.update(types)

    def number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers)
        return self._numbers[name]

    def as_json(self) -> list[dict[str, Any]]:
        done = 0
        names: list[str] = []
        entries: list[dict[str, Any]] = []
        while done < len(self._numbers):
            names = list(self._numbers)
            for name in names[done:]:
                entry: dict[str, Any] = {"id": name, "name": self._name(name)}
                if above := [self.number(other) for other in self._above(name)]:
                    entry["is"] = above
                elif name != ANY and name not in self._known:
                    entry["unknown"] = 1
                entries.append(entry)
            done = len(names)
        return entries

    def _name(self, name: str) -> str:
        if name in _NAMES:
            return _NAMES[name]
        if name in self._known:
            return self._known[name][0]
        registered = self._registered.get(name.replace("$", "."))
        if registered:
            return registered
        simple = _SUFFIX.sub("", name.rpartition(".")[2])
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", simple)

    def _above(self, name: str) -> list[str]:
        """The classes and interfaces right above, as far as they are port objects."""
        if name in self._known:
            return self._known[name][1]
        cls = self._index.find(name)
        if cls is None:
            return []
        above = [*([cls.superclass] if cls.superclass else []), *cls.interfaces]
        return [other for other in above if other.endswith("PortObject") or self._above(other)]


def _registered_names(folders: list[Path]) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted(folder.rglob("plugin.xml")):
            if b"portType" not in (data := path.read_bytes()):
                continue
            for element in parse_xml(data).iter("portType"):
                name, cls = element.get("name", ""), element.get("objectClass", "")
                if name and not name.startswith("%"):
                    found.setdefault(cls.replace("$", "."), " ".join(name.split()))
    return found


def ports_as_json(ports: list[PortFact], types: PortTypes) -> list[dict[str, Any]]:
    """The ports that a new node has, and after those of a group one for what can be added."""
    found: list[dict[str, Any]] = []
    for port in ports:
        entry = _port(port, types)
        if not port.addable:
            found.append(entry)
            continue
        fixed = 0 if port.optional else port.count
        found += [
            {key: value for key, value in entry.items() if key not in ("g", "a", "o")} for _ in range(fixed)
        ]
        found.append(entry)
    return found


def _port(port: PortFact, types: PortTypes) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if port.type is not None:
        entry["t"] = types.number(port.type)
    if port.name and len(port.name) <= _LONGEST_NAME:
        entry["n"] = " ".join(port.name.split())
    if port.optional:
        entry["o"] = 1
    if port.addable:
        entry["g"] = 1
    # "Anything" is a choice of a group, and a class of its own elsewhere, to which no table can be connected.
    others = [
        types.number(other) for other in dict.fromkeys(port.accepts) if other != port.type or other == ANY
    ]
    if others:
        entry["a"] = others
    return entry


def settings_as_json(settings: Settings) -> dict[str, Any]:
    """The settings with their keys; groups in which other keys may be right are under ``open``."""
    found: list[dict[str, Any]] = []
    kinds = {"string": "s", "integer": "i", "float": "f", "boolean": "b", "enum": "e"}
    for setting in settings.found.values():
        if "*" in setting.key or (
            setting.read and any(key.startswith(f"{setting.key}.") for key in settings.found)
        ):
            continue
        entry: dict[str, Any] = {"k": setting.key}
        if setting.type is not None:
            entry["t"] = kinds[setting.type]
        if setting.has_default:
            entry["d"] = setting.default
        if setting.choices:
            entry["c"] = setting.choices
        entry |= {
            key: value for key, value in (("min", setting.min), ("max", setting.max)) if _is_limit(value)
        }
        if setting.hidden:
            entry["h"] = 1
        if setting.read:
            entry["r"] = 1
        found.append(entry)
    listed: dict[str, Any] = {"settings": found}
    if settings.open:
        listed["open"] = sorted(settings.open)
    return listed


def _is_limit(value: float | None) -> bool:
    """Whether a number says more than its type: Java's largest numbers do not."""
    return value is not None and abs(value) < _NO_LIMIT


def write_facts(path: Path, header: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    nodes = sorted(nodes, key=lambda node: (folded(node["name"]), node["id"]))
    lines = [json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in (header, *nodes)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
