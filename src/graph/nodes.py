"""The nodes of a graph: frozen, in one form for every dialect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ..yaml_text import Position

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A JSONata expression.

    Attributes:
        text: The text of the expression.
        position: Its place in the document.
    """

    text: str
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidExpression:
    """A value that is not an expression, in the place of one: evaluating it fails with this message.

    Like the reference, documents with such values can be loaded, and fail only when the value is used.

    Attributes:
        message: The error.
        position: Its place in the document.
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
    """The number and timing of retries of a failed call.

    Attributes:
        attempts: Total number of calls, including the first; at least 1.
        delay: Seconds before the second call.
        backoff: Factor for the delay before each further call; at least 1.
        max_delay: Maximum delay in seconds.
        tool_errors: Whether to retry also after an answer that says that the tool failed.
    """

    attempts: int = 3
    delay: float = 0.5
    backoff: float = 2.0
    max_delay: float = 30.0
    tool_errors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """The caching of a read-only call's results, for calls with the same arguments.

    Attributes:
        ttl: Seconds for which a result is kept.
    """

    ttl: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBase:
    """The common attributes of all nodes.

    Attributes:
        id: Name of the node, unique in its tool.
        position: The node's place in the document.
    """

    id: str
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryNode(NodeBase):
    """The beginning of a run; its output is the arguments.

    Attributes:
        next: Node that follows.
    """

    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitNode(NodeBase):
    """The end of a run; its output is the output of the node before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformNode(NodeBase):
    """Evaluates an expression on the context.

    Attributes:
        expression: The expression.
        next: Node that follows.
        on_error: Node that follows if this one fails; None ends the run.
    """

    expression: Expression
    next: str
    on_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpNode(NodeBase):
    """Calls a tool on an MCP server.

    Attributes:
        server: Key in `GraphDocument.servers`.
        tool: Name of the tool on that server.
        args: Arguments: name to template (JSON with `Expression` values in it), or an expression for all.
        next: Node that follows.
        on_error: Node that follows if the call fails for good; None ends the run.
        retry: The retries; None: no retries.
        timeout: Seconds for one call; None: the default.
        cache: The caching of results; None: no caching.
        places: The places of its keys, by the keys below the node: ``("tool",)``, ``("args", "path")``.
    """

    server: str
    tool: str
    args: Template
    next: str
    on_error: str | None = None
    retry: Retry | None = None
    timeout: float | None = None
    cache: Cache | None = None
    places: Mapping[tuple[str, ...], Position] = field(
        default_factory=dict[tuple[str, ...], Position], compare=False, repr=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a switch and its target.

    Attributes:
        rule: JSON Logic as plain JSON; meaningless if `always`.
        next: Node that follows if the rule holds.
        always: Whether the condition has no rule and holds always.
        position: The rule's place in the document.
    """

    rule: Any
    next: str
    always: bool = False
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchNode(NodeBase):
    """Continues at the target of the first rule that holds; the output is the id of that node.

    Attributes:
        conditions: The conditions, in the order in which they are tried.
        default: Node that follows if no rule holds; None makes that an error.
    """

    conditions: tuple[Condition, ...]
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelNode(NodeBase):
    """Runs several branches at once.

    A branch is the chain of nodes from its first node up to, but without, the node `next`. It sees the
    context from before the branches, and its own nodes. The output is an object: the id of each branch's
    first node to the output of its last node.

    Attributes:
        branches: First node of each branch.
        next: Node where the branches meet.
        on_error: Node that follows if a branch fails; None ends the run.
        max_concurrency: Maximum number of branches that run at the same time; None: all.
    """

    branches: tuple[str, ...]
    next: str
    on_error: str | None = None
    max_concurrency: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEachNode(NodeBase):
    """Runs a chain of nodes for each entry of a list.

    The chain begins with the node `body` and goes up to, but without, the node `next`. In the chain, the
    value of this node's id is ``{"item": ..., "index": ...}`` (index from 0). The node's output is the list
    of the outputs of the chain's last nodes, in the order of the entries.

    Attributes:
        items: Expression for the list; undefined is an empty list, a single value a list with one entry.
        body: First node of the chain.
        next: Node that follows after the last entry.
        on_error: Node that follows if an entry fails; None ends the run.
        max_concurrency: Maximum number of entries that run at the same time.
        max_items: Maximum number of entries; more are an error.
    """

    items: Expression
    body: str
    next: str
    on_error: str | None = None
    max_concurrency: int = 1
    max_items: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNode(NodeBase):
    """Calls another tool of the same document.

    Attributes:
        tool: Name of a tool of the document.
        args: Arguments: name to template (JSON with `Expression` values in it), or an expression for all.
        next: Node that follows.
        on_error: Node that follows if the call fails for good; None ends the run.
        retry: The retries; None: no retries.
        timeout: Seconds for one call; None: the rest of the run's time.
    """

    tool: str
    args: Template
    next: str
    on_error: str | None = None
    retry: Retry | None = None
    timeout: float | None = None


Node = EntryNode | ExitNode | TransformNode | McpNode | SwitchNode | ParallelNode | ForEachNode | ToolNode


def type_name(node: Node) -> str:
    """The type of a node, as in documents."""
    name = type(node).__name__.removesuffix("Node")
    return name[0].lower() + name[1:]


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


def exits(node: Node) -> tuple[tuple[str, str], ...]:
    """The nodes to which a run can go from a node.

    Args:
        node: Any node.

    Returns:
        Pairs of an edge's label (``""``, ``condition 1``, ``default``, ``error``, ``branch``, ``each``) and
        the id of the node it leads to, in the order in which they are tried.
    """  # @NodeTypeDispatch
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
