"""Plans a run before anything runs: determines the order of the nodes, and finds all problems."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ...knwf import (
    BOUNDARY_FACTORIES,
    CONCATENATE_FACTORY,
    CONFIGURATION_FACTORIES,
    PYTHON_FACTORY,
    STRING_TO_PATH_FACTORY,
    TABLE_CREATOR_FACTORY,
    VARIABLE_PORT,
    WORKFLOW_TO_TOOL_FACTORY,
    KnwfError,
    NativeNode,
    OtherNode,
    check,
    read_inside,
)
from ...knwf.workflow_file import inner_nodes
from .native_kinds import BoundaryNode, Concatenate, ConfigurationNode, TableCreator
from .node_kind import RunError
from .path_kinds import StringToPath, WorkflowToTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...knwf import Node, Workflow
    from ..host import ExtensionHost
    from .node_kind import NodeKind, Ready


_NATIVE: Final[dict[str, NodeKind]] = {
    TABLE_CREATOR_FACTORY: TableCreator(),
    CONCATENATE_FACTORY: Concatenate(),
    STRING_TO_PATH_FACTORY: StringToPath(),
    WORKFLOW_TO_TOOL_FACTORY: WorkflowToTool(),
    **dict.fromkeys(CONFIGURATION_FACTORIES, ConfigurationNode()),
    **dict.fromkeys(BOUNDARY_FACTORIES, BoundaryNode()),
}
_RUNS_HERE: Final = (
    "the nodes of this extension, Table Creator, Concatenate, String, Integer, Double, Boolean and"
    " Credentials Configuration, String to Path, Workflow to Tool, Workflow Input and Output, Tool Message"
    " Output"
)
_ONLY_KNIME: Final = "Only KNIME runs this node"
_IN_KNIME: Final = "Run the workflow in KNIME, or take the node out"
_LOOP_WORDS: Final = ("LoopStart", "LoopEnd", "Loop Start", "Loop End")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A node in the order of a plan."""

    node: NativeNode  # the node
    kind: NodeKind  # the runner for this kind of node
    ready: Ready  # the result of checking the node
    #: Per input port from 0 on, the node and output port that are connected, or None.
    sources: tuple[tuple[int, int] | None, ...]
    inside: str = ""  # the name of the metanode that contains the node (with another id), or ""

    @property
    def label(self) -> str:
        """The name of the node in messages."""
        return f"{label(self.node)} in '{self.inside}'" if self.inside else label(self.node)

    @property
    def is_source(self) -> bool:
        """True if no port is connected or required; the node then gets the workflow's variables."""
        return not any(self.sources) and not any(self.ready.ports.required)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A workflow that can run."""

    workflow: Workflow  # the workflow
    steps: tuple[Step, ...]  # the nodes, in an order in which they can run
    notes: tuple[str, ...] = ()  # remarks for the person, in sentences
    left_out: tuple[LeftOut, ...] = ()  # metanodes and components without connections that are not run here


class NotRunnable(RunError):  # noqa: N818
    """A workflow that does not run here.

    ``problems`` has the label of each node with a problem, and sentences with the problem and what to do.
    """

    def __init__(self, workflow: str, problems: tuple[tuple[str, str], ...]) -> None:
        lines = "\n".join(f"  {label}: {what}" for label, what in problems)
        here = f"\nWhat runs here: {_RUNS_HERE}." if any(_ONLY_KNIME in what for _, what in problems) else ""
        super().__init__(f"The workflow '{workflow}' does not run here; nothing was run.\n{lines}{here}")
        self.problems = problems

    def __str__(self) -> str:
        return str(self.args[0])


def label(node: Node) -> str:
    """The name of a node in messages: its name, the first line of its annotation, and its id."""
    first = node.annotation.strip().partition("\n")[0].strip() if isinstance(node, NativeNode) else ""
    note = f" '{first}'" if first else ""
    return f"{node.name}{note} (#{node.id})"


def plan_run(workflow: Workflow, host: ExtensionHost) -> Plan:
    """Checks a workflow before anything runs, and orders its nodes; NotRunnable names every problem."""
    from .python_kind import PythonNode

    problems: list[tuple[str, str]] = []
    steps: dict[int, Step] = {}
    notes: list[str] = []
    python = PythonNode(host)
    whole, opened = workflow, expanded(workflow, lambda inside: plan_run(inside, host))
    workflow = opened.workflow
    for node in workflow.nodes:
        try:
            kind = _kind(node, workflow, host, python)
            ready = kind.ready(node)  # pyright: ignore[reportArgumentType]  # only native nodes have a kind
            step = _step(workflow, node, kind, ready)  # pyright: ignore[reportArgumentType]
        except RunError as error:
            problems.append((label(node), str(error)))
            continue
        except KnwfError as error:
            problems.append((label(node), f"{error}."))
            continue
        steps[node.id] = step
        notes += [f"{label(node)}: {note}" for note in ready.notes]
    problems += _file_problems(whole, {node.id for node in workflow.nodes} - steps.keys())
    if not whole.nodes:
        problems.append(("workflow", "It has no nodes."))
    elif not workflow.nodes:
        problems += [
            (label(container.node), _container_problem(container, whole)) for container in opened.left_out
        ]
    if problems:
        raise NotRunnable(workflow.name, tuple(problems))
    return Plan(
        workflow=workflow,
        steps=tuple(
            replace(steps[node_id], inside=opened.names.get(node_id, "")) for node_id in _order(opened)
        ),
        notes=tuple(notes),
        left_out=opened.left_out,
    )


def _order(opened: Expanded) -> list[int]:
    """An order in which the nodes can run. If several nodes can be next, the lowest id comes first.

    So the calls in an audit workflow run in recorded order, even without connections between them. Nodes of a
    metanode count with the id of the metanode.
    """
    behind: dict[int, list[int]] = {node.id: [] for node in opened.workflow.nodes}
    waiting = dict.fromkeys(behind, 0)
    for connection in opened.workflow.connections:
        behind[connection.source].append(connection.destination)
        waiting[connection.destination] += 1
    ready = [(opened.places.get(node_id, node_id), node_id) for node_id in behind if not waiting[node_id]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, node_id = heapq.heappop(ready)
        order.append(node_id)
        for next_id in behind[node_id]:
            waiting[next_id] -= 1
            if not waiting[next_id]:
                heapq.heappush(ready, (opened.places.get(next_id, next_id), next_id))
    return order


def _kind(node: Node, workflow: Workflow, host: ExtensionHost, python: NodeKind) -> NodeKind:
    """The runner for a node; ``python`` for nodes of the host's extension."""
    if not isinstance(node, NativeNode):
        raise _container(node, workflow)
    if node.factory == PYTHON_FACTORY:
        if node.extension_id == host.id:
            return python
        raise RunError(
            f"It belongs to the Python extension {node.extension_id}, which is not here; only nodes of"
            f" {host.id} are",
            fix=_IN_KNIME,
        )
    if node.factory in _NATIVE:
        return _NATIVE[node.factory]
    if any(word in text for word in _LOOP_WORDS for text in (node.factory, node.name)):
        raise RunError(
            f"It belongs to a loop, and loops are not run here ({node.factory})",
            fix=f"{_IN_KNIME} with the rest of its loop. For one call per row MCP Tool Caller needs none",
        )
    raise RunError(f"{_ONLY_KNIME} ({node.factory})", fix=_IN_KNIME)


