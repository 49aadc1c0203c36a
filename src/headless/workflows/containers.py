"""Opens metanodes and components: their nodes run as if they were in the workflow itself.

The nodes of a metanode run as after KNIME's *Expand*. A component does more than group nodes: it starts when
all its inputs are there and ends when all its nodes have run, and only the flow variables that its edge nodes
select cross its border. Both nodes at its edge run here (`ComponentEdge`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ...knwf import (
    BOUNDARY_FACTORIES,
    Connection,
    KnwfError,
    NativeNode,
    OtherNode,
    read_component,
    read_edge,
    read_inside,
)
from .flow_variables import FlowVariable, available
from .node_kind import Done, Ports, Ready, WorkflowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...knwf import Node, Workflow
    from .node_kind import Job

_MAX_DEPTH: Final = 20
_BORDER: Final = -1  # the number that stands for a metanode's own ports in the connections inside


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A metanode or component without connections that is not run; the other nodes do not depend on it."""

    node: OtherNode  # the metanode or component
    why: str  # the reason, as a part of a sentence


class PlaceInWorkflow(NamedTuple):
    """Where a node is that is not in the workflow itself."""

    name: str  # the name of the outermost metanode or component
    number: str  # the node's number as KNIME shows it, such as 4:2
    outer: int  # the id of the outermost metanode or component


@dataclass(frozen=True, slots=True)
class Expanded:
    """A workflow in which metanodes and components are replaced by their nodes, or left out."""

    workflow: Workflow
    #: By the new id of each inner node.
    places: dict[int, PlaceInWorkflow] = field(default_factory=dict[int, PlaceInWorkflow])
    left_out: tuple[LeftOut, ...] = ()
    #: Why a connected one cannot run.
    closed: dict[int, WorkflowError] = field(default_factory=dict[int, WorkflowError])
    #: What must have run before a node beside its inputs: in a component *Component Input*, and before
    #: *Component Output* all others.
    after: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    entries: dict[int, int] = field(default_factory=dict[int, int])  # *Component Input* by *Component Output*

    def without(self, node: OtherNode, why: str) -> Expanded:
        """The workflow without a node."""
        rest = tuple(own for own in self.workflow.nodes if own is not node)
        left_out = (*self.left_out, LeftOut(node, why))
        return replace(self, workflow=replace(self.workflow, nodes=rest), left_out=left_out)

    def with_inner_nodes(self, node: OtherNode, inside: _Inside) -> Expanded:
        """The workflow with the nodes of a metanode or component in its place, which get new ids."""
        found = inside.found
        first = max((own.id for own in self.workflow.nodes), default=0) + 1
        # Behind all others, as the nodes of each metanode count from 1 again.
        ids = {own.id: first + place for place, own in enumerate(found.workflow.nodes)}
        places = {
            ids[own.id]: PlaceInWorkflow(
                node.name,
                f"{node.id}:{found.places[own.id].number if own.id in found.places else own.id}",
                node.id,
            )
            for own in found.workflow.nodes
        }
        nodes = [own for own in self.workflow.nodes if own is not node]
        nodes += [replace(own, id=ids[own.id]) for own in found.workflow.nodes]
        after = {ids[own]: frozenset(map(ids.__getitem__, before)) for own, before in found.after.items()}
        entries = {ids[leaving]: ids[entry] for leaving, entry in found.entries.items()}
        inner = [_moved(own, ids) for own in found.workflow.connections]
        if inside.edges is None:
            connections = _through(self.workflow.connections, inner, node.id)
        else:
            entry, leaving = (ids[edge] for edge in inside.edges)
            entries[leaving] = entry
            others = frozenset(ids.values()) - {entry, leaving}
            for own in others:
                after[own] = after.get(own, frozenset()) | {entry}
            # A component ends when all of its nodes have run, also those that lead to none of its outputs.
            after[leaving] = others | {entry}
            outer = (_redirected(own, node.id, entry, leaving) for own in self.workflow.connections)
            connections = [*outer, *inner]
        return Expanded(
            replace(self.workflow, nodes=tuple(nodes), connections=tuple(connections)),
            self.places | places,
            (*self.left_out, *found.left_out),
            self.closed | {ids[own]: error for own, error in found.closed.items()},
            self.after | after,
            self.entries | entries,
        )


class _Inside(NamedTuple):
    found: Expanded
    edges: tuple[int, int] | None  # *Component Input* and *Component Output*; None for a metanode


def _moved(line: Connection, ids: dict[int, int]) -> Connection:
    return replace(
        line,
        source=ids.get(line.source, _BORDER),
        destination=ids.get(line.destination, _BORDER),
    )


def _redirected(line: Connection, node: int, entry: int, leaving: int) -> Connection:
    """A connection of a component, with the nodes at its edge."""
    return replace(
        line,
        source=leaving if line.source == node else line.source,
        destination=entry if line.destination == node else line.destination,
    )


