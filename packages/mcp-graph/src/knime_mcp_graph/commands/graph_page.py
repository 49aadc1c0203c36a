"""The page of ``mcpgraph show --html``: every tool drawn, its nodes in detail, and a recorded run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.runs.server_configs import StdioConfig, UrlConfig
from knime_mcp.tools.views.html import (
    Html,
    badge,
    details,
    element,
    heading,
    join,
    json_block,
    note,
    page,
    paragraph,
    properties,
    table,
)
from knime_mcp.types.texts import beginning, origin_and_path, shortened, visible
from knime_mcp.yaml_text import as_list, as_mapping

from ..graph_drawing import lay_out
from ..graph_model import shown_part
from ..nodes import ForEachNode, ToolNode
from ..nodes.node import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from knime_mcp.runs.server_configs import ServerConfig

    from ..graph_drawing import Box, Drawing, DrawnLine
    from ..graph_model import GraphDocument, GraphTool
    from ..nodes import Node


_MOST_RECORDS: Final = 500
_LONGEST_JSON: Final = 20_000
_TRANSPORTS: Final = {"http": "streamable HTTP", "sse": "HTTP+SSE", "auto": "HTTP"}


def graph_page(name: str, document: GraphDocument, tools: Sequence[GraphTool], recorded: Any = None) -> str:
    """Writes the page, self-contained; for what may be `recorded` see `read_run`."""
    run = read_run(recorded) if recorded is not None else None
    ran = tool_of(run, tools)
    server = document.server
    return page(
        f"{server.title} – graphs in {name}",
        STYLE,
        heading(1, server.title),
        paragraph(f"{name}, server {server.name} {server.version}", soft=True),
        paragraph(server.instructions) if server.instructions else None,
        note("This run is of a tool that is not shown here", kind="warning") if run and ran is None else None,
        join(_tool(index, tool, run if tool is ran else None) for index, tool in enumerate(tools)),
        _servers(document.servers),
    )


def _tool(index: int, tool: GraphTool, run: RecordedRun | None) -> Html:
    anchors = {node.id: f"tool{index}-node{number}" for number, node in enumerate(tool.nodes)}
    records = run.records if run is not None else ()
    # The others are of tools that it calls, whose nodes are not in this drawing.
    own = {number: record for number, record in enumerate(records) if calling_node(record, tool) is None}
    steps: dict[str, list[str]] = {}
    for number, record in own.items():
        steps.setdefault(str(record["nodeId"]), []).append(str(number))
    failed = frozenset(str(record["nodeId"]) for record in own.values() if record.get("error"))
    shown_steps = {node: _numbers(numbers) for node, numbers in steps.items()}
    return join(
        (
            heading(2, tool.name),
            paragraph(tool.description),
            drawing(tool, anchors, shown_steps, ways_taken(list(own.values()), tool), failed),
            _run(records, tool) if run is not None else None,
            details("Arguments and result", _schemas(tool)),
            heading(3, "Nodes"),
            join(_node(node, anchors[node.id], steps.get(node.id, ()), records) for node in tool.nodes),
        )
    )


def _numbers(numbers: Sequence[str]) -> str:
    return ", ".join(numbers) if len(numbers) <= 4 else f"{numbers[0]} … {numbers[-1]} ({len(numbers)}×)"


def _schemas(tool: GraphTool) -> Html:
    pairs = (("inputSchema", tool.input_schema), ("outputSchema", tool.output_schema))
    return join(join((heading(3, name), json_block(dict(schema)))) for name, schema in pairs)


def _run(records: Sequence[Mapping[str, Any]], tool: GraphTool) -> Html:
    """The path of a run: nodes, durations and outputs."""
    rows = [
        (
            str(number),
            _node_name(record, tool),
            str(record.get("nodeType", "")),
            f"{record['duration']:.1f} ms" if isinstance(record.get("duration"), int | float) else "",
            badge("failed", "bad") if record.get("error") else badge("ok", "good"),
            _one_line(record.get("output")),
        )
        for number, record in enumerate(records[:_MOST_RECORDS])
    ]
    left_out = len(records) - _MOST_RECORDS
    heads = ("Step", "Node", "Type", "Took", "", "Output")
    more = paragraph(f"… and {left_out} more steps", soft=True) if left_out > 0 else None
    return join((heading(3, "Recorded run"), element("div", table(heads, rows), class_="run"), more))


def _node_name(record: Mapping[str, Any], tool: GraphTool) -> str:
    """The node's id; for a node of a called tool, after the id of the calling node."""
    node, caller = str(record["nodeId"]), calling_node(record, tool)
    return node if caller is None else f"{caller} › {node}"


def _one_line(value: Any, limit: int = 100) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), limit)


