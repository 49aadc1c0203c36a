"""Reads a recorded run, and finds its tool and the edges that it took."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ...graph.nodes import ForEachNode, ParallelNode, ToolNode
from ...graph.raw_values import entries, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...graph.model import ToolDefinition

_Line = tuple[str, ...]
"""The branches around a record, outermost first."""
_OWNER: Final = re.compile(r"(.*?)#[0-9]+\[", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run that the executor recorded.

    Attributes:
        tool: The tool that ran, or None if it is not recorded.
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
    members = mapping(recorded)
    records = entries(recorded) or entries(members.get("executionHistory", members.get("history")))
    tool = members.get("tool", members.get("toolName"))
    return RecordedRun(
        tool=tool if isinstance(tool, str) else None,
        records=tuple(mapping(record) for record in records if "nodeId" in mapping(record)),
    )


def tool_of(run: RecordedRun | None, tools: Sequence[ToolDefinition]) -> ToolDefinition | None:
    """The tool that ran: the recorded tool, or the first tool that has all recorded nodes."""
    if run is None:
        return None
    if run.tool is not None:
        return next((tool for tool in tools if tool.name == run.tool), None)
    nodes = {str(record["nodeId"]) for record in run.records if not _line_of(record)}
    return next((tool for tool in tools if nodes <= set(tool.by_id)), None)


def calling_node(record: Mapping[str, Any], tool: ToolDefinition) -> str | None:
    """The node that called the tool of a record; None if the record is of the run's own tool.

    Args:
        record: A record of a run of the tool.
        tool: The tool that ran.
    """
    owners = map(_owner_of, _line_of(record))
    return next((owner for owner in owners if isinstance(tool.by_id.get(owner), ToolNode)), None)


def ways_taken(records: Sequence[Mapping[str, Any]], tool: ToolDefinition) -> frozenset[tuple[str, str]]:
    """The edges that a run took.

    Branches and entries of a loop run at the same time: in each of them, a node follows the node before it in
    the same line, and the first node follows the node that the branch or entry belongs to.

    Args:
        records: The records of the tool's own nodes.
        tool: The tool that ran.

    Returns:
        Pairs of the ids of nodes.
    """
    lines: dict[_Line, list[str]] = {}
    for record in records:
        lines.setdefault(_line_of(record), []).append(str(record["nodeId"]))
    edges = {way for nodes in lines.values() for way in pairwise(nodes)}
    for line, nodes in lines.items():
        if not line:
            continue
        owner = _owner_of(line[-1])
        edges.add((owner, nodes[0]))
        node = tool.by_id.get(owner)
        # The branches or entries have ended if the next node ran.
        if isinstance(node, ParallelNode | ForEachNode) and (owner, node.next) in edges:
            edges.add((nodes[-1], node.next))
    return frozenset(edges)


def _line_of(record: Mapping[str, Any]) -> _Line:
    return tuple(str(name) for name in entries(record.get("branch")))


def _owner_of(branch: str) -> str:
    """The node that a branch belongs to: ``fan`` of ``fan#3[left]``."""
    match = _OWNER.match(branch)
    return match[1] if match is not None else branch
