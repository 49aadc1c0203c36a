"""The layout of a graph's drawing: layers from top to bottom, few crossings, no overlaps.

After Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures" (1981),
in its simplest form: edges that close a cycle are set aside, every node gets a layer, long edges get a point
on each layer that they pass, and layers are sorted by the positions of their neighbours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .graph_model import reachable
from .nodes.node import Shape, Way

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .graph_model import GraphTool
    from .nodes import Node


_SPECIAL: Final = re.compile(r"[^\w .,:;/()\[\]-]")


def mermaid(tool: GraphTool) -> str:
    """Draws a tool as a flow chart. The chart has its own ids, as ids of nodes may be any text."""
    names = {node.id: f"n{number}" for number, node in enumerate(tool.nodes)}
    lines = ["flowchart TD"]
    lines += [f"    {names[node.id]}{_shape(node)}" for node in tool.nodes]
    for way, target in drawn_ways(tool):
        arrow = "-.->" if way.is_error else "-->"
        text = f'|"{_escaped(way.label)}"|' if way.label else ""
        lines.append(f"    {names[way.source]} {arrow}{text} {names[target]}")
    return "\n".join(lines) + "\n"


DrawnWay = tuple[Way, str]
"""A way, and the node to which it is drawn."""


def drawn_ways(tool: GraphTool) -> list[DrawnWay]:
    """The ways as runs take them; see `ways_around`."""
    return ways_around([way for node in tool.nodes for way in node.ways])


def ways_around(ways: Sequence[Way]) -> list[DrawnWay]:
    """The ways with those that end the chain of a forEach led back to its node.

    In a document, a chain ends at the node's ``next``; a run goes back to the node, which goes on there after
    the last entry.
    """
    out: dict[str, list[str]] = {}
    ends: dict[str, str] = {}
    for way in ways:
        out.setdefault(way.source, []).append(way.target)
        if way.key == ("next",):
            ends[way.source] = way.target
    # The nodes that run for each entry.
    chains = {
        way.source: reachable(out, [way.target], until=ends.get(way.source)) - {ends.get(way.source)}
        for way in ways
        if way.key == ("do",)
    }

    def drawn(way: Way) -> str:
        around = [loop for loop in chains if ends.get(loop) == way.target and way.source in chains[loop]]
        return min(around, key=lambda loop: len(chains[loop]), default=way.target)

    return [(way, drawn(way)) for way in ways]


def _shape(node: Node) -> str:
    label = _escaped(node.id)
    if extra := node.detail(node.written.raw):
        label = f"{label}<br/>{_escaped(extra)}"
    begin, end = {
        Shape.END: ("([", "])"),
        Shape.SWITCH: ("{", "}"),
        Shape.CALL: ("[[", "]]"),
        Shape.BOX: ("[", "]"),
    }[node.shape]
    return f'{begin}"{label}"{end}'


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"#{ord(match[0])};", text)


_CHARACTER: Final = 7.5
_HEIGHT, _GAP, _LAYER_GAP, _MARGIN = 44.0, 36.0, 52.0, 24.0
_NARROWEST, _WIDEST = 90.0, 300.0
_SWEEPS: Final = 8
_BEND_WIDTH: Final = 12.0
_BACK_GAP, _ASIDE = 14.0, 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The box of a node; x and y are its center."""

    id: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    way: Way
    target: str  # where it is drawn to: the loop, at the end of a round
    points: tuple[tuple[float, float], ...]  # its points, including the ends
    is_back: bool  # whether it leads to a node above, or back to its own node


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[DrawnLine, ...]


Bend = tuple[int, int]
"""A point of a long edge on a layer: index of the edge, layer."""


