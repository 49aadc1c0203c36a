"""Checks the graph of a tool: references to nodes that do not exist, dead ends, nodes that no run reaches.

Errors are problems that the reference refuses as well, in its words, and wrong uses of features that the
reference does not have. Anything that the reference would run is at most a warning.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...yaml_text import did_you_mean
from ..model import Dialect
from ..nodes import EntryNode, ExitNode, ForEachNode, McpNode, ParallelNode, SwitchNode, ToolNode, exits
from ..raw_values import mapping

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ...yaml_text import Findings, Path
    from ..nodes import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A node of the document, which may be a duplicate.

    Attributes:
        raw: The document's mapping.
        path: Its key path.
        node: The node of the model, or None if the mapping is invalid.
    """

    raw: Any
    path: Path
    node: Node | None

    @property
    def id(self) -> str | None:
        """The id, if there is one."""
        value = mapping(self.raw).get("id")
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTool:
    """A tool of the document.

    Attributes:
        name: Its name.
        path: Its key path.
        nodes: Its nodes in the order of the document.
    """

    name: str
    path: Path
    nodes: Sequence[PlacedNode]


class GraphChecks:
    """Checks the graphs of one document.

    Args:
        findings: Collects the problems.
        dialect: The dialect of the document.
        servers: Names of the servers that nodes may call.
        tools: Names of the document's tools.
    """

    def __init__(
        self, findings: Findings, dialect: Dialect, servers: Collection[str], tools: Collection[str]
    ) -> None:
        self._findings = findings
        self._dialect = dialect
        self._servers = servers
        self._tools = tools

    def check(self, tool: PlacedTool) -> None:
        """Checks one tool.

        Args:
            tool: The tool. Only the ids of invalid nodes are used.
        """
        entry, exit_ = (self._only_one(tool, kind) for kind in ("entry", "exit"))
        self._duplicates(tool)
        known = {placed.id for placed in tool.nodes if placed.id is not None}
        for placed in tool.nodes:
            if placed.node is not None:
                self._references(tool, placed, placed.node, known)
                self._calls(tool, placed, placed.node)
        if any(placed.node is None for placed in tool.nodes):
            return  # An invalid node may have the missing edge.
        graph = _edges(tool)
        if entry is not None and exit_ is not None:
            self._ways(tool, graph, entry, exit_)
        ends = {placed.id for placed in tool.nodes if isinstance(placed.node, EntryNode | ExitNode)}
        for placed in tool.nodes:
            if isinstance(placed.node, ParallelNode | ForEachNode):
                self._branches(placed, placed.node, graph, ends)

    def _only_one(self, tool: PlacedTool, kind: str) -> str | None:
        nodes = [placed for placed in tool.nodes if mapping(placed.raw).get("type") == kind]
        ids = ["?" if placed.id is None else placed.id for placed in nodes]
        if not nodes:
            self._findings.error(f'Tool "{tool.name}" has no {kind} node', tool.path)
        elif len(nodes) > 1:
            message = f'Tool "{tool.name}" has multiple {kind} nodes: {", ".join(ids)}'
            self._findings.error(message, nodes[1].path, "Keep one of them")
        return ids[0] if len(nodes) == 1 else None

    def _duplicates(self, tool: PlacedTool) -> None:
        last: dict[str, PlacedNode] = {}
        for placed in tool.nodes:
            if placed.id is None:
                continue
            first = last.get(placed.id)
            last[placed.id] = placed
            if first is None:
                continue
            line = self._findings.source.at(first.path).line
            path = (*placed.path, "id")
            if not isinstance(first.node, EntryNode | ExitNode):
                message = f'the id "{placed.id}" in tool "{tool.name}" is also used on line {line}'
                self._findings.warn(f"{message}; the last one counts", path, "Rename one of them")
            elif type(first.node) is not type(placed.node):
                message = f'Node "{placed.id}" in tool "{tool.name}" replaces the node of the same id'
                self._findings.error(f"{message} on line {line}, which the tool needs", path, "Rename it")

    def _references(self, tool: PlacedTool, placed: PlacedNode, node: Node, known: set[str]) -> None:
        for edge, target, key in self._ways_out(node, placed):
            if target not in known:
                kind = "Switch node" if isinstance(node, SwitchNode) else "Node"
                self._findings.error(
                    f'{kind} "{node.id}" in tool "{tool.name}" references non-existent {edge} "{target}"',
                    (*placed.path, *key),
                    did_you_mean(target, sorted(known)),
                )

    def _ways_out(self, node: Node, placed: PlacedNode) -> Iterator[tuple[str, str, Path]]:
        """Yields each outgoing edge: its name, the target's id, and the key that holds it."""
        match node:
            case SwitchNode():
                called, key = (
                    ("target", "target") if self._dialect is Dialect.TARGET else ("next node", "next")
                )
                raw = placed.raw["conditions"]
                for index, condition in enumerate(raw):
                    if isinstance(condition.get(key), str):
                        yield called, condition[key], ("conditions", index, key)
                if node.default is not None:
                    yield "default next node", node.default, ("next",)
            case ParallelNode():
                for index, branch in enumerate(node.branches):
                    yield "branch", branch, ("branches", index)
                yield "next node", node.next, ("next",)
            case ForEachNode():
                yield "'do' node", node.body, ("do",)
                yield "next node", node.next, ("next",)
            case ExitNode():
                if placed.raw.get("next"):
                    yield "next node", placed.raw["next"], ("next",)
            case _:
                yield "next node", node.next, ("next",)
        if isinstance(target := placed.raw.get("onError"), str):
            yield "onError node", target, ("onError",)

    def _calls(self, tool: PlacedTool, placed: PlacedNode, node: Node) -> None:
        if isinstance(node, McpNode) and node.server not in self._servers:
            self._findings.error(
                f'MCP node "{node.id}" in tool "{tool.name}" references non-existent server "{node.server}"',
                (*placed.path, "server"),
                did_you_mean(node.server, self._servers) or "Add it to mcpServers",
            )
        elif isinstance(node, ToolNode) and node.tool not in self._tools:
            self._findings.error(
                f'Node "{node.id}" in tool "{tool.name}" calls the tool "{node.tool}", which this document'
                " does not have",
                (*placed.path, "tool"),
                did_you_mean(node.tool, self._tools),
            )
        elif isinstance(node, ExitNode) and placed.raw.get("next") is not None:
            self._findings.warn("an exit node ends the run: its 'next' is ignored", (*placed.path, "next"))
        elif isinstance(node, SwitchNode):
            self._switch(placed, node)

    def _switch(self, placed: PlacedNode, node: SwitchNode) -> None:
        always = next((i for i, condition in enumerate(node.conditions) if condition.always), None)
        if always is None and node.default is None:
            message = f'the switch "{node.id}" has no default: a run fails here if no condition holds'
            self._findings.warn(message, placed.path, "Add a condition without 'rule' at the end")
        elif always is not None and always + 1 < len(node.conditions):
            message = "this condition is never tried: the one before has no rule and always holds"
            self._findings.warn(message, (*placed.path, "conditions", always + 1))

    def _ways(self, tool: PlacedTool, graph: Mapping[str, Sequence[str]], entry: str, exit_: str) -> None:
        reached = _closure(graph, [entry])
        if exit_ not in reached:
            message = f'Tool "{tool.name}" exit node "{exit_}" is not reachable from entry node "{entry}"'
            self._findings.error(message, next(p.path for p in tool.nodes if p.id == exit_))
        backwards: dict[str, list[str]] = {}
        for start, targets in graph.items():
            for target in targets:
                backwards.setdefault(target, []).append(start)
        leading = _closure(backwards, [exit_])
        for placed in tool.nodes:
            if placed.id is None or placed.id in (entry, exit_):
                continue
            if placed.id not in reached:
                message = f'Node "{placed.id}" in tool "{tool.name}" is never reached from the entry node'
                self._findings.warn(
                    message, placed.path, "Set the 'next' of another node to it, or remove it"
                )
            elif placed.id not in leading and exit_ in reached:
                message = f'no path leads from node "{placed.id}" in tool "{tool.name}" to the exit node'
                self._findings.warn(f"{message}: a run that gets there never ends by itself", placed.path)

    def _branches(
        self,
        placed: PlacedNode,
        node: ParallelNode | ForEachNode,
        graph: Mapping[str, Sequence[str]],
        ends: Collection[str | None],
    ) -> None:
        """Checks that branches end at the node's ``next``, and that no two branches share a node."""
        starts = node.branches if isinstance(node, ParallelNode) else (node.body,)
        used: Counter[str] = Counter()
        for start in starts:
            if start == node.next:
                self._findings.error(f'the branch "{start}" of node "{node.id}" is empty', placed.path)
                continue
            part = _closure(graph, [start], until=node.next)
            for name in part:
                if name in ends and name != node.next:
                    message = f'a path leads from branch "{start}" of node "{node.id}" to "{name}"'
                    self._findings.error(f'{message} without passing "{node.next}"', placed.path)
            if node.id in part:
                message = f'a path leads from branch "{start}" back to node "{node.id}"'
                self._findings.error(f"{message}, which is still running then", placed.path)
            if node.next not in part:
                message = f'the branch "{start}" of node "{node.id}" never reaches "{node.next}"'
                self._findings.error(message, placed.path, "Its branches end there")
            used.update(part - {node.next})
        for name in sorted(name for name, times in used.items() if times > 1):
            message = f'node "{name}" is in more than one branch of node "{node.id}"'
            self._findings.error(message, placed.path, "Give each branch its own nodes")


def _edges(tool: PlacedTool) -> dict[str, list[str]]:
    """The nodes that follow each node; an exit's ``next`` counts, as it does for the reference."""
    graph: dict[str, list[str]] = {}
    for placed in tool.nodes:
        if placed.node is not None:
            targets = graph.setdefault(placed.node.id, [])
            targets += [target for _, target in exits(placed.node)]
            if isinstance(placed.node, ExitNode) and isinstance(target := placed.raw.get("next"), str):
                targets.append(target)
    return graph


def _closure(graph: Mapping[str, Sequence[str]], start: Sequence[str], until: str | None = None) -> set[str]:
    """All nodes that can be reached from some nodes, including these; the search stops at `until`."""
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting.extend(() if current == until else graph.get(current, ()))
    return seen
