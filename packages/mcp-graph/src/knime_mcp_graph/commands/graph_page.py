"""The page of ``mcpgraph show --html``: every tool drawn, its nodes in detail, and a recorded run."""

from __future__ import annotations

import json
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
from knime_mcp.yaml_text import as_mapping

from ..expressions.javascript import UNDEFINED, json_value
from ..graph_drawing import lay_out
from ..graph_model import shown_part
from ..nodes.node import Shape
from ..recorded_runs import callers, saved_records, ways_taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from knime_mcp.runs.server_configs import ServerConfig

    from ..graph_drawing import Box, Drawing, DrawnLine
    from ..graph_model import GraphDocument, GraphTool
    from ..nodes import Node
    from ..run_state import NodeRecord


_MOST_RECORDS: Final = 500
_LONGEST_JSON: Final = 20_000
_TRANSPORTS: Final = {"http": "streamable HTTP", "sse": "HTTP+SSE", "auto": "HTTP"}


def graph_page(name: str, document: GraphDocument, tools: Sequence[GraphTool], recorded: Any = None) -> str:
    """Writes the page, self-contained; `recorded` is a saved run, see `saved_records`."""
    records = [] if recorded is None else saved_records(recorded)
    ran = _tool_of(as_mapping(recorded), records, tools) if records else None
    server = document.server
    unknown = bool(records) and ran is None
    return page(
        f"{server.title} – graphs in {name}",
        STYLE,
        heading(1, server.title),
        paragraph(f"{name}, server {server.name} {server.version}", soft=True),
        paragraph(server.instructions) if server.instructions else None,
        note("This run is of a tool that is not shown here", kind="warning") if unknown else None,
        note("No node ran in this run", kind="warning") if recorded is not None and not records else None,
        join(_tool(index, tool, records if tool is ran else []) for index, tool in enumerate(tools)),
        _servers(document.servers),
    )


def _tool_of(
    run: Mapping[str, Any], records: Sequence[NodeRecord], tools: Sequence[GraphTool]
) -> GraphTool | None:
    """The tool that ran: the one that the run names, or else the first that has all of its nodes."""
    named = run.get("tool", run.get("toolName"))
    nodes = {record.node_id for record in records if not record.branch}
    return next(
        (tool for tool in tools if (tool.name == named if named else nodes <= tool.by_id.keys())), None
    )


def _tool(index: int, tool: GraphTool, records: Sequence[NodeRecord]) -> Html:
    anchors = {node.id: f"tool{index}-node{number}" for number, node in enumerate(tool.nodes)}
    ways = ways_taken(records)
    # The others are of tools that it calls, whose nodes are not in this drawing.
    own = [record for record, taken in zip(records, ways, strict=True) if taken is not None]
    steps: dict[str, list[str]] = {}
    for record in own:
        steps.setdefault(record.node_id, []).append(str(record.index))
    failed = frozenset(record.node_id for record in own if record.error)
    shown_steps = {node: _numbers(numbers) for node, numbers in steps.items()}
    taken = frozenset(way for listed in ways for way in listed or ())
    return join(
        (
            heading(2, tool.name),
            paragraph(tool.description),
            drawing(tool, anchors, shown_steps, taken, failed),
            _run(records) if records else None,
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


def _run(records: Sequence[NodeRecord]) -> Html:
    """The path of a run: nodes, durations and outputs."""
    by_index = {record.index: record for record in records}
    rows = [
        (
            str(record.index),
            " › ".join([*callers(record, by_index), record.node_id]),
            record.node_type,
            "" if record.duration is None else f"{record.duration:.1f} ms",
            badge("failed", "bad") if record.error else badge("ok", "good"),
            _one_line(json_value(record.output)),
        )
        for record in records[:_MOST_RECORDS]
    ]
    left_out = len(records) - _MOST_RECORDS
    heads = ("Step", "Node", "Type", "Took", "", "Output")
    more = paragraph(f"… and {left_out} more steps", soft=True) if left_out > 0 else None
    return join((heading(3, "Recorded run"), element("div", table(heads, rows), class_="run"), more))


def _one_line(value: Any, limit: int = 100) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), limit)


def _node(node: Node, anchor: str, steps: Sequence[str], records: Sequence[NodeRecord]) -> Html:
    ways = ", ".join(f"{way.label} → {way.target}".lstrip() for way in node.ways)
    runs = [_step(int(step), records) for step in steps[:_MOST_RECORDS]]
    summary = join((node.id, " ", badge(node.kind), " ", badge(f"{len(steps)}×", "good") if steps else None))
    settings = tuple(
        (name, value if isinstance(value, str) else json.dumps(value)) for name, value in node.facts
    )
    facts = properties((("Where", f"line {node.position.line}"), ("Then", ways), *settings))
    body = join((facts, join(_code(name, shown_part(part)) for name, part in node.parts), join(runs)))
    return element("details", element("summary", summary), body, id=anchor, open=True)


def _step(number: int, records: Sequence[NodeRecord]) -> Html:
    """An execution of the node, with input and output."""
    record = records[number]
    # Without a recorded input, the output of the node before is shown instead.
    before = records[number - 1].output if number and record.input is UNDEFINED else record.input
    output = _code("Output", _bounded(record.output))
    return details(
        f"Step {number}",
        None if before is UNDEFINED and not number else _code("Input", _bounded(before)),
        note(record.error, kind="bad") if record.error else output,
        opened=number == 0 or bool(record.error),
    )


def _bounded(value: Any) -> Any:
    value = json_value(value)
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
