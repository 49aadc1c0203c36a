"""A recorded run: how it is read, which tool ran, and which ways it took."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...graph.documents.shapes import entries, mapping
from ...graph.nodes import ForEachNode, ParallelNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...graph.model import ToolDefinition

_Line = tuple[str, ...]
"""The branches that a record is in, outermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run as the executor records it.

    Attributes:
        tool: The tool that ran, or None if the record does not say.
        records: One mapping per node that ran, in order, with ``nodeId``, ``nodeType``, ``output``,
            ``duration`` (ms), ``error`` and, if it was recorded, ``input`` and ``branch``.
    """

    tool: str | None
    records: tuple[Mapping[str, Any], ...]


def read_run(recorded: Any) -> RecordedRun:
    """Reads a recorded run.

    Args:
        recorded: A list of records, or a mapping with them as ``executionHistory`` or ``history``, and the
            ``tool``.
    """
    found = mapping(recorded)
    records = entries(recorded) or entries(found.get("executionHistory", found.get("history")))
    tool = found.get("tool", found.get("toolName"))
    return RecordedRun(
        tool=tool if isinstance(tool, str) else None,
        records=tuple(mapping(record) for record in records if "nodeId" in mapping(record)),
    )


def tool_of(run: RecordedRun | None, tools: Sequence[ToolDefinition]) -> ToolDefinition | None:
    """The tool that ran: the one it names, or the first one that has all its nodes."""
    if run is None:
        return None
    if run.tool is not None:
        return next((tool for tool in tools if tool.name == run.tool), None)
    nodes = {str(record["nodeId"]) for record in run.records}
    return next((tool for tool in tools if nodes <= set(tool.by_id)), None)


def ways_taken(records: Sequence[Mapping[str, Any]], tool: ToolDefinition) -> frozenset[tuple[str, str]]:
    """The ways between nodes that a run took.

    Nodes of branches and of entries of a loop run at the same time: each follows the node before it in its
    own line, and the first one the node that the branch or entry belongs to.

    Args:
        records: What ran.
        tool: The tool that ran.

    Returns:
        Pairs of the ids of nodes.
    """
    lines: dict[_Line, list[str]] = {}
    for record in records:
        line = tuple(str(name) for name in entries(record.get("branch")))
        lines.setdefault(line, []).append(str(record["nodeId"]))
    found = {way for nodes in lines.values() for way in pairwise(nodes)}
    for line, nodes in lines.items():
        if not line:
            continue
        owner = line[-1].rpartition("#")[0]
        found.add((owner, nodes[0]))
        node = tool.by_id.get(owner)
        # It came to its end if what follows ran.
        if isinstance(node, ParallelNode | ForEachNode) and (owner, node.next) in found:
            found.add((nodes[-1], node.next))
    return frozenset(found)
