"""A workflow as an outline: nodes, their settings, and what is connected to what.

Agents and people write one as JSON. Ports count from 1, as in KNIME's files; 0 is the port for flow variables
that every node has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from knime_mcp.types.errors import ArgumentsInvalid
from knime_mcp.types.texts import counted

from .query_words import near_keys

MOST_NODES: Final = 2_000
MOST_CONNECTIONS: Final = 10_000
_DEEPEST: Final = 20
_SAMPLE: Final = (
    '{"nodes": [{"id": "read", "node": "CSV Reader"}, {"id": "filter", "node": "Row Filter"}],'
    ' "connections": ["read:1 -> filter:1"]}'
)
_ENDS: Final = re.compile(r"(.+?)\s*(?:->|→|=>)\s*(.+)", re.DOTALL)
#: Other words that people and models use for the keys of an outline.
_NODE_KEYS: Final = ("node", "factory", "name", "type")
_SETTINGS_KEYS: Final = ("settings", "configurations", "parameters", "model")
_FROM: Final = ("from", "source")
_TO: Final = ("to", "target", "destination")
_FROM_PORT: Final = ("from_port", "source_port", "output")
_TO_PORT: Final = ("to_port", "target_port", "destination_port", "input")
#: What people and models write for each other: it changes nothing that a workflow does.
_REMARKS: Final = ("label", "title", "name", "description", "comment", "notes", "annotation", "position")

Port = int | str | None
"""The number or the name of a port; None where whoever wrote the outline left it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadKey:
    """A key of an outline whose value plays no part, so that nobody can call it right."""

    key: str
    known: tuple[str, ...]  # the keys that are read there
    meant: tuple[str, ...]  # those that look like it; the key itself if another one says the same already


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineNode:
    id: str
    name: str  # as people call it; empty where only the reference says
    reference: Mapping[str, str] | None  # None for metanodes and components
    settings: Mapping[str, Any] | None = None  # None: nothing is said about them
    inside: Outline | None = None  # of a metanode or component
    unread: tuple[UnreadKey, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.id} ({self.name})" if self.name and self.name != self.id else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineConnection:
    source: str
    source_port: Port = None
    target: str
    target_port: Port = None
    unread: tuple[UnreadKey, ...] = ()

    def __str__(self) -> str:
        ends = ((self.source, self.source_port), (self.target, self.target_port))
        return " -> ".join(name if port is None else f"{name}:{port}" for name, port in ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    nodes: tuple[OutlineNode, ...]
    connections: tuple[OutlineConnection, ...]
    has_own_ports: bool = False  # of a metanode or component: those of a node -1 in its connections
    unread: tuple[UnreadKey, ...] = ()


class _Entry:
    """An object of an outline that knows what was read of it, so that nothing is passed over in silence."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = {key: value for key, value in given.items() if value is not None}
        self._known: dict[str, None] = {}
        self._read: set[str] = set()

    def first(self, *keys: str) -> Any:
        """The value of the first of these keys that is there, which are words for the same."""
        self._known |= dict.fromkeys(keys)
        found = next((key for key in keys if key in self._given), None)
        if found is None:
            return None
        self._read.add(found)
        return self._given[found]

    def all(self, *keys: str) -> dict[str, Any]:
        """The values of these keys, which say something together only; empty if one is not there."""
        self._known |= dict.fromkeys(keys)
        if not self._given.keys() >= set(keys):
            return {}
        self._read.update(keys)
        return {key: self._given[key] for key in keys}

    def unread(self) -> tuple[UnreadKey, ...]:
        known = tuple(self._known)
        return tuple(
            UnreadKey(key=key, known=known, meant=near_keys(key, known))
            for key in self._given
            if key not in self._read and key not in _REMARKS
        )


def read_outline(given: Any) -> Outline:
    """Reads an outline: an object, or its JSON as text.

    Raises `ArgumentsInvalid`, which says what an outline looks like.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError) as error:
            raise _invalid(f"is no JSON: {error}") from None
    if isinstance(given, Mapping):
        inner = cast("Mapping[str, Any]", given)
        if "nodes" not in inner and len(inner) == 1:  # such as {"workflow": {…}}
            return _outline(next(iter(inner.values())), 0)
    return _outline(given, 0)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' stands twice")
    return found


def _outline(given: Any, depth: int) -> Outline:
    if not isinstance(given, Mapping):
        raise _invalid("is no object")
    entry = _Entry(cast("Mapping[str, Any]", given))
    if depth > _DEEPEST:
        raise _invalid(f"is nested more than {_DEEPEST} times")
    nodes = _listed(entry.first("nodes"), "nodes", MOST_NODES)
    connections = _listed(entry.first("connections"), "connections", MOST_CONNECTIONS)
    return Outline(
        nodes=tuple(_node(place, node, depth) for place, node in nodes),
        connections=tuple(_connection(place, line) for place, line in connections),
        has_own_ports=depth > 0,
        unread=entry.unread(),
    )


