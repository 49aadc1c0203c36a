"""Looks into metanodes and components, far enough to say what is in them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .settings import Config, KnwfError, from_xml

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
    folder = node.settings_file.rpartition("/")[0]
    found = _walk(workflow, folder, str(node.id), 0)
    if len(found) > _MAX_NODES:
        return (*found[:_MAX_NODES], f"{len(found) - _MAX_NODES} more")
    return tuple(found)


def _walk(workflow: Workflow, folder: str, number: str, depth: int) -> list[str]:
    path = f"{folder}/workflow.knime"
    if depth > _MAX_DEPTH or path not in workflow.files:
        return []
    try:
        root = from_xml(workflow.files[path], path)
    except KnwfError:
        return []
    found: list[str] = []
    for own in (root.config("nodes") or Config("nodes")).configs():
        file, node_id = own.text("node_settings_file"), own.integer("id")
        if node_id is None or not file:
            continue
        inner = f"{number}:{node_id}"
        if own.text("node_type", "NativeNode") == "NativeNode" and own.value("node_is_meta") is not True:
            name = file.rpartition("/")[0].rpartition(" (#")[0] or file
            found.append(f"{name} (#{inner})")
        else:
            found += _walk(workflow, f"{folder}/{file.rpartition('/')[0]}", inner, depth + 1)
    return found
