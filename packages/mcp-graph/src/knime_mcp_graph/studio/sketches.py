"""A document's graphs for the page, drawn from what can be read of it, also while it has mistakes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from knime_mcp.yaml_text import as_list, as_mapping

from ..graph_drawing import laid_out, ways_around
from ..nodes import KINDS
from ..nodes.node import kind_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from knime_mcp.yaml_text import Path, Yaml

    from ..graph_model import Dialect
    from ..nodes.node import Way

Raw = dict[str, Any]


def sketches(source: Yaml, dialect: Dialect) -> list[Raw]:
    """The tools with their nodes, ways and drawings, as JSON."""
    data = as_mapping(source.data)
    found: list[Raw] = []
    for index, tool in enumerate(map(as_mapping, as_list(data.get("tools")))):
        shared = "nodes" not in tool and isinstance(data.get("nodes"), list)
        path: Path = ("nodes",) if shared else ("tools", index, "nodes")
        nodes = _nodes(data if shared else tool)
        name = str(tool.get("name", f"#{index}"))
        if shared:
            nodes = _belonging(nodes, name, dialect)
        settings = {key: value for key, value in tool.items() if key != "nodes"}
        found.append(
            {
                "name": name,
                "path": ["tools", index],
                "nodesPath": list(path),
                "settings": settings,
                "line": source.at(("tools", index)).line,
                **_drawn(nodes, path, source, dialect),
            }
        )
    return found


def _nodes(holder: Raw) -> dict[int, Raw]:
    """The nodes that have an id, by their place in the list; of those with one id the last one counts."""
    entries = {
        index: cast("Raw", entry)
        for index, entry in enumerate(as_list(holder.get("nodes")))
        if isinstance(as_mapping(entry).get("id"), str)
    }
    last = {entry["id"]: index for index, entry in entries.items()}
    return {index: entry for index, entry in entries.items() if last[entry["id"]] == index}


def _belonging(nodes: dict[int, Raw], tool: str, dialect: Dialect) -> dict[int, Raw]:
    """The nodes of a common list that name the tool, and those that its runs can reach."""
    by_id = {node["id"]: index for index, node in nodes.items()}
    own = {"entry", "exit"}
    waiting = [index for index, node in nodes.items() if node.get("type") in own and node.get("tool") == tool]
    reached: set[int] = set()
    while waiting:
        index = waiting.pop()
        if index not in reached:
            reached.add(index)
            waiting += [by_id[way.target] for way in _ways(nodes[index], dialect) if way.target in by_id]
    return {index: node for index, node in nodes.items() if index in reached}


def _ways(node: Raw, dialect: Dialect) -> Iterator[Way]:
    return kind_in(KINDS, node).ways_of(node, dialect)


def _drawn(nodes: dict[int, Raw], path: Path, source: Yaml, dialect: Dialect) -> Raw:
    ids = {node["id"] for node in nodes.values()}
    ways = [way for node in nodes.values() for way in _ways(node, dialect)]
    # A way that leads nowhere yet is listed, but cannot be drawn.
    around = ways_around([way for way in ways if way.target in ids])
    entry = next((node["id"] for node in nodes.values() if node.get("type") == "entry"), None)
    texts = {node["id"]: kind_in(KINDS, node).detail(node) for node in nodes.values()}
    drawing = laid_out(texts, around, entry)
    return {
        "nodes": [
            {
                "id": node["id"],
                "type": str(node.get("type", "")),
                "shape": kind_in(KINDS, node).shape.value,
                "detail": texts[node["id"]],
                "path": [*path, index],
                "line": source.at((*path, index)).line,
                "settings": node,
            }
            for index, node in nodes.items()
        ],
        "ways": [_json(way) for way in ways],
        "drawing": {
            "width": drawing.width,
            "height": drawing.height,
            "boxes": {box.id: asdict(box) for box in drawing.boxes},
            "lines": [
                {
                    **_json(line.way),
                    "target": line.target,
                    "points": [list(point) for point in line.points],
                    "isBack": line.is_back,
                    "isError": line.way.is_error,
                }
                for line in drawing.lines
            ],
        },
    }


def _json(way: Way) -> Raw:
    return {**asdict(way), "key": list(way.key)}


def kinds_of_nodes(dialect: Dialect) -> dict[str, Raw]:
    """What the page has to know of each kind of node: what a new one has, its ways, and its form."""
    return {
        name: {
            "new": kind.new,
            "ways": [{"key": [way.key], "words": way.words} for way in kind.opened(dialect)],
            "fields": [asdict(field) for field in kind.fields],
        }
        for name, kind in KINDS.items()
    }
