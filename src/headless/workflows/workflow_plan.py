"""Plans a run before anything runs: determines the order of the nodes, and finds all problems."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...knwf import (
    BOUNDARY_FACTORIES,
    COLUMN_RENAMER_FACTORY,
    COMPONENT_INPUT_FACTORY,
    COMPONENT_OUTPUT_FACTORY,
    CONCATENATE_FACTORY,
    CONFIGURATION_FACTORIES,
    PYTHON_FACTORY,
    ROW_FILTER_FACTORY,
    STRING_TO_PATH_FACTORY,
    TABLE_CREATOR_FACTORY,
    VARIABLE_PORT,
    WORKFLOW_TO_TOOL_FACTORY,
    KnwfError,
    NativeNode,
    check,
)
from .containers import ComponentEdge, expanded
from .native_kinds import BoundaryNode, Concatenate, ConfigurationNode, TableCreator
from .node_kind import WorkflowError
from .path_kinds import StringToPath, WorkflowToTool
from .table_kinds import ColumnRenamer, RowFilterNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...knwf import Node, Workflow
    from ..host import ExtensionHost
    from .containers import Expanded, LeftOut, PlaceInWorkflow
    from .node_kind import NodeKind, Ready


_NATIVE: Final[dict[str, NodeKind]] = {
    TABLE_CREATOR_FACTORY: TableCreator(),
    CONCATENATE_FACTORY: Concatenate(),
    ROW_FILTER_FACTORY: RowFilterNode(),
    COLUMN_RENAMER_FACTORY: ColumnRenamer(),
    STRING_TO_PATH_FACTORY: StringToPath(),
    WORKFLOW_TO_TOOL_FACTORY: WorkflowToTool(),
    **dict.fromkeys(CONFIGURATION_FACTORIES, ConfigurationNode()),
    **dict.fromkeys(BOUNDARY_FACTORIES, BoundaryNode()),
    **dict.fromkeys((COMPONENT_INPUT_FACTORY, COMPONENT_OUTPUT_FACTORY), ComponentEdge()),
}
_RUNS_HERE: Final = (
    "the nodes of this extension, Table Creator, Row Filter, Column Renamer, Concatenate, String, Integer,"
    " Double, Boolean, Credentials, Single Selection, Date&Time and Local File Browser Configuration, String"
    " to Path, Workflow to Tool, Workflow Input and Output, Tool Message Output, metanodes and components of"
    " these"
)
_ONLY_KNIME: Final = "Only KNIME runs this node"
_IN_KNIME: Final = "Run the workflow in KNIME, or take the node out"
_LOOP_WORDS: Final = ("LoopStart", "LoopEnd", "Loop Start", "Loop End")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStep:
    """A node in the order of a plan."""

    node: NativeNode
    kind: NodeKind  # the runner for this kind of node
    ready: Ready  # the result of checking the node
    #: Per input port from 0 on, the node and output port that are connected, or None.
    sources: tuple[tuple[int, int] | None, ...]
    #: Where the node is, in a metanode or component; it has another id there.
    place: PlaceInWorkflow | None = None

    @property
    def label(self) -> str:
        """The name of the node in messages."""
        return label(self.node, self.place)

    @property
    def number(self) -> str:
        """The number of the node as KNIME shows it."""
        return str(self.node.id) if self.place is None else self.place.number

    @property
    def inside(self) -> str:
        """The name of the metanode or component that contains the node, or ""."""
        return "" if self.place is None else self.place.name

    @property
    def is_source(self) -> bool:
        """True if no port is connected or required; the node then gets the workflow's variables."""
        return not any(self.sources) and not any(self.ready.ports.required)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A workflow that can run."""

    workflow: Workflow
    steps: tuple[NodeStep, ...]  # the nodes, in an order in which they can run
    notes: tuple[str, ...] = ()  # remarks for the person, in sentences
    left_out: tuple[LeftOut, ...] = ()  # metanodes and components without connections that are not run here
    #: For nodes at the edge of and in components, the nodes that have to be executed before, see `Expanded`.
    after: Mapping[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    #: The *Component Input* of a component, by its *Component Output*.
    entries: Mapping[int, int] = field(default_factory=dict[int, int])


class NotRunnable(WorkflowError):  # noqa: N818
    """A workflow that does not run here.

    ``problems`` has the label of each node with a problem, and sentences with the problem and what to do.
    """

    def __init__(self, workflow: str, problems: tuple[tuple[str, str], ...]) -> None:
        lines = "\n".join(f"  {label}: {what}" for label, what in problems)
        here = f"\nWhat runs here: {_RUNS_HERE}." if any(_ONLY_KNIME in what for _, what in problems) else ""
        super().__init__(f"The workflow '{workflow}' does not run here; nothing was run.\n{lines}{here}")
        self.problems = problems

    @property
    def sentence(self) -> str:
        return str(self.args[0])


def label(node: Node, place: PlaceInWorkflow | None = None) -> str:
    """The name of a node in messages: its name, the first line of its annotation, and its id."""
    first = node.annotation.strip().partition("\n")[0].strip() if isinstance(node, NativeNode) else ""
    note = f" '{first}'" if first else ""
    if place is None:
        return f"{node.name}{note} (#{node.id})"
    return f"{node.name}{note} (#{place.number}) in '{place.name}'"


def opened(workflow: Workflow, host: ExtensionHost) -> Expanded:
    """The workflow with the nodes of its metanodes and components in their place."""
    return expanded(workflow, lambda inside: plan_run(inside, host))


def plan_run(workflow: Workflow, host: ExtensionHost) -> Plan:
    """Checks a workflow before anything runs, and orders its nodes; NotRunnable names every problem."""
    return plan_opened(opened(workflow, host), workflow, host)


def plan_opened(found: Expanded, whole: Workflow, host: ExtensionHost) -> Plan:
    """As `plan_run`, for the nodes of `opened`, which may have been changed; ``whole`` is as the file is."""
    from .python_kind import PythonNode

    problems: list[tuple[str, str]] = []
    steps: dict[int, NodeStep] = {}
    notes: list[str] = []
    python = PythonNode(host)
    workflow = found.workflow
    for node in workflow.nodes:
        place = found.places.get(node.id)
        try:
            kind = _kind(node, found, host, python)
            ready = kind.ready(node)  # pyright: ignore[reportArgumentType]  # only native nodes have a kind
            step = _step(workflow, node, kind, ready, place)  # pyright: ignore[reportArgumentType]
        except WorkflowError as error:
            problems.append((label(node, place), str(error)))
            continue
        except KnwfError as error:
            problems.append((label(node, place), f"{error}."))
            continue
        steps[node.id] = step
        notes += [f"{label(node, place)}: {note}" for note in ready.notes]
    problems += _file_problems(whole, {node.id for node in workflow.nodes} - steps.keys())
    if not whole.nodes:
        problems.append(("workflow", "It has no nodes."))
    elif not workflow.nodes:
        problems += [(label(own.node), f"{own.why[:1].upper()}{own.why[1:]}.") for own in found.left_out]
    order = _order(found)
    if not problems and len(order) < len(workflow.nodes):
        stuck = ", ".join(label(n, found.places.get(n.id)) for n in workflow.nodes if n.id not in set(order))
        problems.append(("workflow", f"It has a cycle; these nodes wait for each other: {stuck}."))
    if problems:
        raise NotRunnable(workflow.name, tuple(problems))
    return Plan(
        workflow=workflow,
        steps=tuple(steps[node_id] for node_id in order),
        notes=tuple(notes),
        left_out=found.left_out,
        after=found.after,
        entries=found.entries,
    )


def _order(found: Expanded) -> list[int]:
    """An order in which the nodes can run. If several nodes can be next, the lowest id comes first.

    So the calls in an audit workflow run in recorded order, even without connections between them. Nodes of a
    metanode count with the id of the metanode. Without the nodes of a cycle.
    """
    behind: dict[int, list[int]] = {node.id: [] for node in found.workflow.nodes}
    waiting = dict.fromkeys(behind, 0)
    lines = [(own.source, own.destination) for own in found.workflow.connections]
    lines += [(before, node_id) for node_id, own in found.after.items() for before in own]
    for before, node_id in lines:
        behind[before].append(node_id)
        waiting[node_id] += 1
    first = {node_id: place.outer for node_id, place in found.places.items()}
    ready = [(first.get(node_id, node_id), node_id) for node_id in behind if not waiting[node_id]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, node_id = heapq.heappop(ready)
        order.append(node_id)
        for next_id in behind[node_id]:
            waiting[next_id] -= 1
            if not waiting[next_id]:
                heapq.heappush(ready, (first.get(next_id, next_id), next_id))
    return order


def _kind(node: Node, found: Expanded, host: ExtensionHost, python: NodeKind) -> NodeKind:
    """The runner for a node; ``python`` for nodes of the host's extension."""
    if not isinstance(node, NativeNode):
        raise found.closed.get(node.id) or WorkflowError(
            f"Its settings are broken: {node.problem}", fix="Open and save the workflow in KNIME"
        )
    if node.factory == PYTHON_FACTORY:
        if node.extension_id == host.id:
            return python
        raise WorkflowError(
            f"It belongs to the Python extension {node.extension_id}, which is not here; only nodes of"
            f" {host.id} are",
            fix=_IN_KNIME,
        )
    if node.factory in _NATIVE:
        return _NATIVE[node.factory]
    if any(word in text for word in _LOOP_WORDS for text in (node.factory, node.name)):
        raise WorkflowError(
            f"It belongs to a loop, and loops are not run here ({node.factory})",
            fix=f"{_IN_KNIME} with the rest of its loop. For one call per row MCP Tool Caller needs none",
        )
    raise WorkflowError(f"{_ONLY_KNIME} ({node.factory})", fix=_IN_KNIME)


