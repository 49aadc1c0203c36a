"""Handles metanodes and components without connections.

The nodes of such a metanode run as if they were in the workflow itself, as after KNIME's *Expand*. Metanodes
with nodes that only KNIME can run are left out, and so are all components, which do more than group nodes.
The other nodes do not depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ...knwf import BOUNDARY_FACTORIES, KnwfError, NativeNode, OtherNode, read_inside
from .errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...knwf import Node, Workflow

_MAX_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A metanode or component that is not run.

    Attributes:
        node: The metanode or component.
        why: The reason, as a part of a sentence.
    """

    node: OtherNode
    why: str


@dataclass(frozen=True, slots=True)
class Expanded:
    """A workflow in which metanodes and components without connections are replaced or left out.

    Attributes:
        workflow: The workflow, with the nodes of such metanodes in place of the metanodes.
        names: The name of the metanode, by the id of each of these nodes.
        places: The id of the metanode, by the id of each of these nodes.
        left_out: The metanodes and components that are not run.
    """

    workflow: Workflow
    names: dict[int, str] = field(default_factory=dict[int, str])
    places: dict[int, int] = field(default_factory=dict[int, int])
    left_out: tuple[LeftOut, ...] = ()

    def without(self, node: Node, *left_out: LeftOut) -> Expanded:
        """The workflow without a node, and with further left out containers."""
        rest = tuple(own for own in self.workflow.nodes if own is not node)
        return replace(
            self, workflow=replace(self.workflow, nodes=rest), left_out=(*self.left_out, *left_out)
        )

    def with_inner_nodes(self, node: OtherNode, inside: Expanded, first: int) -> Expanded:
        """The workflow with the nodes of a metanode added, which get new ids from ``first`` on."""
        ids = {own.id: first + place for place, own in enumerate(inside.workflow.nodes)}
        nodes = [replace(own, id=ids[own.id]) for own in inside.workflow.nodes]
        connections = [
            replace(own, source=ids[own.source], destination=ids[own.destination])
            for own in inside.workflow.connections
        ]
        return Expanded(
            replace(
                self.workflow,
                nodes=(*self.workflow.nodes, *nodes),
                connections=(*self.workflow.connections, *connections),
            ),
            {**self.names, **dict.fromkeys(ids.values(), node.name)},
            {**self.places, **dict.fromkeys(ids.values(), node.id)},
            (*self.left_out, *inside.left_out),
        )


def expanded(workflow: Workflow, check: Callable[[Workflow], object], depth: int = 0) -> Expanded:
    """Replaces metanodes without connections by their nodes, and leaves out components.

    Args:
        workflow: The workflow.
        check: A function that raises a `RunError` for a workflow that cannot run here.
        depth: The number of metanodes that contain the workflow.

    Returns:
        The workflow without metanodes and components that have no connections.
    """
    connected = {end for own in workflow.connections for end in (own.source, own.destination)}
    found = Expanded(workflow)
    first = max((own.id for own in workflow.nodes), default=0) + 1
    for node in workflow.nodes:
        if not isinstance(node, OtherNode) or node.kind == "broken" or node.id in connected:
            continue
        try:
            inside = _inside(workflow, node, check, depth)
        except KnwfError as error:
            found = found.without(node, LeftOut(node, f"it cannot be read: {error}"))
        except RunError as error:
            found = found.without(node, LeftOut(node, _why(error)))
        else:
            found = found.without(node).with_inner_nodes(node, inside, first)
            first += len(inside.workflow.nodes)
    return found


def _inside(workflow: Workflow, node: OtherNode, check: Callable[[Workflow], object], depth: int) -> Expanded:
    if node.kind == "component":
        raise RunError("only KNIME runs components")
    if depth == _MAX_DEPTH:
        raise RunError(f"metanodes are in each other more than {_MAX_DEPTH} deep")
    inside = read_inside(workflow, node)
    ids = {own.id for own in inside.nodes}
    # Without connections to the metanode's ports, the inner connections to these ports have no effect.
    connections = tuple(own for own in inside.connections if {own.source, own.destination} <= ids)
    if len(ids) < len(inside.nodes):
        raise KnwfError("two of its nodes have the same number")
    found = expanded(replace(inside, connections=connections), check, depth + 1)
    fed = {own.destination for own in connections if own.destination_port > 0}
    for own in found.workflow.nodes:
        is_native = isinstance(own, NativeNode)
        if is_native and BOUNDARY_FACTORIES.get(own.factory) == "input" and own.id not in fed:
            raise RunError("it wants an input table")
    if found.workflow.nodes:
        check(found.workflow)
    return found


def _why(error: RunError) -> str:
    problems: tuple[tuple[str, str], ...] = getattr(error, "problems", ())
    names = ", ".join(own for own, _ in problems)
    return f"only KNIME runs what is in it ({names})" if names else error.what
