"""Reads ``tools`` in all layouts: nodes below their tool, or all nodes in one list of the document."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...yaml_text import LIST, MAPPING, TRUTH, did_you_mean, kind_of
from ..model import ToolDefinition
from ..nodes import exits
from ..raw_values import entries, mapping
from ..schemas import compiled, listable
from .graph_checks import PlacedNode, PlacedTool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...yaml_text import Fields, Findings, Path
    from ..nodes import Node
    from .node_reading import NodeReading

# https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ToolReading:
    """Reads the tools of one document.

    Args:
        findings: Collects the problems.
        node_reading: Reads the nodes.
        raw: The document's values.
    """

    def __init__(self, findings: Findings, node_reading: NodeReading, raw: dict[str, Any]) -> None:
        self._findings = findings
        self._node_reading = node_reading
        self._raw = raw
        self._definitions: list[tuple[ToolDefinition, PlacedTool]] = []

    def placed(self) -> list[PlacedTool]:
        """Reads the tools and reports their problems.

        Returns:
            The tools in the order of the document; of tools with the same name only the first.
        """
        shared = self._raw.get("nodes")
        everywhere = self._nodes(entries(shared), ("nodes",)) if isinstance(shared, list) else None
        placed_tools: dict[str, PlacedTool] = {}
        for index, raw in enumerate(entries(self._raw.get("tools"))):
            path: Path = ("tools", index)
            fields = self._findings.fields(raw, path)
            definition = None if fields is None else _definition(fields)
            tool = self._placed_tool(mapping(raw), path, everywhere)
            if tool.name in placed_tools:
                first = self._findings.source.at(placed_tools[tool.name].path).line
                message = f'the tool "{tool.name}" is also defined on line {first}; the first one counts'
                self._findings.warn(message, (*path, "name"), "Rename one of them")
                continue
            placed_tools[tool.name] = tool
            if definition is not None:
                self._schemas(definition, path)
                self._definitions.append((definition, tool))
        if everywhere is not None:
            self._unused(everywhere, placed_tools)
        return list(placed_tools.values())

    def tools(self) -> tuple[ToolDefinition, ...]:
        """Makes the tools of a document that has no errors, after they were read."""
        return tuple(
            replace(
                definition,
                input_schema={**listable(definition.input_schema), "type": "object"},
                output_schema=listable(definition.output_schema),
                nodes=_last_of_each(placed.nodes),
            )
            for definition, placed in self._definitions
        )

    def _placed_tool(
        self, raw: dict[str, Any], path: Path, everywhere: list[PlacedNode] | None
    ) -> PlacedTool:
        name = raw.get("name")
        called = name if isinstance(name, str) else f"#{path[-1]}"
        if isinstance(name, str) and not _TOOL_NAME.fullmatch(name):
            message = f"some programs cannot call a tool named '{name}'"
            self._findings.warn(message, (*path, "name"), "Use letters, digits, '_', '-' and '.'")
        own_nodes = raw.get("nodes")
        nodes = self._nodes(entries(own_nodes), (*path, "nodes"))
        if everywhere is not None:
            nodes += _belonging(everywhere, called)
        elif own_nodes is None:
            fix = "Put them here, or all nodes into a list 'nodes' of the document"
            self._findings.error("'nodes' is missing", path, fix)
        return PlacedTool(name=called, path=path, nodes=nodes)

    def _nodes(self, raw: list[Any], path: Path) -> list[PlacedNode]:
        return [
            PlacedNode(raw=entry, path=(*path, index), node=self._node_reading.node(entry, (*path, index)))
            for index, entry in enumerate(raw)
        ]

    def _unused(self, everywhere: list[PlacedNode], tools: dict[str, PlacedTool]) -> None:
        used = {placed.path for tool in tools.values() for placed in tool.nodes}
        for placed in everywhere:
            raw = mapping(placed.raw)
            owner = _owner(placed)
            if raw.get("type") in ("entry", "exit") and owner is None:
                fix = "In this layout, entry and exit nodes name their tool"
                self._findings.error("'tool' is missing", placed.path, fix)
            elif owner is not None and owner not in tools:
                message = f'this node belongs to the tool "{owner}", which the document does not have'
                self._findings.error(message, (*placed.path, "tool"), did_you_mean(owner, tools))
            elif placed.path not in used:
                message = f'Node "{placed.id or "?"}" is never reached from the entry node of any tool'
                self._findings.warn(
                    message, placed.path, "Set the 'next' of another node to it, or remove it"
                )

    def _schemas(self, tool: ToolDefinition, path: Path) -> None:
        for key, schema in (("inputSchema", tool.input_schema), ("outputSchema", tool.output_schema)):
            place = (*path, key)
            if not self._has_schema_form(schema, key, place):
                continue
            if schema["type"] != "object":
                what = "the arguments of a tool are" if key == "inputSchema" else "the result of a tool is"
                self._findings.warn(f"{what} always an object", (*place, "type"), "Write 'type: object'")
            fault = compiled(listable(schema)).fault
            if fault is not None:
                what = "Arguments are" if key == "inputSchema" else "Results are"
                self._findings.warn(f"'{key}': {fault}", place, f"{what} not checked until it is corrected")

    def _has_schema_form(self, schema: Mapping[str, Any], key: str, path: Path) -> bool:
        """Returns whether a schema has the form that the reference requires; other mistakes are warnings."""
        before = len(self._findings.problems)
        if not isinstance(schema.get("type"), str):
            missing = "is missing in" if "type" not in schema else "must be text in"
            self._findings.error(f"'type' {missing} '{key}'", path, "Write 'type: object'")
        if "properties" in schema and not isinstance(schema["properties"], dict):
            message = f"'properties' must be a mapping, not {kind_of(schema['properties'])}"
            self._findings.error(message, (*path, "properties"))
        for name, value in mapping(schema.get("properties")).items():
            if not isinstance(value, dict | bool):
                message = f"the property '{name}' must be a mapping, not {kind_of(value)}"
                self._findings.error(message, (*path, "properties", name))
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in entries(required)):
            message = "'required' must be a list of names"
            self._findings.error(message, (*path, "required"), "Write it as [name, ...], beside 'properties'")
        if not isinstance(schema.get("description", ""), str):
            self._findings.error("'description' must be text", (*path, "description"), "Put it in quotes")
        return len(self._findings.problems) == before


def _definition(fields: Fields) -> ToolDefinition | None:
    """A tool without its nodes; None, after reporting the errors, if it is invalid."""
    annotations: dict[str, Any] | None = None
    if fields.get("annotations", MAPPING, default=None) is not None:
        hints = fields.inside("annotations")
        values = {"title": hints.optional_text("title")} | {
            key: hints.get(key, TRUTH, default=None) for key in _HINTS
        }
        annotations = {key: value for key, value in values.items() if value is not None}
        hints.end()
    definition = ToolDefinition(
        name=fields.text("name"),
        description=fields.text("description"),
        input_schema=fields.mapping("inputSchema"),
        output_schema=fields.mapping("outputSchema"),
        title=fields.optional_text("title"),
        nodes=(),
        annotations=annotations,
        position=fields.position,
    )
    fields.get("nodes", LIST, default=None)
    return definition if fields.end() else None


def _owner(placed: PlacedNode) -> str | None:
    """The tool that a node of the common list belongs to; in an mcp node, ``tool`` is the tool to call."""
    raw = mapping(placed.raw)
    owner = raw.get("tool") if raw.get("type") not in ("mcp", "tool") else None
    return owner if isinstance(owner, str) else None


def _belonging(everywhere: list[PlacedNode], tool: str) -> list[PlacedNode]:
    """The nodes of the common list that name the tool, and the nodes that its runs can reach."""
    by_id: dict[str, list[PlacedNode]] = {}
    for placed in everywhere:
        if placed.id is not None and _owner(placed) in (None, tool):
            by_id.setdefault(placed.id, []).append(placed)
    waiting = [placed for placed in everywhere if _owner(placed) == tool]
    reached: set[Path] = set()
    while waiting:
        placed = waiting.pop()
        if placed.path not in reached:
            reached.add(placed.path)
            for _, target in exits(placed.node) if placed.node is not None else ():
                waiting += by_id.get(target, [])
    return [placed for placed in everywhere if placed.path in reached]


def _last_of_each(nodes: Sequence[PlacedNode]) -> tuple[Node, ...]:
    """Removes duplicate ids: the last node with an id counts, at the place of the first."""
    nodes_by_id: dict[str, Node] = {}
    for placed in nodes:
        if placed.node is not None:
            nodes_by_id[placed.node.id] = placed.node
    return tuple(nodes_by_id.values())
