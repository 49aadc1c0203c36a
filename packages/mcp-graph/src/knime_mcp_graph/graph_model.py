"""The model of a graph document, the same for every dialect: frozen, checked, ready to run.

`documents.load_document` makes these values. They are all that an executor needs; the dialect of the document
does not matter any more (`GraphDocument.dialect` is for people). The rules: ``docs/graph-documents.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from knime_mcp.client.limits import Limits
from knime_mcp.client.validation.schemas import CompiledSchema, compile_schema
from knime_mcp.types.errors import MCPError
from knime_mcp.types.texts import compact_json
from knime_mcp.yaml_text import Position, as_mapping

from .expressions.javascript import json_value
from .expressions.json_logic import vars_of
from .expressions.plain_paths import nothing_found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from knime_mcp.runs.server_configs import ServerConfig
    from knime_mcp.yaml_text import Problem


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


def template_json(template: Template) -> Any:
    """A template as JSON, with expressions as ``{expr: ...}``."""
    match template:
        case Expression():
            return {"expr": template.text}
        case InvalidExpression():
            return {"expr": template.message}
        case dict():
            return {name: template_json(value) for name, value in cast("dict[str, Any]", template).items()}
        case list():
            return [template_json(value) for value in cast("list[Any]", template)]
        case _:
            return template


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The number and timing of retries of a failed call."""

    attempts: int = 3  # total number of calls, including the first; at least 1
    delay: float = 0.5  # seconds before the second call
    backoff: float = 2.0  # factor for the delay before each further call; at least 1
    max_delay: float = 30.0  # maximum delay in seconds
    tool_errors: bool = False  # whether to retry also after an answer that says that the tool failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """The caching of a read-only call's results for `ttl` seconds, for calls with the same arguments."""

    ttl: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBase:
    """What all nodes have: an id that is unique in the tool, and a place in the document."""

    id: str
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryNode(NodeBase):
    """The beginning of a run; its output is the arguments."""

    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitNode(NodeBase):
    """The end of a run; its output is the output of the node before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformNode(NodeBase):
    """Evaluates an expression on the context."""

    expression: Expression
    next: str
    on_error: str | None = None  # node that follows if this one fails; None ends the run


@dataclass(frozen=True, slots=True, kw_only=True)
class McpNode(NodeBase):
    """Calls a tool on an MCP server."""

    server: str  # key in `GraphDocument.servers`
    tool: str
    # arguments: name to template (JSON with `Expression` values in it), or an expression for all
    args: Template
    next: str
    on_error: str | None = None  # node that follows if the call fails for good; None ends the run
    retry: Retry | None = None  # the retries; None: no retries
    timeout: float | None = None  # seconds for one call; None: the default
    cache: Cache | None = None  # the caching of results; None: no caching
    # the places of its keys, by the keys below the node: ``("tool",)``, ``("args", "path")``
    places: Mapping[tuple[str, ...], Position] = field(
        default_factory=dict[tuple[str, ...], Position], compare=False, repr=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a switch and its target."""

    rule: Any  # JSON Logic as plain JSON; meaningless if `always`
    next: str
    always: bool = False  # whether the condition has no rule and holds always
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchNode(NodeBase):
    """Continues at the target of the first rule that holds; the output is the id of that node."""

    conditions: tuple[Condition, ...]  # the conditions, in the order in which they are tried
    default: str | None = None  # node that follows if no rule holds; None makes that an error
    standard: bool = False  # whether a ``var`` is a path, as in JSON Logic's standard, and not JSONata


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelNode(NodeBase):
    """Runs several branches at once.

    A branch is the chain of nodes from its first node up to, but without, the node `next`. It sees the
    context from before the branches, and its own nodes. The output is an object: the id of each branch's
    first node to the output of its last node.
    """

    branches: tuple[str, ...]  # first node of each branch
    next: str  # node where the branches meet
    on_error: str | None = None  # node that follows if a branch fails; None ends the run
    max_concurrency: int | None = None  # maximum number of branches that run at the same time; None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEachNode(NodeBase):
    """Runs a chain of nodes for each entry of a list.

    The chain begins with the node `body` and goes up to, but without, the node `next`. In the chain, the
    value of this node's id is ``{"item": ..., "index": ...}`` (index from 0). The node's output is the list
    of the outputs of the chain's last nodes, in the order of the entries.
    """

    # expression for the list; undefined is an empty list, a single value a list with one entry
    items: Expression
    body: str  # first node of the chain
    next: str  # node that follows after the last entry
    on_error: str | None = None  # node that follows if an entry fails; None ends the run
    max_concurrency: int = 1
    max_items: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNode(NodeBase):
    """Calls another tool of the same document."""

    tool: str
    args: Template
    next: str
    on_error: str | None = None
    retry: Retry | None = None
    timeout: float | None = None  # seconds for one call; None: the rest of the run's time


