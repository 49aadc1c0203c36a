"""Looks into metanodes and components, far enough to say what is in them. Pure."""

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
    """The nodes in a metanode or component, also those further in.

    Args:
        workflow: The workflow, with the files of what it does not understand.
        node: The metanode or component.

    Returns:
        Names with numbers, such as ``MCP Tool Caller (#4:2)``, in order; the last entry says how many more
        there are where there are many. Empty where the file does not say.
    """
    found = _walk(workflow, node, str(node.id), 0)
    if len(found) > _MAX_NODES:
        return (*found[:_MAX_NODES], f"{len(found) - _MAX_NODES} more")
    return tuple(found)


def _walk(workflow: Workflow, node: OtherNode, number: str, depth: int) -> list[str]:
    if depth > _MAX_DEPTH:
        return []
    try:
        inside = read_inside(workflow, node)
    except KnwfError:
        return []
    found: list[str] = []
    for node_inside in inside.nodes:
        inner = f"{number}:{node_inside.id}"
        if isinstance(node_inside, NativeNode) or node_inside.kind == "broken":
            found.append(f"{node_inside.name} (#{inner})")
        else:
            found += _walk(inside, node_inside, inner, depth + 1)
    return found