def _container(node: OtherNode, workflow: Workflow) -> RunError:
    if node.kind == "broken":
        return RunError(f"Its settings are broken: {node.problem}", fix="Open and save the workflow in KNIME")
    inside = inner_nodes(workflow, node)
    holds = f", with {', '.join(inside)} inside" if inside else ""
    what = "metanode" if node.kind == "metanode" else "component"
    return RunError(
        f"It is a {what}{holds}; metanodes and components are not run here",
        fix=f"Run the workflow in KNIME, or expand the {what} there (right click, Expand) and save it",
    )


def _container_problem(container: LeftOut, workflow: Workflow) -> str:
    """The problem of a left out container, for a workflow that has no other nodes."""
    if container.node.kind == "component":
        return str(_container(container.node, workflow))
    return f"{container.why[:1].upper()}{container.why[1:]}."


def _step(workflow: Workflow, node: NativeNode, kind: NodeKind, ready: Ready) -> Step:
    ports = ready.ports
    sources: list[tuple[int, int] | None] = [None] * (len(ports.inputs) + 1)
    for connection in workflow.connections:
        if connection.destination != node.id:
            continue
        if not 0 <= connection.destination_port < len(sources):
            raise RunError(
                f"A connection leads to its input port {connection.destination_port}, which it does not have"
            )
        sources[connection.destination_port] = (connection.source, connection.source_port)
    for number, (name, required) in enumerate(zip(ports.inputs, ports.required, strict=True), 1):
        if required and sources[number] is None:
            raise RunError(
                f"Nothing is connected to its input '{name}'", fix="Connect it, or take the node out"
            )
    leaving = [connection.source_port for connection in workflow.connections if connection.source == node.id]
    missing = next((port for port in leaving if not VARIABLE_PORT <= port <= len(ports.outputs)), None)
    if missing is not None:
        raise RunError(f"A connection leaves its output port {missing}, which it does not have")
    return Step(node=node, kind=kind, ready=ready, sources=tuple(sources))


def _file_problems(workflow: Workflow, known_bad: set[int]) -> Iterator[tuple[str, str]]:
    """The problems of the workflow file, without those of nodes that have a problem already."""
    reported = {f"node {node.id} ({node.name})" for node in workflow.nodes if node.id in known_bad}
    for problem in check(workflow):
        if problem.severity == "error" and problem.where not in reported:
            yield problem.where, f"{problem.what[:1].upper()}{problem.what[1:]}."


# Metanodes and components without connections. The nodes of such a metanode run as if they were in the
# workflow itself, as after KNIME's *Expand*. Metanodes with nodes that only KNIME can run are left out, and
# so are all components, which do more than group nodes. The other nodes do not depend on them.
_MAX_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A metanode or component that is not run."""

    node: OtherNode  # the metanode or component
    why: str  # the reason, as a part of a sentence


@dataclass(frozen=True, slots=True)
class Expanded:
    """A workflow in which metanodes and components without connections are replaced or left out."""

    workflow: Workflow  # the workflow, with the nodes of such metanodes in place of the metanodes
    #: The name of the metanode, by the id of each of these nodes.
    names: dict[int, str] = field(default_factory=dict[int, str])
    #: The id of the metanode, by the id of each of these nodes.
    places: dict[int, int] = field(default_factory=dict[int, int])
    left_out: tuple[LeftOut, ...] = ()  # the metanodes and components that are not run

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

    ``check`` raises a `RunError` for a workflow that cannot run here; ``depth`` counts the metanodes around.
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
