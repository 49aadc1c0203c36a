"""A graph as SVG: the nodes are links to their details, edges are arrows, and a recorded run is in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...graph.drawing.layout import lay_out
from ...graph.drawing.mermaid import detail
from ...graph.nodes import EntryNode, ExitNode, SwitchNode
from ...tools.hidden_text import visible
from ...tools.views.html import Html, element, join

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...graph.drawing.layout import Box, Drawing, Line
    from ...graph.model import ToolDefinition
    from ...graph.nodes import Node

_LONGEST_LABEL: Final = 38
_CUT: Final = 10.0
STYLE: Final = Html("""<style>
.graph { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; margin: 8px 0 12px; }
.graph svg { display: block; margin: 0 auto; font: 13px Roboto, "Segoe UI", system-ui, sans-serif; }
.graph .shape { fill: var(--tint); stroke: var(--soft); } .graph a { text-decoration: none; }
.graph .end .shape { fill: var(--paper); }
.graph .taken .shape { fill: var(--good-tint); stroke: var(--good); }
.graph .failed .shape { fill: var(--bad-tint); stroke: var(--bad); }
.graph a:hover .shape, .graph a:focus .shape { stroke-width: 2.5; }
.graph text { fill: var(--ink); text-anchor: middle; } .graph .small { fill: var(--soft); font-size: 11px; }
.graph .way { fill: none; stroke: var(--soft); } .graph .way.error { stroke-dasharray: 5 4; }
.graph .way.taken { stroke: var(--good); stroke-width: 2.5; }
.graph .head { fill: var(--soft); } .graph .head.taken { fill: var(--good); }
.graph .label { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; fill: var(--soft);
  font-size: 11px; }
.run td:nth-child(-n+5) { white-space: nowrap; overflow-wrap: normal; }
details:target { border-color: var(--link); box-shadow: 0 0 0 2px var(--link); }
</style>""")


def drawing(
    tool: ToolDefinition,
    anchors: Mapping[str, str],
    steps: Mapping[str, str],
    taken: frozenset[tuple[str, str]],
    failed: frozenset[str],
) -> Html:
    """Draws a tool.

    Args:
        tool: The tool.
        anchors: Id of the details in the page, by node.
        steps: Text about the run, by node; empty without a run.
        taken: The edges that the run took.
        failed: The nodes that failed in the run.

    Returns:
        The SVG in its frame.
    """
    laid_out = lay_out(tool)
    marks = join(_marker(name) for name in ("plain", "taken"))
    lines = join(_line(line, (line.source, line.target) in taken) for line in laid_out.lines)
    boxes = join(
        _box(box, tool.by_id[box.id], anchors[box.id], steps.get(box.id), is_failed=box.id in failed)
        for box in laid_out.boxes
    )
    labels = join(_label(line) for line in laid_out.lines if line.label)
    svg = element(
        "svg",
        element("title", visible(f"Graph of {tool.name}")),
        element("defs", marks),
        lines,
        boxes,
        labels,
        role="img",
        **_size(laid_out),
    )
    return element("div", svg, class_="graph")


def _size(laid_out: Drawing) -> dict[str, str]:
    width, height = f"{laid_out.width:.0f}", f"{laid_out.height:.0f}"
    return {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}


def _marker(name: str) -> Html:
    path = element("path", d="M0,0 L8,4 L0,8 z", class_=f"head {name}")
    sizes = {"viewBox": "0 0 8 8", "refX": "7", "refY": "4", "markerWidth": "9", "markerHeight": "9"}
    return element("marker", path, id=f"head-{name}", orient="auto", markerUnits="userSpaceOnUse", **sizes)


def _line(line: Line, taken: bool) -> Html:
    start, *between, end = line.points
    if line.is_back:
        corners = " ".join(f"L{x:.1f},{y:.1f}" for x, y in (*between, end))
        path = f"M{start[0]:.1f},{start[1]:.1f} {corners}"
    else:
        path = f"M{start[0]:.1f},{start[1]:.1f}"
        before = start
        for x, y in (*between, end):
            middle = (before[1] + y) / 2
            path += f" C{before[0]:.1f},{middle:.1f} {x:.1f},{middle:.1f} {x:.1f},{y:.1f}"
            before = (x, y)
    kinds = f"way{' error' if line.label == 'error' else ''}{' taken' if taken else ''}"
    mark = f"url(#head-{'taken' if taken else 'plain'})"
    return element("path", d=path, class_=kinds, marker_end=mark)


def _label(line: Line) -> Html:
    """The label at the beginning of an edge, where the edges of one node are apart from each other."""
    (x0, y0), (x1, y1) = line.points[1:3] if line.is_back else line.points[:2]
    part = 0.3 if line.is_back else 0.45
    x, y = x0 + (x1 - x0) * part, y0 + (y1 - y0) * part
    return element("text", visible(line.label), x=f"{x:.1f}", y=f"{y + 4:.1f}", class_="label")


def _box(box: Box, node: Node, anchor: str, step: str | None, *, is_failed: bool) -> Html:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    right, bottom = left + box.width, top + box.height
    kind = "node"
    if isinstance(node, SwitchNode):
        points = (
            f"{left + _CUT},{top} {right - _CUT},{top} {right + _CUT},{box.y} {right - _CUT},{bottom}"
            f" {left + _CUT},{bottom} {left - _CUT},{box.y}"
        )
        shape = element("polygon", points=points, class_="shape")
    else:
        is_end = isinstance(node, EntryNode | ExitNode)
        kind = "node end" if is_end else kind
        sizes = {
            "x": f"{left:.1f}",
            "y": f"{top:.1f}",
            "width": f"{box.width:.1f}",
            "height": f"{box.height:.1f}",
        }
        shape = element("rect", rx="22" if is_end else "6", class_="shape", **sizes)
    extra = detail(node)
    name_y = box.y + (4.5 if not extra else -2)
    texts = [element("text", _short(node.id), x=f"{box.x:.1f}", y=f"{name_y:.1f}")]
    if extra:
        texts.append(element("text", _short(extra), x=f"{box.x:.1f}", y=f"{box.y + 14:.1f}", class_="small"))
    if step is not None:
        kind += " failed" if is_failed else " taken"
        texts.append(element("text", step, x=f"{left - 4:.1f}", y=f"{top - 4:.1f}", class_="small"))
    hint = element("title", visible(f"{node.id}: {extra}" if extra else node.id))
    return element("a", hint, shape, *texts, href=f"#{anchor}", class_=kind)


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