def _node(node: Node, anchor: str, steps: Sequence[str], records: Sequence[Mapping[str, Any]]) -> Html:
    ways = ", ".join(f"{way.label} → {way.target}".lstrip() for way in node.ways)
    runs = [_step(int(step), records) for step in steps[:_MOST_RECORDS]]
    summary = join((node.id, " ", badge(node.kind), " ", badge(f"{len(steps)}×", "good") if steps else None))
    settings = tuple(
        (name, value if isinstance(value, str) else json.dumps(value)) for name, value in node.facts
    )
    facts = properties((("Where", f"line {node.position.line}"), ("Then", ways), *settings))
    body = join((facts, join(_code(name, shown_part(part)) for name, part in node.parts), join(runs)))
    return element("details", element("summary", summary), body, id=anchor, open=True)


def _step(number: int, records: Sequence[Mapping[str, Any]]) -> Html:
    """An execution of the node, with input and output."""
    record = records[number]
    # Without a recorded input, the output of the node before is shown instead.
    before = record["input"] if "input" in record else records[number - 1].get("output") if number else None
    error = record.get("error")
    return details(
        f"Step {number}",
        _code("Input", _bounded(before)) if number or "input" in record else None,
        note(_error_text(error), kind="bad") if error else _code("Output", _bounded(record.get("output"))),
        opened=number == 0 or bool(error),
    )


def _error_text(error: Any) -> str:
    message = as_mapping(error).get("message", error)
    return message if isinstance(message, str) else _one_line(message, 2000)


