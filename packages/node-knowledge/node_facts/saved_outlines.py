"""The outlines of workflows that KNIME saved, so that `check_workflow` can be tried on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from knime_mcp.knwf import COMPONENT_INPUT_FACTORY, COMPONENT_OUTPUT_FACTORY, KnwfError, NativeNode, OtherNode
from knime_mcp.knwf.node_file import PYTHON_FACTORY
from knime_mcp.knwf.settings_xml import Config
from knime_node_knowledge.workflow_outline import Outline, OutlineConnection, OutlineNode
from tests.support.archives import read_inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from knime_mcp.knwf import Connection, Node, Workflow

_OWN_PORTS: Final = (COMPONENT_INPUT_FACTORY, COMPONENT_OUTPUT_FACTORY)
"""Nodes that stand for a component's own ports."""


def outline_of(workflow: Workflow, is_known: Callable[[str], bool]) -> Outline:
    """The outline of a saved workflow. Nodes that are not known, or cannot be read, have no reference."""
    return Outline(
        nodes=tuple(_node(workflow, node, is_known) for node in workflow.nodes),
        connections=tuple(map(_connection, workflow.connections)),
        has_own_ports=True,  # a file may also be the template of a metanode
    )


def _connection(line: Connection) -> OutlineConnection:
    return OutlineConnection(
        source=str(line.source),
        source_port=line.source_port,
        target=str(line.destination),
        target_port=line.destination_port,
    )


def _node(workflow: Workflow, node: Node, is_known: Callable[[str], bool]) -> OutlineNode:
    plain = OutlineNode(id=str(node.id), name=node.name, reference=None)
    if isinstance(node, OtherNode):
        try:
            inside = outline_of(read_inside(workflow, node), is_known)
        except KnwfError:
            return plain  # it is broken, or encrypted as shared components may be
        return OutlineNode(id=plain.id, name=plain.name, reference=None, inside=inside)
    if node.factory in _OWN_PORTS or not is_known(catalogue_id(node)):
        return plain
    settings = None if node.model is None else {"model": _tree(node.model), "variables": _controls(node)}
    return OutlineNode(id=plain.id, name=plain.name, reference={"id": catalogue_id(node)}, settings=settings)


def catalogue_id(node: NativeNode) -> str:
    """The id of the kind of node: its factory, and for nodes of Python extensions what they are there."""
    if node.factory == PYTHON_FACTORY and node.extension_id and node.node_id:
        return f"{node.extension_id}.{node.node_id}"
    return node.factory


def _controls(node: NativeNode) -> dict[str, Any]:
    """The settings that flow variables control, in KNIME's form."""
    tree: dict[str, Any] = {}
    for control in node.variables:
        place = tree
        for key in control.path[:-1]:
            place = place.setdefault(key, {})
        place[control.path[-1]] = {"used_variable": control.used}
    return {"tree": tree}


def _tree(config: Config) -> dict[str, Any]:
    return {
        child.key: _tree(child) if isinstance(child, Config) else child.value for child in config.children
    }