class _Layout:
    def __init__(self, texts: Mapping[str, str], ways: Sequence[DrawnWay], entry: str | None) -> None:
        # From the entry on, so that the edges which close a cycle are those that lead backward for a reader.
        self.nodes = sorted(texts, key=lambda node: node != entry)
        self.ways = ways
        self.back = self._ways_back()
        self.layer = self._layers()
        self.widths = {
            node: min(_WIDEST, max(_NARROWEST, _CHARACTER * max(len(node), len(text)) + 24))
            for node, text in texts.items()
        }
        self.rows, self.links = self._rows()
        self.x: dict[str | Bend, float] = {}

    def _ways_back(self) -> set[int]:
        """Indices of the edges that close a cycle, found by depth-first search from the entry node."""
        out: dict[str, list[int]] = {}
        for number, (way, _) in enumerate(self.ways):
            out.setdefault(way.source, []).append(number)
        back: set[int] = set()
        state: dict[str, bool] = {}  # True while the node is on the way down
        for start in self.nodes:
            if start in state:
                continue
            state[start] = True
            stack = [(start, iter(out.get(start, [])))]
            while stack:
                current, rest = stack[-1]
                number = next(rest, None)
                if number is None:
                    state[current] = False
                    stack.pop()
                    continue
                target = self.ways[number][1]
                if state.get(target):
                    back.add(number)
                elif target not in state:
                    state[target] = True
                    stack.append((target, iter(out.get(target, []))))
        return back

    def _layers(self) -> dict[str, int]:
        layer = dict.fromkeys(self.nodes, 0)
        forward = [way for number, way in enumerate(self.ways) if number not in self.back]
        # Without cycles the longest way has at most as many edges as there are nodes, so this always ends.
        for _ in self.nodes:
            moved = False
            for way, target in forward:
                if layer[target] <= layer[way.source]:
                    layer[target] = layer[way.source] + 1
                    moved = True
            if not moved:
                break
        return layer

    def _rows(self) -> tuple[list[list[str | Bend]], list[tuple[str | Bend, str | Bend]]]:
        rows: list[list[str | Bend]] = [[] for _ in range(max(self.layer.values(), default=0) + 1)]
        for node in self.widths:
            rows[self.layer[node]].append(node)
        links: list[tuple[str | Bend, str | Bend]] = []
        for number, (way, target) in enumerate(self.ways):
            if number in self.back:
                continue
            last: str | Bend = way.source
            for level in range(self.layer[way.source] + 1, self.layer[target]):
                bend = (number, level)
                rows[level].append(bend)
                links.append((last, bend))
                last = bend
            links.append((last, target))
        return rows, links

    def width_of(self, item: str | Bend) -> float:
        return self.widths[item] if isinstance(item, str) else _BEND_WIDTH

    def place(self) -> None:
        """Sorts every layer by the positions of its neighbours, then places every item."""
        above: dict[str | Bend, list[str | Bend]] = {}
        below: dict[str | Bend, list[str | Bend]] = {}
        for upper, lower in self.links:
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
        for row in self.rows:
            self._spread(row, [0.0] * len(row))
        # Down and up in turn: each way sorts by the neighbours that have just been placed.
        for sweep in range(_SWEEPS):
            neighbours = below if sweep % 2 else above
            for row in reversed(self.rows) if sweep % 2 else self.rows:
                wanted = {item: self._mean(neighbours.get(item, ()), self.x[item]) for item in row}
                row.sort(key=lambda item: wanted[item])
                self._spread(row, [wanted[item] for item in row])
        left = min((self.x[item] - self.width_of(item) / 2 for row in self.rows for item in row), default=0)
        for item in self.x:
            self.x[item] += _MARGIN - left

    def _mean(self, items: Sequence[str | Bend], otherwise: float) -> float:
        return sum(self.x[item] for item in items) / len(items) if items else otherwise

    def _spread(self, row: list[str | Bend], wanted: list[float]) -> None:
        """Places a row's items as near as possible to their wanted positions, without overlaps."""
        placed: list[float] = []
        for index, (item, where) in enumerate(zip(row, wanted, strict=True)):
            if index:
                before = row[index - 1]
                least = placed[-1] + (self.width_of(before) + self.width_of(item)) / 2 + _GAP
                placed.append(max(where, least))
            else:
                placed.append(where)
        # The mean shift to the right is removed, so that items move to both sides.
        shift = sum(w - p for w, p in zip(wanted, placed, strict=True)) / len(row) if row else 0.0
        for item, where in zip(row, placed, strict=True):
            self.x[item] = where + shift


def lay_out(tool: GraphTool) -> Drawing:
    """Lays out a tool's graph; see `laid_out`."""
    texts = {node.id: node.detail(node.written.raw) for node in tool.nodes}
    return laid_out(texts, drawn_ways(tool), tool.entry.id)


def laid_out(texts: Mapping[str, str], ways: Sequence[DrawnWay], entry: str | None) -> Drawing:
    """Lays out a graph, in pixels from the top left corner; all its edges lead to its own nodes.

    `texts` are what is written below the id of each node.
    """
    layout = _Layout(texts, ways, entry)
    layout.place()
    middle = [_MARGIN + _HEIGHT / 2 + level * (_HEIGHT + _LAYER_GAP) for level in range(len(layout.rows))]
    boxes = {
        node: Box(
            id=node,
            x=layout.x[node],
            y=middle[layout.layer[node]],
            width=layout.widths[node],
            height=_HEIGHT,
        )
        for node in texts
    }
    right = max(
        (layout.x[item] + layout.width_of(item) / 2 for row in layout.rows for item in row), default=0
    )
    lines: list[DrawnLine] = []
    for number, (way, target) in enumerate(layout.ways):
        start, end = boxes[way.source], boxes[target]
        is_back = number in layout.back
        if is_back:
            # Between the layers, so that the line does not cross a node.
            right += _GAP
            below, above = start.y + _HEIGHT / 2 + _BACK_GAP, end.y - _HEIGHT / 2 - _BACK_GAP
            points = (
                (start.x + _ASIDE, start.y + _HEIGHT / 2),
                (start.x + _ASIDE, below),
                (right, below),
                (right, above),
                (end.x + _ASIDE, above),
                (end.x + _ASIDE, end.y - _HEIGHT / 2),
            )
        else:
            bends = [
                (layout.x[number, level], middle[level])
                for level in range(layout.layer[way.source] + 1, layout.layer[target])
            ]
            points = ((start.x, start.y + _HEIGHT / 2), *bends, (end.x, end.y - _HEIGHT / 2))
        lines.append(DrawnLine(way=way, target=target, points=points, is_back=is_back))
    height = (middle[-1] if middle else 0) + _HEIGHT / 2 + _MARGIN
    return Drawing(width=right + _MARGIN + 40, height=height, boxes=tuple(boxes.values()), lines=tuple(lines))
