"""Reads ``tools`` in all layouts: nodes below their tool, or all nodes in one list of the document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ..model import ToolDefinition
from ..nodes import exits
from ..schemas import compiled, listable
from .fitting import did_you_mean
from .graph_checks import PlacedNode, PlacedTool
from .schema import AnnotationsYaml, ToolYaml
from .shapes import entries, kind_of, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..nodes import Node
    from .building import NodeBuilder
    from .fitting import Findings
    from .yaml_source import Path

# https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ToolReading:
    """Reads the tools of one document.

    Args:
        findings: Takes what is wrong.
        builder: Makes the nodes.
        raw: The document's values.
    """

    def __init__(self, findings: Findings, builder: NodeBuilder, raw: dict[str, Any]) -> None:
        self._findings = findings
        self._builder = builder
        self._raw = raw
        self._fitted: list[tuple[ToolYaml, PlacedTool]] = []

    def placed(self) -> list[PlacedTool]:
        """Reads the tools and notes what is wrong with each.

        Returns:
            The tools as they stand in the document, without those that a tool of the same name precedes.
        """
        shared = self._raw.get("nodes")
        everywhere = self._nodes(entries(shared), ("nodes",)) if isinstance(shared, list) else None
        found: dict[str, PlacedTool] = {}
        for index, raw in enumerate(entries(self._raw.get("tools"))):
            path: Path = ("tools", index)
            fitted = self._findings.fit(ToolYaml, raw, path)
            tool = self._placed(mapping(raw), path, everywhere)
            if tool.name in found:
                first = self._findings.source.at(found[tool.name].path).line
                said = f'the tool "{tool.name}" is also in line {first}; the first one counts'
                self._findings.warn(said, (*path, "name"), "Rename one of them")
                continue
            found[tool.name] = tool
            if fitted is not None:
                self._schemas(fitted, path)
                self._fitted.append((fitted, tool))
        if everywhere is not None:
            self._unused(everywhere, found)
        return list(found.values())

    def tools(self, placed: Iterable[PlacedTool]) -> tuple[ToolDefinition, ...]:
        """Makes the tools of a document that has no errors."""
        wanted = [tool.name for tool in placed]
        return tuple(
            ToolDefinition(
                name=fitted.name,
                description=fitted.description,
                input_schema={**listable(fitted.input_schema), "type": "object"},
                output_schema=listable(fitted.output_schema),
                nodes=_last_of_each(placed_tool.nodes),
                title=fitted.title,
                annotations=_annotations(fitted.annotations),
                position=self._findings.source.at(placed_tool.path),
            )
            for fitted, placed_tool in self._fitted
            if fitted.name in wanted
        )

    def _placed(self, raw: dict[str, Any], path: Path, everywhere: list[PlacedNode] | None) -> PlacedTool:
        name = raw.get("name")
        called = name if isinstance(name, str) else f"#{path[-1]}"
        if isinstance(name, str) and not _TOOL_NAME.fullmatch(name):
            said = f"some programs cannot call a tool named '{name}'"
            self._findings.warn(said, (*path, "name"), "Use letters, digits, '_', '-' and '.'")
        own = raw.get("nodes")
        nodes = self._nodes(entries(own), (*path, "nodes"))
        if everywhere is not None:
            nodes += _belonging(everywhere, called)
        elif own is None:
            fix = "Put them here, or all nodes into a list 'nodes' of the document"
            self._findings.error("'nodes' is missing", path, fix)
        return PlacedTool(name=called, path=path, nodes=nodes)

    def _nodes(self, raw: list[Any], path: Path) -> list[PlacedNode]:
        return [
            PlacedNode(raw=entry, path=(*path, index), node=self._builder.node(entry, (*path, index)))
            for index, entry in enumerate(raw)
        ]

    def _unused(self, everywhere: list[PlacedNode], tools: dict[str, PlacedTool]) -> None:
        used = {placed.path for tool in tools.values() for placed in tool.nodes}
        for placed in everywhere:
            raw = mapping(placed.raw)
            owner = _owner(placed)
            if raw.get("type") in ("entry", "exit") and owner is None:
                fix = "In this layout entry and exit nodes say whose they are"
                self._findings.error("'tool' is missing", placed.path, fix)
            elif owner is not None and owner not in tools:
                said = f'this node belongs to the tool "{owner}", which the document does not have'
                self._findings.error(said, (*placed.path, "tool"), did_you_mean(owner, tools))
            elif placed.path not in used:
                said = f'Node "{placed.id or "?"}" is never reached from the entry node of any tool'
                self._findings.warn(said, placed.path, "Lead a way to it, or remove it")

    def _schemas(self, fitted: ToolYaml, path: Path) -> None:
        for key, schema in (("inputSchema", fitted.input_schema), ("outputSchema", fitted.output_schema)):
            place = (*path, key)
            if not self._has_schema_form(schema, key, place):
                continue
            if schema["type"] != "object":
                what = "the arguments of a tool are" if key == "inputSchema" else "the result of a tool is"
                self._findings.warn(f"{what} always an object", (*place, "type"), "Write 'type: object'")
            said = compiled(listable(schema)).fault
            if said is not None:
                what = "Arguments are" if key == "inputSchema" else "Results are"
                self._findings.warn(f"'{key}': {said}", place, f"{what} not checked until it is corrected")

    def _has_schema_form(self, schema: dict[str, Any], key: str, path: Path) -> bool:
        """What the reference wants of a schema; everything else in it is only a warning."""
        before = len(self._findings.problems)
        if not isinstance(schema.get("type"), str):
            missing = "is missing in" if "type" not in schema else "must be text in"
            self._findings.error(f"'type' {missing} '{key}'", path, "Write 'type: object'")
        if "properties" in schema and not isinstance(schema["properties"], dict):
            said = f"'properties' must be a mapping, not {kind_of(schema['properties'])}"
            self._findings.error(said, (*path, "properties"))
        for name, value in mapping(schema.get("properties")).items():
            if not isinstance(value, dict | bool):
                said = f"the property '{name}' must be a mapping, not {kind_of(value)}"
                self._findings.error(said, (*path, "properties", name))
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in entries(required)):
            said = "'required' must be a list of names"
            self._findings.error(said, (*path, "required"), "It stands beside 'properties', not in them")
        if not isinstance(schema.get("description", ""), str):
            self._findings.error("'description' must be text", (*path, "description"), "Put it in quotes")
        return len(self._findings.problems) == before


def _annotations(raw: AnnotationsYaml | None) -> dict[str, Any] | None:
    if raw is None:
        return None
    return raw.model_dump(by_alias=True, exclude_none=True, exclude=set(raw.model_extra or ()))


def _owner(placed: PlacedNode) -> str | None:
    """The tool that a node of the common list says it belongs to; an mcp node's ``tool`` is another one."""
    raw = mapping(placed.raw)
    owner = raw.get("tool") if raw.get("type") not in ("mcp", "tool") else None
    return owner if isinstance(owner, str) else None


def _belonging(everywhere: list[PlacedNode], tool: str) -> list[PlacedNode]:
    """The nodes of the common list that say they are the tool's, and those its runs can get to."""
    by_id: dict[str, list[PlacedNode]] = {}
    for placed in everywhere:
        if placed.id is not None and _owner(placed) in (None, tool):
            by_id.setdefault(placed.id, []).append(placed)
    waiting = [placed for placed in everywhere if _owner(placed) == tool]
    found: set[Path] = set()
    while waiting:
        placed = waiting.pop()
        if placed.path not in found:
            found.add(placed.path)
            for _, target in exits(placed.node) if placed.node is not None else ():
                waiting += by_id.get(target, [])
    return [placed for placed in everywhere if placed.path in found]


def _last_of_each(nodes: Sequence[PlacedNode]) -> tuple[Node, ...]:
    """Ids are unique: the last node of an id counts, at the place of the first."""
    found: dict[str, Node] = {}
    for placed in nodes:
        if placed.node is not None:
            found[placed.node.id] = placed.node
    return tuple(found.values())
