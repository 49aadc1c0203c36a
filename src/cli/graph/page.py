"""The page of ``knime-mcp graph show --html``: every tool drawn, its nodes in detail, and a recorded run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ...graph.nodes import (
    EntryNode,
    ExitNode,
    ForEachNode,
    McpNode,
    ParallelNode,
    SwitchNode,
    ToolNode,
    TransformNode,
    evaluated,
    exits,
    type_name,
)
from ...graph.raw_values import mapping
from ...graph.server_config import StdioConfig, UrlConfig
from ...tools.views.html import (
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
from ...types.errors import origin_and_path
from .drawing import STYLE, drawing
from .recorded_run import calling_node, read_run, tool_of, ways_taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...graph.model import GraphDocument, ToolDefinition
    from ...graph.nodes import Node
    from ...graph.server_config import ServerConfig
    from ...tools.views.html import Html
    from .recorded_run import RecordedRun

_MOST_RECORDS: Final = 500
_LONGEST_JSON: Final = 20_000
_TRANSPORTS: Final = {"http": "streamable HTTP", "sse": "HTTP+SSE", "auto": "HTTP"}


def graph_page(
    name: str, document: GraphDocument, tools: Sequence[ToolDefinition], recorded: Any = None
) -> str:
    """Writes the page.

    Args:
        name: Name of the file.
        document: The document.
        tools: Its tools that are shown.
        recorded: A recorded run as JSON; see `read_run`.

    Returns:
        A self-contained HTML page.
    """
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


def _tool(index: int, tool: ToolDefinition, run: RecordedRun | None) -> Html:
    anchors = {node.id: f"tool{index}-node{number}" for number, node in enumerate(tool.nodes)}
    records = run.records if run is not None else ()
    steps: dict[str, list[str]] = {}
    tool_records = [record for record in records if calling_node(record, tool) is None]
    for number, record in enumerate(records, 1):
        if calling_node(record, tool) is None:
            steps.setdefault(str(record["nodeId"]), []).append(str(number))
    failed = frozenset(str(record["nodeId"]) for record in tool_records if record.get("error"))
    shown_steps = {node: _numbers(numbers) for node, numbers in steps.items()}
    return join(
        (
            heading(2, tool.name),
            paragraph(tool.description),
            drawing(tool, anchors, shown_steps, ways_taken(tool_records, tool), failed),
            _run(records, tool) if run is not None else None,
            details("Arguments and result", _schemas(tool)),
            heading(3, "Nodes"),
            join(_node(node, anchors[node.id], steps.get(node.id, ()), records) for node in tool.nodes),
        )
    )


def _numbers(numbers: Sequence[str]) -> str:
    return ", ".join(numbers) if len(numbers) <= 4 else f"{numbers[0]} … {numbers[-1]} ({len(numbers)}×)"


def _schemas(tool: ToolDefinition) -> Html:
    pairs = (("inputSchema", tool.input_schema), ("outputSchema", tool.output_schema))
    return join(join((heading(3, name), json_block(dict(schema)))) for name, schema in pairs)


def _run(records: Sequence[Mapping[str, Any]], tool: ToolDefinition) -> Html:
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
        for number, record in enumerate(records[:_MOST_RECORDS], 1)
    ]
    left_out = len(records) - _MOST_RECORDS
    heads = ("Step", "Node", "Type", "Took", "", "Output")
    more = paragraph(f"… and {left_out} more steps", soft=True) if left_out > 0 else None
    return join((heading(3, "Recorded run"), element("div", table(heads, rows), class_="run"), more))


def _node_name(record: Mapping[str, Any], tool: ToolDefinition) -> str:
    """The node's id; for a node of a called tool, after the id of the calling node."""
    node, caller = str(record["nodeId"]), calling_node(record, tool)
    return node if caller is None else f"{caller} › {node}"


def _one_line(value: Any, limit: int = 100) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _node(node: Node, anchor: str, steps: Sequence[str], records: Sequence[Mapping[str, Any]]) -> Html:
    ways = ", ".join(f"{label} → {target}" if label else f"→ {target}" for label, target in exits(node))
    runs = [_step(int(step), records) for step in steps[:_MOST_RECORDS]]
    line = f"line {node.position.line}" if node.position is not None else None
    summary = join(
        (node.id, " ", badge(type_name(node)), " ", badge(f"{len(steps)}×", "good") if steps else None)
    )
    facts = properties((("Where", line), ("Then", ways), *_facts(node)))
    body = join((facts, join(_code(name, value) for name, value in evaluated(node)), join(runs)))
    return element("details", element("summary", summary), body, id=anchor, open=True)


def _step(number: int, records: Sequence[Mapping[str, Any]]) -> Html:
    """An execution of the node, with input and output."""
    record = records[number - 1]
    # Without a recorded input, the output of the node before is shown instead.
    before = (
        record["input"] if "input" in record else records[number - 2].get("output") if number > 1 else None
    )
    error = record.get("error")
    return details(
        f"Step {number}",
        _code("Input", _bounded(before)) if number > 1 or "input" in record else None,
        note(_error_text(error), kind="bad") if error else _code("Output", _bounded(record.get("output"))),
        opened=number == 1 or bool(error),
    )


def _error_text(error: Any) -> str:
    message = mapping(error).get("message", error)
    return message if isinstance(message, str) else _one_line(message, 2000)


def _bounded(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= _LONGEST_JSON else f"{text[:_LONGEST_JSON]}… ({len(text)} characters)"


def _code(name: str, value: Any) -> Html:
    return join((paragraph(name, soft=True), json_block(value)))


def _facts(node: Node) -> tuple[tuple[str, str | None], ...]:  # @NodeTypeDispatch
    match node:
        case McpNode():
            return (
                ("Server", node.server),
                ("Tool", node.tool),
                ("Attempts", str(node.retry.attempts) if node.retry else None),
                ("Timeout", f"{node.timeout:g} s" if node.timeout else None),
                ("Results kept", f"{node.cache.ttl:g} s" if node.cache else None),
            )
        case ToolNode():
            return (("Tool", node.tool),)
        case ParallelNode():
            return (("At once", str(node.max_concurrency) if node.max_concurrency else "all"),)
        case ForEachNode():
            return (("At once", str(node.max_concurrency)), ("Entries at most", str(node.max_items)))
        case EntryNode() | ExitNode() | TransformNode() | SwitchNode():
            return ()


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
