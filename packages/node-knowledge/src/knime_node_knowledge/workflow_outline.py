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

Port = int | str | None
"""The number or the name of a port; None where whoever wrote the outline left it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineNode:
    id: str
    name: str  # as people call it; empty where only the reference says
    reference: Mapping[str, str] | None  # None for metanodes and components
    settings: Mapping[str, Any] | None = None  # None: nothing is said about them
    inside: Outline | None = None  # of a metanode or component

    @property
    def label(self) -> str:
        return f"{self.id} ({self.name})" if self.name and self.name != self.id else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineConnection:
    source: str
    source_port: Port = None
    target: str
    target_port: Port = None

    def __str__(self) -> str:
        ends = ((self.source, self.source_port), (self.target, self.target_port))
        return " -> ".join(name if port is None else f"{name}:{port}" for name, port in ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    nodes: tuple[OutlineNode, ...]
    connections: tuple[OutlineConnection, ...]
    has_own_ports: bool = False  # of a metanode or component: those of a node -1 in its connections


def read_outline(given: Any) -> Outline:
    """Reads an outline: an object, or its JSON as text.

    Raises `ArgumentsInvalid`, which says what an outline looks like.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise _invalid(f"is no JSON: {error}") from None
    if isinstance(given, Mapping):
        inner = cast("Mapping[str, Any]", given)
        if "nodes" not in inner and len(inner) == 1:  # such as {"workflow": {…}}
            return _outline(next(iter(inner.values())), 0)
    return _outline(given, 0)


def _outline(given: Any, depth: int) -> Outline:
    if not isinstance(given, Mapping):
        raise _invalid("is no object")
    entries = cast("Mapping[str, Any]", given)
    if depth > _DEEPEST:
        raise _invalid(f"is nested more than {_DEEPEST} times")
    nodes = [_node(place, node, depth) for place, node in _listed(entries, "nodes", MOST_NODES)]
    connections = [
        _connection(place, line) for place, line in _listed(entries, "connections", MOST_CONNECTIONS)
    ]
    return Outline(nodes=tuple(nodes), connections=tuple(connections), has_own_ports=depth > 0)


def _listed(entries: Mapping[str, Any], key: str, most: int) -> list[tuple[str, Any]]:
    """The entries of a list with their places; nodes may also be given by id."""
    given = entries.get(key)
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
    entry = cast("Mapping[str, Any]", given)
    inside, settings = entry.get("inside"), _first(entry, _SETTINGS_KEYS)
    if settings is not None and not isinstance(settings, Mapping):
        raise _invalid(f"has settings in {place} that are no object")
    reference = _reference(place, entry) if inside is None else None
    name = str(_first(entry, ("label", "title")) or (reference or entry).get("id", ""))
    return OutlineNode(
        id=str(entry.get("id", name)),
        name=(reference or {}).get("id", "") or (reference or {}).get("subtype", "") or name,
        reference=reference,
        settings=cast("Mapping[str, Any] | None", settings),
        inside=None if inside is None else _outline(inside, depth + 1),
    )


def _reference(place: str, entry: Mapping[str, Any]) -> dict[str, str]:
    if isinstance(entry.get("node_type"), str) and isinstance(entry.get("subtype"), str):
        return {"node_type": entry["node_type"], "subtype": entry["subtype"]}
    given = _first(entry, _NODE_KEYS)
    if isinstance(given, Mapping):
        return _reference(place, cast("Mapping[str, Any]", given))
    if given is None and "subtype" not in entry and isinstance(entry.get("id"), str):
        given = entry["id"]
    if not isinstance(given, str) or not given.strip():
        raise _invalid(f"has {place} without 'node', the name or the id of a node")
    return {"id": given.strip()}


def _connection(place: str, given: Any) -> OutlineConnection:
    source = target = None
    if isinstance(given, str) and (ends := _ENDS.fullmatch(given.strip())):
        source, target = _end(ends[1]), _end(ends[2])
    elif isinstance(given, Mapping):
        entry = cast("Mapping[str, Any]", given)
        source = _end(_first(entry, _FROM), _first(entry, _FROM_PORT))
        target = _end(_first(entry, _TO), _first(entry, _TO_PORT))
    elif pair := _pair(given):
        source, target = map(_end, pair)
    if source is None or target is None:
        raise _invalid(f"has {place}, which is no connection such as 'read:1 -> filter:1'")
    return _line(*source, *target)


def _line(source: str, source_port: Port, target: str, target_port: Port) -> OutlineConnection:
    return OutlineConnection(source=source, source_port=source_port, target=target, target_port=target_port)


def _end(given: Any, port: Any = None) -> tuple[str, Port] | None:
    """A node and one of its ports, which may follow a colon or stand beside the node; None for no node."""
    if isinstance(given, Mapping):
        entry = cast("Mapping[str, Any]", given)
        given, port = _first(entry, ("node", "id")), _first(entry, ("port",)) if port is None else port
    elif pair := _pair(given):
        given, port = pair
    if not isinstance(given, (str, int, float)):
        return None
    name = str(given).strip()
    before, _, after = (part.strip() for part in name.rpartition(":"))
    if before and after:
        name, port = before, after if port is None else port
    return name, _port(port)


def _pair(given: Any) -> Sequence[Any] | None:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return None
    found = cast("Sequence[Any]", given)
    return found if len(found) == 2 else None


def _port(given: Any) -> Port:
    if given is None or isinstance(given, bool):
        return None
    text = str(given).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else text


def _first(entry: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((entry[key] for key in keys if entry.get(key) is not None), None)


def _invalid(what: str) -> ArgumentsInvalid:
    return ArgumentsInvalid(
        f"The argument 'workflow' {what}",
        pointer="/workflow",
        tool="check_workflow",
        fix=f"It must be an outline, such as {_SAMPLE}.",
    )
