"""Finds what is wrong with a workflow, in words. `check` is pure; `check_archive` reads the file first.

An error is what KNIME would refuse, complain about or never run; a warning is what probably was not meant.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar, assert_never

from .graph import nodes_in_cycles
from .reader import read_workflow
from .settings import Config, KnwfError
from .workflow import NativeNode, OtherNode, Problem, is_too_old, node_label

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable, Iterable, Iterator

    from .workflow import Connection, Node, Workflow


def check_archive(path: str | os.PathLike[str]) -> list[Problem]:
    """The problems of a workflow archive; empty for a valid one.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        return check(read_workflow(path))
    except KnwfError as error:
        return [Problem("error", "archive", str(error))]


def check(workflow: Workflow) -> list[Problem]:
    """The problems of a workflow, including those that its reader found; empty for a valid one."""
    if is_too_old(workflow.version):
        return list(workflow.problems)  # all else would be misread
    taken = {(line.destination, line.destination_port) for line in workflow.connections}
    return [
        *workflow.problems,
        *_names(workflow),
        *_connections(workflow),
        *(problem for node in workflow.nodes for problem in _node(node, workflow, taken)),
        *_cycles(workflow),
    ]


_Key = TypeVar("_Key", bound="Hashable")


def _doubled(values: Iterable[_Key]) -> list[_Key]:
    return [value for value, count in Counter(values).items() if count > 1]


def _names(workflow: Workflow) -> Iterator[Problem]:
    for node_id in _doubled(node.id for node in workflow.nodes):
        yield Problem("error", "workflow", f"it has two nodes with the id {node_id}")
    for name in _doubled(credential.name for credential in workflow.credentials):
        yield Problem("error", "workflow", f"it has two credentials {name!r}")
    for name in _doubled(variable.name for variable in workflow.variables):
        yield Problem("error", "workflow", f"it has two workflow variables {name!r}")
    for variable in workflow.variables:
        if not variable.name.strip() or variable.name.startswith("knime."):
            what = "names must not be empty, and those that start with 'knime.' belong to KNIME"
            yield Problem("error", f"workflow variable {variable.name!r}", what)
    for credential in workflow.credentials:
        if not credential.name.strip():
            yield Problem("error", "workflow", "a credential has no name")


def _connections(workflow: Workflow) -> Iterator[Problem]:
    nodes = {node.id: node for node in workflow.nodes}
    for connection in workflow.connections:
        where = f"connection {connection}"
        for end in (connection.source, connection.destination):
            if end not in nodes:
                yield Problem("error", where, f"node {end} does not exist")
        yield from _ports(connection, nodes, where)
    for node_id, port in _doubled((line.destination, line.destination_port) for line in workflow.connections):
        yield Problem("error", f"node {node_id}", f"more than one connection leads to its input port {port}")


def _ports(connection: Connection, nodes: dict[int, Node], where: str) -> Iterator[Problem]:
    source, destination = nodes.get(connection.source), nodes.get(connection.destination)
    if min(connection.source_port, connection.destination_port) < 0:
        yield Problem("error", where, "ports count from 0")
    if isinstance(source, NativeNode) and connection.source_port > source.outputs:
        what = f"{node_label(source)} has no output port {connection.source_port}; it has {source.outputs}"
        yield Problem("error", where, what)
    if isinstance(destination, NativeNode) and destination.inputs is not None:
        has = destination.inputs
        if connection.destination_port > has:
            what = f"{node_label(destination)} has no input port {connection.destination_port}; it has {has}"
            yield Problem("error", where, what)


def _node(node: Node, workflow: Workflow, taken: set[tuple[int, int]]) -> Iterator[Problem]:
    where = node_label(node)
    if node.id < 0:
        yield Problem("error", where, "ids of nodes count from 0")
    match node:
        case NativeNode():
            yield from _native(node, where)
            yield from _open_inputs(node, taken, where)
        case OtherNode(kind="broken"):
            if not any(problem.where == where for problem in workflow.problems):
                yield Problem("error", where, node.problem or "it is broken")
        case OtherNode():
            if node.settings_file not in workflow.files:
                yield Problem("error", where, f"its file {node.settings_file!r} is missing")
        case _:
            assert_never(node)


def _native(node: NativeNode, where: str) -> Iterator[Problem]:
    if not node.factory:
        yield Problem("error", where, "it has no factory, so nobody can know what it is")
    if (node.extension_id is None) != (node.node_id is None):
        yield Problem("error", where, "a node of a Python extension needs 'extension_id' and 'node_id'")
    for group_id in _doubled(group.id for group in node.port_groups):
        yield Problem("error", where, f"it has two port groups {group_id!r}")
    paths = [control.path for control in node.variables]
    for path in _doubled(paths):
        yield Problem("error", where, f"the parameter {'.'.join(path)} has two flow variable controls")
    for control in node.variables:
        shown = ".".join(control.path)
        if not control.path:
            yield Problem("error", where, "a flow variable control says no parameter")
        elif node.model is not None and not _has(node.model, control.path):
            what = f"a flow variable controls its parameter {shown!r}, which it does not have"
            yield Problem("warning", where, what)
        if any(control.path[:length] in paths for length in range(1, len(control.path))):
            what = f"flow variables control {shown!r} and also the group that it is in"
            yield Problem("error", where, what)


def _has(model: Config, path: tuple[str, ...]) -> bool:
    found = model
    for key in path[:-1]:
        inner = found.config(key)
        if inner is None:
            return False
        found = inner
    return path[-1] in found


def _open_inputs(node: NativeNode, taken: set[tuple[int, int]], where: str) -> Iterator[Problem]:
    names = node.input_names
    for port in range(1, (node.inputs or 0) + 1):
        if (node.id, port) not in taken:
            name = repr(names[port - 1]) if names else "of it"
            yield Problem("warning", where, f"nothing is connected to its input port {port} ({name})")


def _cycles(workflow: Workflow) -> Iterator[Problem]:
    stuck = set(nodes_in_cycles(workflow))
    if stuck:
        labels = ", ".join(node_label(node) for node in workflow.nodes if node.id in stuck)
        yield Problem("error", "workflow", f"it has a cycle; these nodes wait for each other: {labels}")