def _listed(given: Any, key: str, most: int) -> list[tuple[str, Any]]:
    """The entries of a list with their places; nodes may also be given by id."""
    if given is None and key == "connections":
        return []
    if isinstance(given, Mapping) and key == "nodes":
        by_id = cast("Mapping[str, Any]", given)
        listed = [(f"{key}.{name}", _with_id(name, entry)) for name, entry in by_id.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        entries_of = cast("Sequence[Any]", given)
        listed = [(f"{key}[{number}]", entry) for number, entry in enumerate(entries_of)]
    else:
        raise _invalid(f"has no list '{key}'")
    if len(listed) > most:
        raise _invalid(f"has {counted(len(listed), key[:-1])}; {most:,} are allowed")
    return listed


def _with_id(name: str, entry: Any) -> Any:
    if isinstance(entry, str):
        return {"id": name, "node": entry}
    return {"id": name, **cast("Mapping[str, Any]", entry)} if isinstance(entry, Mapping) else entry


def _node(place: str, given: Any, depth: int) -> OutlineNode:
    if isinstance(given, str):
        return OutlineNode(id=given, name=given, reference={"id": given})
    if not isinstance(given, Mapping):
        raise _invalid(f"has {place}, which is neither an object nor a name")
    entry = _Entry(cast("Mapping[str, Any]", given))
    node_id, inside, settings = entry.first("id"), entry.first("inside"), entry.first(*_SETTINGS_KEYS)
    if settings is not None and not isinstance(settings, Mapping):
        raise _invalid(f"has settings in {place} that are no object")
    reference = _reference(place, entry, node_id) if inside is None else None
    label = entry.first("label", "title", *(("name",) if inside is not None else ()))
    name = str(label or (reference or {}).get("id") or node_id or "")
    return OutlineNode(
        id=name if node_id is None else str(node_id),
        name=(reference or {}).get("id", "") or (reference or {}).get("subtype", "") or name,
        reference=reference,
        settings=cast("Mapping[str, Any] | None", settings),
        inside=None if inside is None else _outline(inside, depth + 1),
        unread=entry.unread(),
    )


def _reference(place: str, entry: _Entry, node_id: Any) -> dict[str, str]:
    if both := entry.all("node_type", "subtype"):
        return {key: str(value) for key, value in both.items()}
    given = entry.first(*_NODE_KEYS)
    if isinstance(given, Mapping):
        inner = _Entry(cast("Mapping[str, Any]", given))
        found = _reference(place, inner, inner.first("id"))
        if unread := inner.unread():
            raise _invalid(f"has the key '{unread[0].key}' in {place}, which is none of a node's name")
        return found
    if given is None:
        given = node_id
    if not isinstance(given, str) or not given.strip():
        raise _invalid(f"has {place} without 'node', the name or the id of a node")
    return {"id": given.strip()}


def _connection(place: str, given: Any) -> OutlineConnection:
    source = target = None
    unread: tuple[UnreadKey, ...] = ()
    if isinstance(given, str) and (ends := _ENDS.fullmatch(given.strip())):
        source, target = _end(place, ends[1]), _end(place, ends[2])
    elif isinstance(given, Mapping):
        entry = _Entry(cast("Mapping[str, Any]", given))
        source = _end(place, entry.first(*_FROM), entry.first(*_FROM_PORT))
        target = _end(place, entry.first(*_TO), entry.first(*_TO_PORT))
        unread = entry.unread()
    elif pair := _pair(given):
        source, target = (_end(place, end) for end in pair)
    if source is None or target is None:
        raise _invalid(f"has {place}, which is no connection such as 'read:1 -> filter:1'")
    return OutlineConnection(
        source=source[0], source_port=source[1], target=target[0], target_port=target[1], unread=unread
    )


def _end(place: str, given: Any, beside: Any = None) -> tuple[str, Port] | None:
    """A node and one of its ports, which may follow a colon or stand beside the node; None for no node."""
    ports = [beside]
    if isinstance(given, Mapping):
        entry = _Entry(cast("Mapping[str, Any]", given))
        given = entry.first("node", "id")
        ports.append(entry.first("port"))
        if unread := entry.unread():
            raise _invalid(f"has '{unread[0].key}' at an end of {place}; an end has 'node' and 'port'")
    elif pair := _pair(given):
        given = pair[0]
        ports.append(pair[1])
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        return None
    name = str(given).strip()
    before, _, after = (part.strip() for part in name.rpartition(":"))
    if before and after:
        name = before
        ports.append(after)
    told = {_port(port) for port in ports if port is not None}
    if len(told) > 1:
        raise _invalid(f"has {place} with several ports for '{name}': {', '.join(sorted(map(str, told)))}")
    return name, told.pop() if told else None


def _pair(given: Any) -> Sequence[Any] | None:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return None
    found = cast("Sequence[Any]", given)
    return found if len(found) == 2 else None


def _port(given: Any) -> Port:
    text = f"{given:g}" if isinstance(given, float) else str(given).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else text


def _invalid(what: str) -> ArgumentsInvalid:
    return ArgumentsInvalid(
        f"The argument 'workflow' {what}",
        pointer="/workflow",
        tool="check_workflow",
        fix=f"It must be an outline, such as {_SAMPLE}.",
    )