_Working = TransformNode | McpNode | SwitchNode | ParallelNode | ForEachNode | ToolNode
Node = EntryNode | ExitNode | _Working


def type_name(node: Node) -> str:
    return _written(type(node))


def _written(kind: type[Node]) -> str:
    name = kind.__name__.removesuffix("Node")
    return name[0].lower() + name[1:]


NODE_TYPES: Final = tuple(_written(kind) for kind in get_args(Node))


def evaluated(node: Node) -> tuple[tuple[str, Any], ...]:
    """The expressions of a node: pairs of a name and an expression, arguments, or a JSON Logic rule."""
    # @NodeTypeDispatch
    match node:
        case TransformNode():
            return (("expression", node.expression.text),)
        case ForEachNode():
            return (("items", node.items.text),)
        case McpNode() | ToolNode():
            return (("arguments", template_json(node.args)),)
        case SwitchNode():
            return tuple(
                (f"rule {number} → {condition.next}", condition.rule)
                for number, condition in enumerate(node.conditions, 1)
                if not condition.always
            )
        case EntryNode() | ExitNode() | ParallelNode():
            return ()


def nothing_found_by(node: Node, context: Mapping[str, Any]) -> list[str]:
    """The paths in a node's expressions that lead nowhere in a context."""
    match node:
        case TransformNode():
            texts = [node.expression.text]
        case ForEachNode():
            texts = [node.items.text]
        case McpNode() | ToolNode():
            texts = list(_expressions(node.args))
        case SwitchNode() if not node.standard:
            texts = [text for condition in node.conditions for text in vars_of(condition.rule)]
        case _:
            return []
    return list(dict.fromkeys(path for text in texts for path in nothing_found(text, context)))


def _expressions(template: Template) -> Iterator[str]:
    match template:
        case Expression():
            yield template.text
        case dict() | list():
            inner = cast("dict[str, Any]", template)
            for value in inner.values() if isinstance(template, dict) else inner:
                yield from _expressions(value)
        case _:
            pass


def exits(node: Node) -> tuple[tuple[str, str], ...]:
    """Labels and targets of a node's edges, in the order in which they are tried."""  # @NodeTypeDispatch
    match node:
        case ExitNode():
            return ()
        case EntryNode():
            return (("", node.next),)
        case SwitchNode():
            ways = [
                ("otherwise" if condition.always else f"condition {number}", condition.next)
                for number, condition in enumerate(node.conditions, 1)
            ]
            return (*ways, *([("otherwise", node.default)] if node.default is not None else []))
        case ParallelNode():
            first = tuple(("branch", branch) for branch in node.branches)
            return (*first, ("joined", node.next), *_error(node.on_error))
        case ForEachNode():
            return (("each", node.body), ("done", node.next), *_error(node.on_error))
        case TransformNode() | McpNode() | ToolNode():
            return (("", node.next), *_error(node.on_error))


def _error(target: str | None) -> tuple[tuple[str, str], ...]:
    return () if target is None else (("error", target),)


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
        object.__setattr__(self, "input_schema_json", compact_json(self.input_schema))

    @property
    def entry(self) -> EntryNode:
        return next(node for node in self.nodes if isinstance(node, EntryNode))

    @property
    def exit(self) -> ExitNode:
        return next(node for node in self.nodes if isinstance(node, ExitNode))


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
