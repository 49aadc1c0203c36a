"""The shapes of the outputs of a tool's nodes, known before a run.

From the tool's inputSchema, the expressions of transforms, the outputSchema of tools that are called, and
results that were recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..yaml_text import as_mapping
from .expressions.jsonata_shapes import Doubt, shape_of
from .expressions.shapes import ANY, INPUT, Others, Shape, constant, either, list_of, of_schema, seen
from .graph_model import (
    ApproveNode,
    EntryNode,
    ExitNode,
    Expression,
    ForEachNode,
    McpNode,
    ParallelNode,
    SwitchNode,
    ToolNode,
    TransformNode,
    exits,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .graph_model import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """What is known of a tool that nodes call: its schemas, if they are, and outputs that it had."""

    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    outputs: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTools:
    """What is known of the tools that the nodes of a document call."""

    own: Mapping[str, CalledTool] = field(default_factory=dict[str, CalledTool])
    of_servers: Mapping[tuple[str, str], CalledTool] = field(
        default_factory=dict[tuple[str, str], CalledTool]
    )

    def called_by(self, node: McpNode | ToolNode) -> CalledTool | None:
        if isinstance(node, ToolNode):
            return self.own.get(node.tool)
        return self.of_servers.get((node.server, node.tool))


_ERROR: Final = Shape(
    kinds=frozenset({"object"}),
    fields={"error": Shape(fields=dict.fromkeys(("message", "kind", "node", "code", "details"), ANY))},
    others=Others.NONE,
)


class NodeShapes:
    """The shapes of one tool's nodes, each made when it is asked for first."""

    def __init__(
        self,
        nodes: Iterable[Node],
        tools: CalledTools,
        input_schema: Mapping[str, Any],
        ids: Iterable[str],
    ) -> None:
        self.nodes: Final = {node.id: node for node in nodes}
        self.ids: Final = dict.fromkeys(ids)  # also of nodes that could not be read
        self._tools = tools
        self._input_schema = input_schema
        self._made: dict[str, Shape] = {}
        outputs = _Outputs(self)
        self.context: Final = Shape(kinds=frozenset({"object"}), fields=outputs, others=Others.NONE)

    def output(self, node_id: str) -> Shape:
        """What expressions find under the id of a node."""
        if node_id not in self._made:
            self._made[node_id] = ANY  # of a node whose output depends on what it was before
            node = self.nodes.get(node_id)
            shape = ANY if node is None else self._of(node)
            if getattr(node, "on_error", None) is not None:
                # The output of a node whose error was caught is that error.
                shape = either(shape, _ERROR)
            self._made[node_id] = shape
        return self._made[node_id]

    def of_expression(
        self,
        text: str,
        whose: str,
        known: Mapping[str, Shape] | None = None,
        doubts: list[Doubt] | None = None,
    ) -> Shape:
        """What an expression gives; `doubts` gets what is wrong with it."""
        return shape_of(text, self.context, [] if doubts is None else doubts, whose=whose, known=known or {})

    def _of(self, node: Node) -> Shape:  # @NodeTypeDispatch
        whose = f"the output of '{node.id}'"
        match node:
            case EntryNode():
                return of_schema({**self._input_schema, "type": "object"}, INPUT)
            case TransformNode():
                return self.of_expression(node.expression.text, whose)
            case McpNode() | ToolNode():
                return self._of_call(node)
            case SwitchNode():
                targets = [condition.next for condition in node.conditions]
                targets += [] if node.default is None else [node.default]
                return either(*(constant(target, whose) for target in targets)) if targets else ANY
            case ParallelNode():
                branches = {first: self._last_outputs(first, node.next) for first in node.branches}
                return Shape(kinds=frozenset({"object"}), fields=branches, others=Others.NONE, whose=whose)
            case ForEachNode():
                items = self.of_expression(node.items.text, whose).flat()
                given = {"item": items, "index": Shape.of("number", whose=whose)}
                entry = Shape(kinds=frozenset({"object"}), fields=given, others=Others.NONE, whose=whose)
                # Inside of the body it is the entry, after it the list of results.
                return either(entry, list_of(self._last_outputs(node.body, node.next), whose))
            case ApproveNode():
                texts = {name: Shape.of("string", whose=whose) for name in ("by", "comment")}
                fields = {"approved": Shape.of("boolean", whose=whose), **texts}
                return Shape(kinds=frozenset({"object"}), fields=fields, others=Others.NONE, whose=whose)
            case ExitNode():
                return ANY

    def _of_call(self, node: McpNode | ToolNode) -> Shape:
        tool = self._tools.called_by(node)
        if tool is None:
            return ANY
        if tool.output_schema is not None:
            return of_schema(tool.output_schema, f"the outputSchema of '{node.tool}'")
        whose = f"what '{node.tool}' gave when it was recorded"
        return either(*(seen(output, whose) for output in tool.outputs)) if tool.outputs else ANY

    def _last_outputs(self, first: str, end: str) -> Shape:
        """The output of a chain of nodes: that of any of its nodes from which a way leads to its end."""
        found: dict[str, None] = {}
        waiting = [first]
        while waiting:
            current = waiting.pop()
            if current not in found and current != end and current in self.nodes:
                found[current] = None
                waiting += [target for _, target in exits(self.nodes[current])]
        lasts = [name for name in found if any(target == end for _, target in exits(self.nodes[name]))]
        return either(*(self.output(name) for name in lasts)) if lasts else ANY


class _Outputs(Mapping[str, Shape]):
    """The outputs by the ids of their nodes, made when an expression looks one up."""

    def __init__(self, shapes: NodeShapes) -> None:
        self._shapes = shapes

    def __getitem__(self, node_id: str) -> Shape:
        if node_id not in self._shapes.ids:
            raise KeyError(node_id)
        return self._shapes.output(node_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes.ids)

    def __len__(self) -> int:
        return len(self._shapes.ids)


def argument_shapes(args: Any, shapes: NodeShapes) -> Shape:
    """The shape of the arguments that a template makes."""
    match args:
        case Expression():
            return shapes.of_expression(args.text, "the arguments")
        case dict():
            fields = {name: argument_shapes(value, shapes) for name, value in as_mapping(args).items()}
            return Shape(
                kinds=frozenset({"object"}), fields=fields, others=Others.NONE, whose="the arguments"
            )
        case list():
            return Shape.of("array")
        case None | bool() | int() | float() | str():
            return constant(args)
        case _:
            return ANY
