"""Lists the nodes in metanodes and components. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .reader import read_inside
from .settings import KnwfError
from .workflow import NativeNode

if TYPE_CHECKING:
    from .workflow import OtherNode, Workflow

_MAX_DEPTH: Final = 20
_MAX_NODES: Final = 12


def inner_nodes(workflow: Workflow, node: OtherNode) -> tuple[str, ...]:
    """Lists the nodes in a metanode or component, nested ones included.

    Args:
        workflow: The workflow, with the files of the metanode or component.
        node: The metanode or component.

    Returns:
        Names with numbers, such as ``MCP Tool Caller (#4:2)``, in order; of more than 12 the last entry is
        the number of the others. Empty if the files cannot be read.
    """
    labels = _collect(workflow, node, str(node.id), 0)
    if len(labels) > _MAX_NODES:
        return (*labels[:_MAX_NODES], f"{len(labels) - _MAX_NODES} more")
    return tuple(labels)


def _collect(workflow: Workflow, node: OtherNode, number: str, depth: int) -> list[str]:
    if depth > _MAX_DEPTH:
        return []
    try:
        inside = read_inside(workflow, node)
    except KnwfError:
        return []
    labels: list[str] = []
    for node_inside in inside.nodes:
        inner = f"{number}:{node_inside.id}"
        if isinstance(node_inside, NativeNode) or node_inside.kind == "broken":
            labels.append(f"{node_inside.name} (#{inner})")
        else:
            labels += _collect(inside, node_inside, inner, depth + 1)
    return labels
