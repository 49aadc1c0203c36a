"""A document's graphs for the page, drawn from what can be read of it, also while it has mistakes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from knime_mcp.yaml_text import Yaml, as_list, as_mapping

from ..graph_drawing import laid_out, ways_around
from ..graph_model import Dialect
from ..nodes import KINDS
from ..nodes.node import kind_in

if TYPE_CHECKING:
    from ..document_checks import PlacedNode
    from ..document_loading import CheckedDocument
    from ..nodes.node import Way

Raw = dict[str, Any]


def sketches(checked: CheckedDocument) -> list[Raw]:
    """The tools with their nodes, ways and drawings, as JSON."""
    source = checked.source or Yaml()
    data = as_mapping(source.data)
    found: list[Raw] = []
    for tool in checked.tools:
        written = as_mapping(as_list(data.get("tools"))[int(tool.path[-1])])
        is_shared = "nodes" not in written and isinstance(data.get("nodes"), list)
        found.append(
            {
                "name": tool.name,
                "path": list(tool.path),
                "nodesPath": ["nodes"] if is_shared else [*tool.path, "nodes"],
                "settings": {key: value for key, value in written.items() if key != "nodes"},
                "line": source.at(tool.path).line,
                # Of nodes with one id the last one counts.
                **_drawn({node.id: node for node in tool.nodes if node.id is not None}, source, checked),
            }
        )
    return found


def _drawn(nodes: dict[str, PlacedNode], source: Yaml, checked: CheckedDocument) -> Raw:
    dialect = checked.dialect.dialect if checked.dialect else Dialect.NEXT
    ways = [way for node in nodes.values() for way in node.ways(dialect)]
    # A way that leads nowhere yet is listed, but cannot be drawn.
    around = ways_around([way for way in ways if way.target in nodes])
    written = {name: as_mapping(node.raw) for name, node in nodes.items()}
    entry = next((name for name, raw in written.items() if raw.get("type") == "entry"), None)
    texts = {name: kind_in(KINDS, raw).detail(raw) for name, raw in written.items()}
    drawing = laid_out(texts, around, entry)
    return {
        "nodes": [
            {
                "id": name,
                "type": str(written[name].get("type", "")),
                "shape": kind_in(KINDS, written[name]).shape.value,
                "detail": texts[name],
                "path": list(node.path),
                "line": source.at(node.path).line,
                "settings": written[name],
            }
            for name, node in nodes.items()
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
