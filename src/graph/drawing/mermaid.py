"""A tool's graph as Mermaid text (https://mermaid.js.org/syntax/flowchart.html), for Markdown and wikis."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..nodes import (
    EntryNode,
    ExitNode,
    ForEachNode,
    McpNode,
    ParallelNode,
    SwitchNode,
    ToolNode,
    TransformNode,
    exits,
)

if TYPE_CHECKING:
    from ..model import ToolDefinition
    from ..nodes import Node

_SPECIAL: Final = re.compile(r"[^\w .,:;/()\[\]-]")


def mermaid(tool: ToolDefinition) -> str:
    """Draws a tool.

    Args:
        tool: The tool.

    Returns:
        The text of a flow chart. The chart has its own ids, as ids of nodes may be any text.
    """
    names = {node.id: f"n{number}" for number, node in enumerate(tool.nodes)}
    lines = ["flowchart TD"]
    lines += [f"    {names[node.id]}{_shape(node)}" for node in tool.nodes]
    for node in tool.nodes:
        for label, target in exits(node):
            arrow = "-.->" if label == "error" else "-->"
            text = f'|"{_escaped(label)}"|' if label else ""
            lines.append(f"    {names[node.id]} {arrow}{text} {names[target]}")
    return "\n".join(lines) + "\n"


def detail(node: Node) -> str:
    """A node's work in one short line; empty for entry and exit."""  # @NodeTypeDispatch
    match node:
        case EntryNode() | ExitNode():
            return ""
        case TransformNode():
            return "transform"
        case McpNode():
            return f"{node.tool} @ {node.server}"
        case SwitchNode():
            return "switch"
        case ParallelNode():
            return f"parallel: {len(node.branches)} branches"
        case ForEachNode():
            return "for each"
        case ToolNode():
            return f"tool {node.tool}"


def _shape(node: Node) -> str:
    label = _escaped(node.id)
    if extra := detail(node):
        label = f"{label}<br/>{_escaped(extra)}"
    match node:
        case EntryNode() | ExitNode():
            return f'(["{label}"])'
        case SwitchNode():
            return f'{{"{label}"}}'
        case McpNode() | ToolNode():
            return f'[["{label}"]]'
        case _:
            return f'["{label}"]'


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"#{ord(match[0])};", text)
