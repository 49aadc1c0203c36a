"""Reads ``tools`` in all layouts: nodes below their tool, or all nodes in one list of the document."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.yaml_text import (
    LIST,
    MAPPING,
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE,
    Fields,
    as_list,
    as_mapping,
    did_you_mean,
    key_path,
    kind_of,
)

from .document_checks import PlacedNode, PlacedTool
from .graph_model import (
    Dialect,
    Expression,
    GraphTool,
    InvalidExpression,
    Retry,
    Template,
    compiled,
    listable,
)
from .nodes import KINDS, CallingNode
from .nodes.node import Node, Written, kind_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from knime_mcp.yaml_text import Findings, Path


# https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


# "$.entry.path", "$entry", "$count(...)", "$$", "$previousNode()" or "$ ~> $keys()", but not "$5.00" or "$".
_LOOKS_LIKE_JSONATA: Final = re.compile(r"\$(?:[.$\[({^]|[^\W\d]|\s*(?:~>|[&=?!]))")


def looks_like_jsonata(text: str) -> bool:
    """Returns whether a text begins like an expression (``$.a``, ``$f(``), not like a price (``$5.00``)."""
    return _LOOKS_LIKE_JSONATA.match(text) is not None


class ToolReading:
    def __init__(self, findings: Findings, node_reading: NodeReading, raw: dict[str, Any]) -> None:
        self._findings = findings
        self._node_reading = node_reading
        self._raw = raw
        self._definitions: list[tuple[GraphTool, PlacedTool]] = []

    def placed(self) -> list[PlacedTool]:
        """Reads the tools, in the order of the document; of those with the same name the first one counts."""
        shared = self._raw.get("nodes")
        # Read once for all tools, so that a mistake in them is told once.
        everywhere = self._nodes(as_list(shared), ("nodes",)) if isinstance(shared, list) else None
        placed_tools: dict[str, PlacedTool] = {}
        for index, raw in enumerate(as_list(self._raw.get("tools"))):
            path: Path = ("tools", index)
            fields = self._findings.fields(raw, path)
            definition = None if fields is None else _definition(fields)
            tool = self._placed_tool(as_mapping(raw), path, everywhere)
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

    def tools(self) -> tuple[GraphTool, ...]:
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
        nodes = self._nodes(as_list(own_nodes), (*path, "nodes"))
        if everywhere is not None:
            nodes += _belonging(everywhere, called, self._node_reading.dialect)
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
            raw = as_mapping(placed.raw)
            owner = _owner(placed)
            if raw.get("type") in ("entry", "exit") and owner is None:
                fix = "Write tool: and the name of the tool that begins or ends here"
                self._findings.error("'tool' is missing", placed.path, fix)
            elif owner is not None and owner not in tools:
                message = f'this node belongs to the tool "{owner}", which the document does not have'
                self._findings.error(message, (*placed.path, "tool"), did_you_mean(owner, tools))
            elif placed.path not in used:
                message = f'Node "{placed.id or "?"}" is never reached from the entry node of any tool'
                self._findings.warn(
                    message, placed.path, "Set the 'next' of another node to it, or remove it"
                )

    def _schemas(self, tool: GraphTool, path: Path) -> None:
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
        for name, value in as_mapping(schema.get("properties")).items():
            if not isinstance(value, dict | bool):
                message = f"the property '{name}' must be a mapping, not {kind_of(value)}"
                self._findings.error(message, (*path, "properties", name))
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in as_list(required)):
            message = "'required' must be a list of names"
            self._findings.error(message, (*path, "required"), "Write it as [name, ...], beside 'properties'")
        if not isinstance(schema.get("description", ""), str):
            self._findings.error("'description' must be text", (*path, "description"), "Put it in quotes")
        return len(self._findings.problems) == before


def _definition(fields: Fields) -> GraphTool | None:
    """A tool without its nodes; None, after reporting the errors, if it is invalid."""
    annotations: dict[str, Any] | None = None
    if fields.get("annotations", MAPPING, default=None) is not None:
        hints = fields.inside("annotations")
        values = {"title": hints.optional_text("title")} | {
            key: hints.get(key, TRUTH, default=None) for key in _HINTS
        }
        annotations = {key: value for key, value in values.items() if value is not None}
        hints.end()
    definition = GraphTool(
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
    raw = as_mapping(placed.raw)
    owner = None if issubclass(kind_in(KINDS, raw), CallingNode) else raw.get("tool")
    return owner if isinstance(owner, str) else None


def _belonging(everywhere: list[PlacedNode], tool: str, dialect: Dialect) -> list[PlacedNode]:
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
            for way in placed.ways(dialect):
                waiting += by_id.get(way.target, [])
    return [placed for placed in everywhere if placed.path in reached]


def _last_of_each(nodes: Sequence[PlacedNode]) -> tuple[Node, ...]:
    """Removes duplicate ids: the last node with an id counts, at the place of the first."""
    nodes_by_id: dict[str, Node] = {}
    for placed in nodes:
        if placed.node is not None:
            nodes_by_id[placed.node.id] = placed.node
    return tuple(nodes_by_id.values())


_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)\s*")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class NodeReading:
    """Reads the nodes of one document."""

    def __init__(self, findings: Findings, dialect: Dialect) -> None:
        self.findings = findings
        self.dialect = dialect
        self._node = "Node"

    def node(self, raw: Any, path: Path) -> Node | None:
        """Reads one node; None, after reporting the errors, if it is invalid."""
        if not isinstance(raw, dict):
            self.findings.error(f"a node must be a mapping, not {kind_of(raw)}", path)
            return None
        values = cast("dict[str, Any]", raw)
        self._node = f'Node "{values.get("id")}"'
        fields = Fields(self.findings, values, path)
        kind = fields.get("type", default=None)
        made = KINDS.get(kind) if isinstance(kind, str) else None
        if made is None:
            self._unknown_type(values, path)
            return None
        if not issubclass(made, CallingNode):
            fields.optional_text("tool")  # whose node it is, in the common list
        node = made.read(fields, self)
        return node if fields.end() else None

    def _unknown_type(self, values: dict[str, Any], path: Path) -> None:
        known = ", ".join(KINDS)
        if "type" not in values:
            self.findings.error("'type' is missing", path, f"The types are {known}")
            return
        kind = values["type"]
        if isinstance(kind, str):
            fix = did_you_mean(kind, KINDS)
            self.findings.error(f"unknown node type '{kind}'; the types are {known}", (*path, "type"), fix)
        else:
            self.findings.error(f"'type' must be one of {known}, not {kind_of(kind)}", (*path, "type"))

    def common(self, fields: Fields) -> dict[str, Any]:
        """What most nodes have."""
        return {
            "id": fields.text("id"),
            "next": fields.text("next"),
            "on_error": fields.optional_text("onError"),
            "written": self.written(fields),
        }

    def written(self, fields: Fields) -> Written:
        return Written(raw=fields.values, path=fields.path, source=self.findings.source, dialect=self.dialect)

    def args(self, raw: dict[str, Any], path: Path) -> Template:
        if self.dialect is Dialect.NEXT:
            for name, value in raw.items():
                if name != "expr" and isinstance(value, str) and looks_like_jsonata(value):
                    message = f"{self._node}: the argument '{name}' is sent as text and not evaluated"
                    self.findings.warn(message, (*path, name), "Write an expression as {expr: ...}")
            return self._template(raw, path)
        templates: dict[str, Template] = {}
        for name, value in raw.items():
            # In this dialect every text with a dollar is an expression, as in the reference; nothing below
            # the top level is.
            is_expression = isinstance(value, str) and value.startswith("$")
            templates[name] = self.expression(value, (*path, name)) if is_expression else value
        return templates

    def _template(self, value: Any, path: Path) -> Template:
        if isinstance(value, list):
            entries = cast("list[Any]", value)
            return [self._template(entry, (*path, index)) for index, entry in enumerate(entries)]
        if not isinstance(value, dict):
            return value
        values = cast("dict[str, Any]", value)
        if "expr" not in values:
            return {name: self._template(entry, (*path, name)) for name, entry in values.items()}
        if len(values) == 1:
            return self._marked(values["expr"], path)
        where = key_path(path[path.index("args") :])
        self.findings.error(
            f"{self._node}: Invalid JSONata syntax in args: Invalid expression object at {where}:"
            f' object with "expr" property must have only that property. Found keys: {", ".join(values)}',
            path,
        )
        return values

    def _marked(self, value: Any, path: Path) -> Template:
        if isinstance(value, str):
            return self.expression(value, (*path, "expr"))
        kind = {bool: "boolean", int: "number", float: "number"}.get(cast("type[Any]", type(value)), "object")
        message = f'Invalid expression object: "expr" property must be a string, got {kind}'
        self.findings.fails(f"{self._node}: {message}; a run fails here", (*path, "expr"), "Put it in quotes")
        return InvalidExpression(message=message, position=self.findings.source.at((*path, "expr")))

    def expression(self, text: str, path: Path) -> Expression:
        return Expression(text=text, position=self.findings.source.value_at(path))

    def retry(self, fields: Fields) -> Retry | None:
        raw = fields.number("retry", WHOLE, MAPPING, default=None)
        if not isinstance(raw, dict):
            return None if raw is None else Retry(attempts=raw)
        inner, usual = fields.inside("retry"), Retry()
        retry = Retry(
            attempts=inner.number("attempts", WHOLE, default=usual.attempts),
            delay=self.seconds(inner, "delay", default=usual.delay),
            backoff=float(inner.number("backoff", NUMBER, default=usual.backoff, least=1)),
            max_delay=self.seconds(inner, "maxDelay", default=usual.max_delay),
            tool_errors=inner.get("toolErrors", TRUTH, default=usual.tool_errors),
        )
        inner.end()
        return retry

    def seconds(self, fields: Fields, key: str, default: float | None) -> Any:
        raw = fields.number(key, TEXT, NUMBER, default=default)
        if not isinstance(raw, str):
            return None if raw is None else float(raw)
        match = _DURATION.fullmatch(raw)
        seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
        if seconds <= 0:
            fix = "Write seconds as a number, or a text such as 500ms, 30s or 2m"
            self.findings.error(f"'{raw}' is not a duration", (*fields.path, key), fix)
        return seconds