def _bounded(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= _LONGEST_JSON else beginning(text, _LONGEST_JSON)


def _code(name: str, value: Any) -> Html:
    return join((paragraph(name, soft=True), json_block(value)))


def _servers(servers: Mapping[str, ServerConfig]) -> Html | None:
    if not servers:
        return None
    rows = [(name, *_where(config)) for name, config in servers.items()]
    return join((heading(2, "Servers"), table(("Name", "Transport", "Where"), rows)))


def _where(config: ServerConfig) -> tuple[str, str]:
    """Transport and place; arguments, headers and queries may hold secrets and are not shown."""
    match config:
        case StdioConfig():
            return "stdio", config.command
        case UrlConfig():
            return _TRANSPORTS[config.transport], origin_and_path(config.url)


_LONGEST_LABEL: Final = 38
_CUT: Final = 10.0
STYLE: Final = Html("""<style>
.zoom { margin: 8px 0 0; color: var(--soft); font-size: 12px; } .zoom label { margin-right: 10px; }
.zoom:has(.fit:checked) + .graph svg { width: 100%; height: auto; max-height: 85vh; }
.zoom:has(.twice:checked) + .graph svg { zoom: 2; }
.graph { overflow: auto; max-height: 90vh; border: 1px solid var(--line); border-radius: 6px; }
.graph { margin: 8px 0 12px; }
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
    tool: GraphTool,
    anchors: Mapping[str, str],
    steps: Mapping[str, str],
    taken: frozenset[tuple[str, str]],
    failed: frozenset[str],
) -> Html:
    """Draws a tool, with a link to the details of each node.

    `steps` are texts about the run, by node; empty without a run. `taken` are the edges that the run took.
    """
    laid_out = lay_out(tool)
    marks = join(_marker(name) for name in ("plain", "taken"))
    lines = join(_line(line, (line.way.source, line.target) in taken) for line in laid_out.lines)
    boxes = join(
        _box(box, tool.by_id[box.id], anchors[box.id], steps.get(box.id), is_failed=box.id in failed)
        for box in laid_out.boxes
    )
    labels = join(_label(line) for line in laid_out.lines if line.way.label)
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
    zooms = (("fit", "Fit"), ("whole", "100 %"), ("twice", "200 %"))
    name = next(iter(anchors.values()), "").partition("-")[0]  # of the tool, as each has its own zoom
    choices = (_zoom(f"{name}-zoom", kind, text) for kind, text in zooms)
    bar = element("p", "Size: ", *choices, class_="zoom", role="radiogroup", aria_label="Size")
    # No script: the choice is in the style, and what does not fit is scrolled to.
    return element("div", bar, element("div", svg, class_="graph", tabindex="0"))


def _zoom(name: str, kind: str, text: str) -> Html:
    return element(
        "label", element("input", type="radio", name=name, class_=kind, checked=kind == "whole"), f" {text} "
    )


def _size(laid_out: Drawing) -> dict[str, str]:
    width, height = f"{laid_out.width:.0f}", f"{laid_out.height:.0f}"
    return {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}


def _marker(name: str) -> Html:
    path = element("path", d="M0,0 L8,4 L0,8 z", class_=f"head {name}")
    sizes = {"viewBox": "0 0 8 8", "refX": "7", "refY": "4", "markerWidth": "9", "markerHeight": "9"}
    return element("marker", path, id=f"head-{name}", orient="auto", markerUnits="userSpaceOnUse", **sizes)


def _line(line: DrawnLine, taken: bool) -> Html:
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
    kinds = f"way{' error' if line.way.is_error else ''}{' taken' if taken else ''}"
    mark = f"url(#head-{'taken' if taken else 'plain'})"
    return element("path", d=path, class_=kinds, marker_end=mark)


def _label(line: DrawnLine) -> Html:
    """The label at the beginning of an edge, where the edges of one node are apart from each other."""
    (x0, y0), (x1, y1) = line.points[1:3] if line.is_back else line.points[:2]
    part = 0.3 if line.is_back else 0.65
    x, y = x0 + (x1 - x0) * part, y0 + (y1 - y0) * part
    return element("text", visible(line.way.label), x=f"{x:.1f}", y=f"{y + 4:.1f}", class_="label")


def _box(box: Box, node: Node, anchor: str, step: str | None, *, is_failed: bool) -> Html:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    right, bottom = left + box.width, top + box.height
    kind = "node"
    if node.shape is Shape.SWITCH:
        points = (
            f"{left + _CUT},{top} {right - _CUT},{top} {right + _CUT},{box.y} {right - _CUT},{bottom}"
            f" {left + _CUT},{bottom} {left - _CUT},{box.y}"
        )
        shape = element("polygon", points=points, class_="shape")
    else:
        is_end = node.shape is Shape.END
        kind = "node end" if is_end else kind
        sizes = {
            "x": f"{left:.1f}",
            "y": f"{top:.1f}",
            "width": f"{box.width:.1f}",
            "height": f"{box.height:.1f}",
        }
        shape = element("rect", rx="22" if is_end else "6", class_="shape", **sizes)
    extra = node.detail(node.written.raw)
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
    return shortened(visible(text), _LONGEST_LABEL)


_OWNER: Final = re.compile(r"(.*?)#[0-9]+\[", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run that the executor recorded."""

    tool: str | None  # the tool that ran, or None if it is not recorded
    # one mapping per node that ran, in order, with ``nodeId``, ``nodeType``, ``output``, ``duration`` (ms),
    # ``error`` and, if it was recorded, ``input`` and ``branch``
    records: tuple[Mapping[str, Any], ...]


def read_run(recorded: Any) -> RecordedRun:
    """Reads a list of records, or a mapping with ``executionHistory`` or ``history``, and the ``tool``."""
    members = as_mapping(recorded)
    records = as_list(recorded) or as_list(members.get("executionHistory", members.get("history")))
    tool = members.get("tool", members.get("toolName"))
    return RecordedRun(
        tool=tool if isinstance(tool, str) else None,
        records=tuple(as_mapping(record) for record in records if "nodeId" in as_mapping(record)),
    )


def tool_of(run: RecordedRun | None, tools: Sequence[GraphTool]) -> GraphTool | None:
    """The tool that ran: the recorded tool, or the first tool that has all recorded nodes."""
    if run is None:
        return None
    if run.tool is not None:
        return next((tool for tool in tools if tool.name == run.tool), None)
    nodes = {str(record["nodeId"]) for record in run.records if not _line_of(record)}
    return next((tool for tool in tools if nodes <= set(tool.by_id)), None)


def calling_node(record: Mapping[str, Any], tool: GraphTool) -> str | None:
    """The node that called the tool of a record; None if the record is of the run's own tool."""
    owners = map(_owner_of, _line_of(record))
    return next((owner for owner in owners if isinstance(tool.by_id.get(owner), ToolNode)), None)


def ways_taken(records: Sequence[Mapping[str, Any]], tool: GraphTool) -> frozenset[tuple[str, str]]:
    """The edges that a run took.

    Branches and entries of a loop run at the same time: in each of them, a node follows the node before it in
    the same line, and the first node follows the node that the branch or entry belongs to.
    Returns pairs of the ids of nodes, from the records of the tool's own nodes.
    """
    lines: dict[tuple[str, ...], list[str]] = {}
    for record in records:
        lines.setdefault(_line_of(record), []).append(str(record["nodeId"]))
    edges = {way for nodes in lines.values() for way in pairwise(nodes)}
    for line, nodes in lines.items():
        if not line:
            continue
        owner = _owner_of(line[-1])
        edges.add((owner, nodes[0]))
        node = tool.by_id.get(owner)
        # The branches or entries have ended if the next node ran.
        if node is not None and node.next is not None and (owner, node.next) in edges:
            edges.add((nodes[-1], owner if isinstance(node, ForEachNode) else node.next))
    return frozenset(edges)


def _line_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The branches around a record, outermost first."""
    return tuple(str(name) for name in as_list(record.get("branch")))


def _owner_of(branch: str) -> str:
    """The node that a branch belongs to: ``fan`` of ``fan#3[left]``."""
    match = _OWNER.match(branch)
    return match[1] if match is not None else branch
