"""Metanodes and components that stand alone in a workflow: nothing is connected to them.

What is in such a metanode runs as if it stood in the workflow itself, which is what a metanode is: KNIME's
*Expand* puts it there. One that holds something that only KNIME runs is left out, and so are components,
which are more than their nodes. The rest of the workflow does not need them.
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
        node: It.
        why: Why not, as a part of a sentence.
    """

    node: OtherNode
    why: str


@dataclass(frozen=True, slots=True)
class Expanded:
    """A workflow without metanodes and components that stand alone.

    Attributes:
        workflow: The workflow, with the nodes of such metanodes in their place.
        names: The name of the metanode, by the id of each of these nodes.
        places: The id of the metanode likewise.
        left_out: What is not run.
    """

    workflow: Workflow
    names: dict[int, str] = field(default_factory=dict[int, str])
    places: dict[int, int] = field(default_factory=dict[int, int])
    left_out: tuple[LeftOut, ...] = ()

    def without(self, node: Node, *left_out: LeftOut) -> Expanded:
        """The workflow without a node."""
        rest = tuple(own for own in self.workflow.nodes if own is not node)
        return replace(
            self, workflow=replace(self.workflow, nodes=rest), left_out=(*self.left_out, *left_out)
        )

    def having(self, node: OtherNode, inside: Expanded, first: int) -> Expanded:
        """The workflow with the nodes of a metanode, which get new ids from ``first`` on."""
        ids = {own.id: first + place for place, own in enumerate(inside.workflow.nodes)}
        nodes = [replace(own, id=ids[own.id]) for own in inside.workflow.nodes]
        lines = [
            replace(own, source=ids[own.source], destination=ids[own.destination])
            for own in inside.workflow.connections
        ]
        return Expanded(
            replace(
                self.workflow,
                nodes=(*self.workflow.nodes, *nodes),
                connections=(*self.workflow.connections, *lines),
            ),
            {**self.names, **dict.fromkeys(ids.values(), node.name)},
            {**self.places, **dict.fromkeys(ids.values(), node.id)},
            (*self.left_out, *inside.left_out),
        )


def expanded(workflow: Workflow, check: Callable[[Workflow], object], depth: int = 0) -> Expanded:
    """Takes metanodes and components that stand alone out of a workflow.

    Args:
        workflow: The workflow.
        check: Raises a `RunError` for a workflow that does not run here.
        depth: How many metanodes are around it.

    Returns:
        The workflow without them.
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
            found = found.without(node).having(node, inside, first)
            first += len(inside.workflow.nodes)
    return found


def _inside(workflow: Workflow, node: OtherNode, check: Callable[[Workflow], object], depth: int) -> Expanded:
    if node.kind == "component":
        raise RunError("only KNIME runs components")
    if depth == _MAX_DEPTH:
        raise RunError(f"metanodes are in each other more than {_MAX_DEPTH} deep")
    inside = read_inside(workflow, node)
    ids = {own.id for own in inside.nodes}
    # What leads to the metanode's own ports leads nowhere: nothing is connected to them.
    lines = tuple(own for own in inside.connections if {own.source, own.destination} <= ids)
    if len(ids) < len(inside.nodes):
        raise KnwfError("two of its nodes have the same number")
    found = expanded(replace(inside, connections=lines), check, depth + 1)
    fed = {own.destination for own in lines if own.destination_port > 0}
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
