"""The model of a graph document, the same for every dialect: frozen, checked, ready to run.

`documents.load_document` makes these values. They are all that an executor needs; the dialect of the document
does not matter any more (`GraphDocument.dialect` is for people). The rules: ``docs/graph-documents.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from knime_mcp.client.limits import Limits
from knime_mcp.client.validation.schemas import CompiledSchema, compile_schema
from knime_mcp.types.errors import MCPError
from knime_mcp.types.texts import compact_json
from knime_mcp.yaml_text import Position, as_mapping

from .expressions.javascript import json_value
from .expressions.json_logic import vars_of
from .expressions.names import nothing_found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from knime_mcp.runs.server_configs import ServerConfig
    from knime_mcp.yaml_text import Problem

    from .nodes import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    text: str
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidExpression:
    """A value that is not an expression, in the place of one: evaluating it fails with this message.

    Like the reference, documents with such values can be loaded, and fail only when the value is used.
    """

    message: str
    position: Position | None = field(default=None, compare=False, repr=False)


#: Arguments: JSON in which any value, or the whole, may be an `Expression` (or `InvalidExpression`). Mappings
#: are dicts, sequences are lists.
Template = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of JSON Logic, as plain JSON. `standard`: a ``var`` is a path, as JSON Logic says."""

    value: Any
    standard: bool
    position: Position | None = field(default=None, compare=False, repr=False)


#: What a node evaluates.
Part = Any


def shown_part(part: Part) -> Any:
    """What a node evaluates as JSON: expressions in arguments as ``{expr: ...}``."""
    match part:
        case Expression():
            return part.text
        case InvalidExpression():
            return part.message
        case Rule():
            return part.value
        case dict():
            return {name: _marked(value) for name, value in cast("dict[str, Any]", part).items()}
        case list():
            return [_marked(value) for value in cast("list[Any]", part)]
        case _:
            return part


def _marked(part: Part) -> Any:
    return (
        {"expr": shown_part(part)} if isinstance(part, Expression | InvalidExpression) else shown_part(part)
    )


def nothing_found_by(node: Node, context: Mapping[str, Any]) -> list[str]:
    """The paths in a node's expressions that lead nowhere in a context."""
    texts = (text for _, part in node.parts for text in _expressions(part))
    return list(dict.fromkeys(path for text in texts for path in nothing_found(text, context)))


def _expressions(part: Part) -> Iterator[str]:
    match part:
        case Expression():
            yield part.text
        case Rule():
            yield from () if part.standard else vars_of(part.value)
        case dict() | list():
            inner = cast("dict[str, Any]", part)
            for value in inner.values() if isinstance(part, dict) else inner:
                yield from _expressions(value)
        case _:
            pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The number and timing of retries of a failed call."""

    attempts: int = 3  # total number of calls, including the first; at least 1
    delay: float = 0.5  # seconds before the second call
    backoff: float = 2.0  # factor for the delay before each further call; at least 1
    max_delay: float = 30.0  # maximum delay in seconds
    tool_errors: bool = False  # whether to retry also after an answer that says that the tool failed


def reachable(graph: Mapping[str, Sequence[str]], start: Sequence[str], until: str | None = None) -> set[str]:
    """All nodes that can be reached from some nodes, including these; the search stops at `until`."""
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting.extend(() if current == until else graph.get(current, ()))
    return seen


class Dialect(StrEnum):
    """The two ways in which documents are written.

    Attributes:
        TARGET: Switch conditions have a ``target``; an argument that begins with ``$`` is an expression.
        NEXT: Switch conditions have a ``next``; an argument ``{expr: ...}`` is an expression.
    """

    TARGET = "target"
    NEXT = "next"

    @property
    def other(self) -> Dialect:
        return Dialect.NEXT if self is Dialect.TARGET else Dialect.TARGET


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTool:
    """A tool and its graph.

    Attributes:
        nodes: The nodes, in the order of the document; ids are unique.
        title: Name for people, or None.
        annotations: MCP's hints about the tool (``readOnlyHint`` ...), or None.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    nodes: tuple[Node, ...]
    title: str | None = None
    annotations: Mapping[str, Any] | None = None
    position: Position | None = field(default=None, compare=False, repr=False)
    by_id: Mapping[str, Node] = field(init=False, compare=False, repr=False)
    input_schema_json: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {node.id: node for node in self.nodes})
        object.__setattr__(self, "input_schema_json", compact_json(json_value(dict(self.input_schema))))

    @property
    def entry(self) -> Node:
        return next(node for node in self.nodes if node.kind == "entry")

    @property
    def exit(self) -> Node:
        return next(node for node in self.nodes if node.kind == "exit")


def compiled(schema: Mapping[str, Any]) -> CompiledSchema:
    """Compiles a schema. An unusable schema has a `fault`, and all values are valid."""
    try:
        return compile_schema(compact_json(schema), Limits())
    except MCPError as error:
        return CompiledSchema(dict(schema), None, error.what)


def for_clients(tool: Mapping[str, Any], *, any_json: bool) -> dict[str, Any]:
    """A tool as MCP lists it; `any_json`: the client takes results that are not objects."""
    schema = as_mapping(tool.get("outputSchema"))
    # Clients compile output schemas, and refuse the whole list if one cannot be compiled.
    fits = (any_json or schema.get("type") == "object") and compiled(schema).fault is None
    return {key: value for key, value in tool.items() if fits or key != "outputSchema"}


def with_defaults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the defaults that a schema has for missing ones, also inside of objects."""
    filled = dict(arguments)
    for name, described in as_mapping(schema.get("properties")).items():
        inner = as_mapping(described)
        if name not in filled:
            filled |= {name: inner["default"]} if "default" in inner else {}
        elif isinstance(filled[name], dict) and "properties" in inner:
            filled[name] = with_defaults(inner, filled[name])
    return filled


def listable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in a form that can be listed: the schemas of its properties are objects.

    The official SDK for TypeScript refuses a whole list if the schema of a property is ``true`` or ``false``.
    """
    copy = json_value(dict(schema))
    properties = as_mapping(copy.get("properties"))
    if any(isinstance(property_, bool) for property_ in properties.values()):
        as_objects: dict[bool, Any] = {True: {}, False: {"not": {}}}
        copy["properties"] = {
            name: as_objects[property_] if isinstance(property_, bool) else property_
            for name, property_ in properties.items()
        }
    return copy


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetadata:
    """The description of the document's own server."""

    name: str
    version: str
    title: str  # name for people; the name if the document has none
    instructions: str | None = None  # how to use its tools, or None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionLimits:
    """The limits of a run, checked before each node."""

    max_node_executions: int = 1000
    max_execution_time_ms: int = 300_000
    max_memory_mb: int | None = None  # of all runs of a process together; None: as `run_state` has it


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDocument:
    version: str  # version of the format, from the document
    server: ServerMetadata
    limits: ExecutionLimits
    servers: Mapping[str, ServerConfig]  # the MCP servers that nodes call, by name
    tools: tuple[GraphTool, ...]  # the tools, in the order of the document; names are unique
    dialect: Dialect
    path: Path | None = None
    # what clients get of the servers themselves, by server
    # the warnings that ``check`` reports; the tools can run all the same
    warnings: tuple[Problem, ...] = field(default=(), compare=False, repr=False)

    def tool(self, name: str) -> GraphTool | None:
        return next((tool for tool in self.tools if tool.name == name), None)
