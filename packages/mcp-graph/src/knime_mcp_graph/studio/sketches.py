"""A document's graphs for the page, drawn from what can be read of it, also while it has mistakes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.yaml_text import as_list, as_mapping

from ..graph_drawing import laid_out, ways_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from knime_mcp.yaml_text import Path, Yaml

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    source: str
    target: str
    label: str
    key: str  # the way for `connected`


def sketches(source: Yaml) -> list[Raw]:
    """The tools with their nodes, ways and drawings, as JSON."""
    data = as_mapping(source.data)
    found: list[Raw] = []
    for index, tool in enumerate(map(as_mapping, as_list(data.get("tools")))):
        shared = "nodes" not in tool and isinstance(data.get("nodes"), list)
        path: Path = ("nodes",) if shared else ("tools", index, "nodes")
        nodes = _nodes(data if shared else tool)
        name = str(tool.get("name", f"#{index}"))
        if shared:
            nodes = _belonging(nodes, name)
        settings = {key: value for key, value in tool.items() if key != "nodes"}
        found.append(
            {
                "name": name,
                "path": ["tools", index],
                "nodesPath": list(path),
                "settings": settings,
                "line": source.at(("tools", index)).line,
                **_drawn(nodes, path, source),
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


def _belonging(nodes: dict[int, Raw], tool: str) -> dict[int, Raw]:
    """The nodes of a common list that name the tool, and those that its runs can reach."""
    by_id = {node["id"]: index for index, node in nodes.items()}
    own = {"entry", "exit"}
    waiting = [index for index, node in nodes.items() if node.get("type") in own and node.get("tool") == tool]
    reached: set[int] = set()
    while waiting:
        index = waiting.pop()
        if index not in reached:
            reached.add(index)
            waiting += [by_id[way.target] for way in _ways(nodes[index]) if way.target in by_id]
    return {index: node for index, node in nodes.items() if index in reached}


_AFTER: Final = {"switch": "otherwise", "parallel": "joined", "forEach": "done"}


def _ways(node: Raw) -> Iterator[_Way]:
    kind = node.get("type")
    written: list[tuple[str, str, Any]] = []
    for number, condition in enumerate(map(as_mapping, as_list(node.get("conditions")))):
        label = f"condition {number + 1}" if "rule" in condition else "otherwise"
        key = "target" if "target" in condition else "next"
        written.append((f"conditions.{number}.{key}", label, condition.get(key)))
    for number, branch in enumerate(as_list(node.get("branches"))):
        written.append((f"branches.{number}", "branch", branch))
    written.append(("do", "each", node.get("do")))
    after = _AFTER.get(str(kind), "")
    if kind != "exit":
        written.append(("next", after, node.get("next")))
    written.append(("onError", "error", node.get("onError")))
    for key, label, target in written:
        if isinstance(target, str):
            yield _Way(source=node["id"], target=target, label=label, key=key)


def _drawn(nodes: dict[int, Raw], path: Path, source: Yaml) -> Raw:
    ids = {node["id"] for node in nodes.values()}
    ways = [way for node in nodes.values() for way in _ways(node)]
    # A way that leads nowhere yet is listed, but cannot be drawn.
    there = [way for way in ways if way.target in ids]
    loops = {
        node["id"]: (str(node.get("do")), str(node.get("next")))
        for node in nodes.values()
        if node.get("type") == "forEach"
    }
    around = ways_around([(way.source, way.target, way.label) for way in there], loops)
    entry = next((node["id"] for node in nodes.values() if node.get("type") == "entry"), None)
    texts = {node["id"]: _detail(node) for node in nodes.values()}
    drawing = laid_out(texts, around, entry)
    return {
        "nodes": [
            {
                "id": node["id"],
                "type": str(node.get("type", "")),
                "detail": texts[node["id"]],
                "path": [*path, index],
                "line": source.at((*path, index)).line,
                "settings": node,
            }
            for index, node in nodes.items()
        ],
        "ways": [asdict(way) for way in ways],
        "drawing": {
            "width": drawing.width,
            "height": drawing.height,
            "boxes": {box.id: asdict(box) for box in drawing.boxes},
            "lines": [
                {
                    "source": line.source,
                    "target": line.target,  # where it is drawn to: the loop, at the end of a round
                    "label": line.label,
                    "key": way.key,
                    "points": [list(point) for point in line.points],
                    "isBack": line.is_back,
                }
                for line, way in zip(drawing.lines, there, strict=True)
            ],
        },
    }


def _detail(node: Raw) -> str:
    """A node's work in one short line."""
    match node.get("type"):
        case "entry" | "exit":
            return ""
        case "mcp":
            return f"{node.get('tool', '?')} @ {node.get('server', '?')}"
        case "tool":
            return f"tool {node.get('tool', '?')}"
        case "forEach":
            return "for each"
        case "parallel":
            return f"parallel: {len(as_list(node.get('branches')))} branches"
        case kind:
            return str(kind or "no type")