def _step(
    workflow: Workflow, node: NativeNode, kind: NodeKind, ready: Ready, place: PlaceInWorkflow | None
) -> NodeStep:
    ports = ready.ports
    # One more, as port 0 is that of the flow variables.
    sources: list[tuple[int, int] | None] = [None] * (len(ports.inputs) + 1)
    for connection in workflow.connections:
        if connection.destination != node.id:
            continue
        if not 0 <= connection.destination_port < len(sources):
            raise WorkflowError(
                f"A connection leads to its input port {connection.destination_port}, which it does not have"
            )
        sources[connection.destination_port] = (connection.source, connection.source_port)
    for number, (name, required) in enumerate(zip(ports.inputs, ports.required, strict=True), 1):
        if required and sources[number] is None:
            raise WorkflowError(
                f"Nothing is connected to its input '{name}'", fix="Connect it, or take the node out"
            )
    leaving = [connection.source_port for connection in workflow.connections if connection.source == node.id]
    missing = next((port for port in leaving if not VARIABLE_PORT <= port <= len(ports.outputs)), None)
    if missing is not None:
        raise WorkflowError(f"A connection leaves its output port {missing}, which it does not have")
    return NodeStep(node=node, kind=kind, ready=ready, sources=tuple(sources), place=place)


def _file_problems(workflow: Workflow, known_bad: set[int]) -> Iterator[tuple[str, str]]:
    """The problems of the workflow file, without those of nodes that have a problem already."""
    # Two checks read the same settings, and a person needs to hear of a fault once.
    reported = {f"node {node.id} ({node.name})" for node in workflow.nodes if node.id in known_bad}
    for problem in check(workflow):
        if problem.severity == "error" and problem.where not in reported:
            yield problem.where, f"{problem.what[:1].upper()}{problem.what[1:]}."
