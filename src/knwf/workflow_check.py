"""Finds problems in a workflow. Pure.

An error is something that KNIME would refuse, complain about or never run; a warning is a probable mistake.
"""

from __future__ import annotations

from collections import Counter
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, assert_never

from .workflow_model import NativeNode, OtherNode, WorkflowProblem, is_too_old, node_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .settings_xml import Config
    from .workflow_model import Connection, Node, Workflow


def check(workflow: Workflow) -> list[WorkflowProblem]:
    """Lists the problems of a workflow, including the reader's; empty for a valid workflow."""
    if is_too_old(workflow.version):
        return list(workflow.problems)  # other checks would misread it
    connected = {(line.destination, line.destination_port) for line in workflow.connections}
    return [
        *workflow.problems,
        *_check_names(workflow),
        *_check_connections(workflow),
        *(problem for node in workflow.nodes for problem in _check_node(node, workflow, connected)),
        *_check_cycles(workflow),
    ]


def _repeated(values: Iterable[Any]) -> list[Any]:
    return [value for value, count in Counter(values).items() if count > 1]


def _check_names(workflow: Workflow) -> Iterator[WorkflowProblem]:
    for node_id in _repeated(node.id for node in workflow.nodes):
        yield WorkflowProblem("error", "workflow", f"it has two nodes with the id {node_id}")
    for name in _repeated(credential.name for credential in workflow.credentials):
        yield WorkflowProblem("error", "workflow", f"it has two credentials {name!r}")
    for name in _repeated(variable.name for variable in workflow.variables):
        yield WorkflowProblem("error", "workflow", f"it has two workflow variables {name!r}")
    for variable in workflow.variables:
        if not variable.name.strip() or variable.name.startswith("knime."):
            what = "names must not be empty, and those that start with 'knime.' belong to KNIME"
            yield WorkflowProblem("error", f"workflow variable {variable.name!r}", what)
    for credential in workflow.credentials:
        if not credential.name.strip():
            yield WorkflowProblem("error", "workflow", "a credential has no name")


def _check_connections(workflow: Workflow) -> Iterator[WorkflowProblem]:
    nodes = {node.id: node for node in workflow.nodes}
    for connection in workflow.connections:
        where = f"connection {connection}"
        for end in (connection.source, connection.destination):
            if end not in nodes:
                yield WorkflowProblem("error", where, f"node {end} does not exist")
        yield from _check_ports(connection, nodes, where)
    for node_id, port in _repeated(
        (line.destination, line.destination_port) for line in workflow.connections
    ):
        yield WorkflowProblem(
            "error", f"node {node_id}", f"more than one connection leads to its input port {port}"
        )


def _check_ports(connection: Connection, nodes: dict[int, Node], where: str) -> Iterator[WorkflowProblem]:
    source, destination = nodes.get(connection.source), nodes.get(connection.destination)
    if min(connection.source_port, connection.destination_port) < 0:
        yield WorkflowProblem("error", where, "ports count from 0")
    # Port 0 is that of the flow variables, so that the last one has the number of all others.
    if isinstance(source, NativeNode) and connection.source_port > source.outputs:
        what = f"{node_label(source)} has no output port {connection.source_port}; it has {source.outputs}"
        yield WorkflowProblem("error", where, what)
    if isinstance(destination, NativeNode) and destination.inputs is not None:
        count = destination.inputs
        if connection.destination_port > count:
            what = (
                f"{node_label(destination)} has no input port {connection.destination_port}; it has {count}"
            )
            yield WorkflowProblem("error", where, what)


def _check_node(node: Node, workflow: Workflow, connected: set[tuple[int, int]]) -> Iterator[WorkflowProblem]:
    where = node_label(node)
    if node.id < 0:
        yield WorkflowProblem("error", where, "ids of nodes count from 0")
    match node:
        case NativeNode():
            yield from _check_native_node(node, where)
            yield from _check_inputs(node, connected, where)
        case OtherNode(kind="broken"):
            # The reader has told of it.
            if not any(problem.where == where for problem in workflow.problems):
                yield WorkflowProblem("error", where, node.problem or "it is broken")
        case OtherNode():
            if node.settings_file not in workflow.files:
                yield WorkflowProblem("error", where, f"its file {node.settings_file!r} is missing")
        case _:
            assert_never(node)


def _check_native_node(node: NativeNode, where: str) -> Iterator[WorkflowProblem]:
    if not node.factory:
        yield WorkflowProblem("error", where, "it has no factory, so nobody can know what it is")
    if (node.extension_id is None) != (node.node_id is None):
        yield WorkflowProblem(
            "error", where, "a node of a Python extension needs 'extension_id' and 'node_id'"
        )
    for group_id in _repeated(group.id for group in node.port_groups):
        yield WorkflowProblem("error", where, f"it has two port groups {group_id!r}")
    paths = [control.path for control in node.variables]
    for path in _repeated(paths):
        yield WorkflowProblem(
            "error", where, f"the parameter {'.'.join(path)} has two flow variable controls"
        )
    for control in node.variables:
        shown = ".".join(control.path)
        if not control.path:
            yield WorkflowProblem("error", where, "a flow variable control says no parameter")
        elif node.model is not None and not _has_parameter(node.model, control.path):
            what = f"a flow variable controls its parameter {shown!r}, which it does not have"
            yield WorkflowProblem("warning", where, what)
        if any(control.path[:length] in paths for length in range(1, len(control.path))):
            what = f"flow variables control {shown!r} and also the group that it is in"
            yield WorkflowProblem("error", where, what)


def _has_parameter(model: Config, path: tuple[str, ...]) -> bool:
    config = model
    for key in path[:-1]:
        inner = config.config(key)
        if inner is None:
            return False
        config = inner
    return path[-1] in config


def _check_inputs(node: NativeNode, connected: set[tuple[int, int]], where: str) -> Iterator[WorkflowProblem]:
    names = node.input_names
    for port in range(1, (node.inputs or 0) + 1):
        if (node.id, port) not in connected:
            name = repr(names[port - 1]) if names else "of it"
            yield WorkflowProblem("warning", where, f"nothing is connected to its input port {port} ({name})")


def _check_cycles(workflow: Workflow) -> Iterator[WorkflowProblem]:
    nodes = {node.id: node for node in workflow.nodes}
    before: dict[int, list[int]] = {}
    for line in workflow.connections:
        if line.source in nodes and line.destination in nodes:
            before.setdefault(line.destination, []).append(line.source)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        labels = ", ".join(node_label(nodes[node_id]) for node_id in sorted(set(error.args[1])))
        yield WorkflowProblem(
            "error", "workflow", f"it has a cycle; these nodes wait for each other: {labels}"
        )