def _through(outer: Iterable[Connection], inner: list[Connection], node: int) -> list[Connection]:
    """The connections when a metanode is taken away: what leads to its ports goes on behind them."""
    into: dict[int, Connection] = {}
    others: list[Connection] = []
    leaving: list[Connection] = []
    for line in outer:
        if line.destination == node:
            into[line.destination_port] = line
        elif line.source == node:
            leaving.append(line)
        else:
            others.append(line)
    reached: dict[int, tuple[int, int]] = {}  # the real source, by the metanode's output port
    for line in inner:
        source = (line.source, line.source_port)
        if line.source == _BORDER:
            before = into.get(line.source_port)
            if before is None:
                continue  # nothing arrives at that port
            source = (before.source, before.source_port)
        if line.destination == _BORDER:
            reached[line.destination_port] = source
        else:
            others.append(replace(line, source=source[0], source_port=source[1]))
    for line in leaving:
        if (found := reached.get(line.source_port)) is not None:
            others.append(replace(line, source=found[0], source_port=found[1]))
    return others


def expanded(workflow: Workflow, check: Callable[[Workflow], object], depth: int = 0) -> Expanded:
    """Replaces metanodes and components by their nodes.

    ``check`` raises a `WorkflowError` for a workflow that cannot run here; a container to which nothing is
    connected is left out then. ``depth`` counts the containers around.
    """
    connected = {end for own in workflow.connections for end in (own.source, own.destination)}
    found = Expanded(workflow)
    for node in workflow.nodes:
        if not isinstance(node, OtherNode) or node.kind == "broken":
            continue
        try:
            inside = _inside(workflow, node, check, depth, is_alone=node.id not in connected)
        except KnwfError as error:
            problem = WorkflowError(f"it cannot be read: {error}")
        except WorkflowError as error:
            problem = error
        else:
            found = found.with_inner_nodes(node, inside)
            continue
        if node.id in connected:
            found.closed[node.id] = WorkflowError(
                f"It is a {node.kind}: {problem.what}", fix="Run the workflow in KNIME, or take the node out"
            )
        else:
            found = found.without(node, _why(problem))
    return found


def _inside(
    workflow: Workflow, node: OtherNode, check: Callable[[Workflow], object], depth: int, *, is_alone: bool
) -> _Inside:
    """What is in a metanode or component; ``is_alone`` says that nothing is connected to it."""
    if depth == _MAX_DEPTH:
        raise WorkflowError(f"metanodes are in each other more than {_MAX_DEPTH} deep")
    component = read_component(workflow, node) if node.kind == "component" else None
    inside = read_inside(workflow, node) if component is None else component.workflow
    ids = {own.id for own in inside.nodes}
    if len(ids) < len(inside.nodes):
        raise KnwfError("two of its nodes have the same number")
    ends = {end for own in inside.connections for end in (own.source, own.destination)}
    if component is not None and not ends <= ids:
        raise KnwfError("a connection inside leads to a node that is not there")
    if is_alone:  # without connections to its ports, the inner connections to these have no effect
        kept = tuple(own for own in inside.connections if {own.source, own.destination} <= ids)
        inside = replace(inside, connections=kept)
    found = expanded(inside, check, depth + 1)
    if is_alone:
        _check_boundaries(found.workflow)
        if found.workflow.nodes:
            check(found.workflow)
    return _Inside(found, None if component is None else (component.entry, component.exit))


def _check_boundaries(workflow: Workflow) -> None:
    fed = {own.destination for own in workflow.connections if own.destination_port > 0}
    for own in workflow.nodes:
        is_native = isinstance(own, NativeNode)
        if is_native and BOUNDARY_FACTORIES.get(own.factory) == "input" and own.id not in fed:
            raise WorkflowError("it wants an input table")


def _why(error: WorkflowError) -> str:
    problems: tuple[tuple[str, str], ...] = getattr(error, "problems", ())
    names = ", ".join(own for own, _ in problems)
    return f"only KNIME runs what is in it ({names})" if names else error.what


class ComponentEdge:
    """Runs *Component Input* and *Component Output*: passes tables on, and the flow variables they select."""

    def ready(self, node: Node) -> Ready:
        assert isinstance(node, NativeNode)
        edge = read_edge(node)
        return Ready(Ports(edge.names, (True,) * edge.ports, edge.names))

    def run(self, job: Job) -> Done:
        edge = read_edge(job.node)
        arriving = available(job.stack)
        # The order in the stack is KNIME's: a variable that another one has the same name as stays above it.
        passed = [arriving[name] for name in reversed(edge.passed.chosen(arriving))]
        return Done(
            outputs=job.inputs,
            variables=tuple(FlowVariable(f"{edge.prefix}{own.name}", own.kind, own.value) for own in passed),
        )
