"""Checks the graph of a tool: its nodes and ways, and the syntax of expressions.

Documents are refused for what the reference refuses as well, in its words, and for wrong uses of features
that the reference does not have. What surely fails as soon as it runs is an error, too, though the rest of
the document can be used; what may fail is a warning.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.yaml_text import as_mapping, did_you_mean, kind_of

from .expressions import check_jsonata, unset_variables
from .expressions.javascript import scalar_text
from .expressions.json_logic import ARRAY_LOOPS, OPERATORS, is_jsonata, wrong_var
from .expressions.jsonata import FUNCTIONS, surely_called
from .graph_model import Expression, Rule, reachable
from .nodes import KINDS, EntryNode, ExitNode, SwitchNode, ToolNode
from .nodes.node import kind_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from knime_mcp.yaml_text import Findings, Path

    from .graph_model import Dialect, Part
    from .nodes import Node
    from .nodes.node import Way

    LookUp = Callable[[str, Path], None]
    """Gets an expression and its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A node of the document, which may be a duplicate; None as `node` if its mapping is invalid."""

    raw: Any
    path: Path
    node: Node | None

    @property
    def id(self) -> str | None:
        value = as_mapping(self.raw).get("id")
        return value if isinstance(value, str) else None

    def ways(self, dialect: Dialect) -> Iterator[Way]:
        """Its ways, also if it is invalid."""
        return kind_in(KINDS, self.raw).ways_of(as_mapping(self.raw), dialect)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTool:
    """A tool of the document, with its nodes in the order of the document."""

    name: str
    path: Path
    nodes: Sequence[PlacedNode]


class GraphChecks:
    """Checks the graphs of one document; `servers` and `tools` are the names that nodes may call."""

    def __init__(self, findings: Findings, servers: Collection[str], tools: Collection[str]) -> None:
        self.findings = findings
        self.servers = servers
        self.tools = tools

    def check(self, tool: PlacedTool) -> None:
        """Checks one tool. Only the ids of invalid nodes are used."""
        entry, exit_ = (self._only_one(tool, kind) for kind in ("entry", "exit"))
        self._duplicates(tool)
        self._known = {placed.id for placed in tool.nodes if placed.id is not None}
        for node in (placed.node for placed in tool.nodes if placed.node is not None):
            for way in node.ways:
                self.target(tool.name, node, way.target, way.key, way.called)
            node.check(self, tool.name)
        if any(placed.node is None for placed in tool.nodes):
            return  # An invalid node may have the missing edge.
        graph = _edges(tool)
        if entry is not None and exit_ is not None:
            self._ways(tool, graph, entry, exit_)
        ends = {placed.id for placed in tool.nodes if isinstance(placed.node, EntryNode | ExitNode)}
        for placed in tool.nodes:
            if placed.node is not None and placed.node.inner_starts:
                self._branches(placed, placed.node, graph, ends)

    def _only_one(self, tool: PlacedTool, kind: str) -> str | None:
        nodes = [placed for placed in tool.nodes if as_mapping(placed.raw).get("type") == kind]
        ids = ["?" if placed.id is None else placed.id for placed in nodes]
        if not nodes:
            self.findings.error(f'Tool "{tool.name}" has no {kind} node', tool.path)
        elif len(nodes) > 1:
            message = f'Tool "{tool.name}" has multiple {kind} nodes: {", ".join(ids)}'
            self.findings.error(message, nodes[1].path, "Keep one of them")
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
            line = self.findings.source.at(first.path).line
            path = (*placed.path, "id")
            if not isinstance(first.node, EntryNode | ExitNode):
                message = f'the id "{placed.id}" in tool "{tool.name}" is also used on line {line}'
                self.findings.warn(f"{message}; the last one counts", path, "Rename one of them")
            elif type(first.node) is not type(placed.node):
                message = f'Node "{placed.id}" in tool "{tool.name}" replaces the node of the same id'
                self.findings.error(f"{message} on line {line}, which the tool needs", path, "Rename it")

    def target(self, tool: str, node: Node, target: str, key: Path, called: str) -> None:
        """Checks that a node is there to which a way leads."""
        if target not in self._known:
            kind = "Switch node" if isinstance(node, SwitchNode) else "Node"
            self.findings.error(
                f'{kind} "{node.id}" in tool "{tool}" references non-existent {called} "{target}"',
                (*node.written.path, *key),
                did_you_mean(target, sorted(self._known)),
            )

    def recursion(self, tools: Sequence[PlacedTool]) -> None:
        """Warns of tools that call themselves on every way to their exit, also by way of other tools."""
        names = {tool.name for tool in tools}
        judged = [tool for tool in tools if _can_end(tool, names)]
        ending = names - {tool.name for tool in judged}  # what cannot end anyway is told elsewhere
        while more := {tool.name for tool in judged if tool.name not in ending and _can_end(tool, ending)}:
            ending |= more
        for tool in judged:
            if tool.name in ending:
                continue
            calls = [
                placed
                for placed in tool.nodes
                if isinstance(placed.node, ToolNode) and placed.node.tool in names - ending
            ]
            if calls:
                called = as_mapping(calls[0].raw).get("tool")
                message = f'every way through the tool "{tool.name}" calls "{called}", which never ends'
                fix = "Let a switch decide whether to call it again"
                self.findings.fails(f"{message}: it calls itself", (*calls[0].path, "tool"), fix)

    def _ways(self, tool: PlacedTool, graph: Mapping[str, Sequence[str]], entry: str, exit_: str) -> None:
        reached = reachable(graph, [entry])
        if exit_ not in reached:
            message = f'Tool "{tool.name}" exit node "{exit_}" is not reachable from entry node "{entry}"'
            self.findings.error(message, next(p.path for p in tool.nodes if p.id == exit_))
        # One search from the exit tells it of all nodes; a search from each node would take quadratic time.
        backwards: dict[str, list[str]] = {}
        for start, targets in graph.items():
            for target in targets:
                backwards.setdefault(target, []).append(start)
        leading = reachable(backwards, [exit_])
        for placed in tool.nodes:
            if placed.id is None or placed.id in (entry, exit_):
                continue
            if placed.id not in reached:
                message = f'Node "{placed.id}" in tool "{tool.name}" is never reached from the entry node'
                self.findings.warn(message, placed.path, "Set the 'next' of another node to it, or remove it")
            elif placed.id not in leading and exit_ in reached:
                message = f'no path leads from node "{placed.id}" in tool "{tool.name}" to the exit node'
                fix = f"Give it, or a node after it, a way that leads to '{exit_}'"
                self.findings.fails(f"{message}: a run that gets there never ends", placed.path, fix)

    def _branches(
        self,
        placed: PlacedNode,
        node: Node,
        graph: Mapping[str, Sequence[str]],
        ends: Collection[str | None],
    ) -> None:
        """Checks that branches end at the node's ``next``, and that no two branches share a node."""
        graph = {**graph, node.id: ()}  # a branch that leads back is one mistake, not that of all branches
        used: Counter[str] = Counter()
        for start in node.inner_starts:
            if start == node.next:
                self.findings.error(f'the branch "{start}" of node "{node.id}" is empty', placed.path)
                continue
            part = reachable(graph, [start], until=node.next)
            for name in part:
                if name in ends and name != node.next:
                    message = f'a path leads from branch "{start}" of node "{node.id}" to "{name}"'
                    self.findings.error(f'{message} without passing "{node.next}"', placed.path)
            if node.id in part:
                message = f'a path leads from branch "{start}" back to node "{node.id}"'
                message = f"{message}, which is still running then"
                self.findings.error(message, placed.path, f"Write next: {node.next} at its last node")
            elif node.next not in part:
                message = f'the branch "{start}" of node "{node.id}" never reaches "{node.next}"'
                self.findings.error(message, placed.path, f"Write next: {node.next} at its last node")
            used.update(part - {node.id, node.next})
        for name in sorted(name for name, times in used.items() if times > 1):
            message = f'node "{name}" is in more than one branch of node "{node.id}"'
            self.findings.error(message, placed.path, "Give each branch its own nodes")


def _edges(tool: PlacedTool) -> dict[str, list[str]]:
    """The nodes that follow each node; an exit's ``next`` counts, as it does for the reference."""
    graph: dict[str, list[str]] = {}
    for placed in tool.nodes:
        if placed.node is not None:
            targets = graph.setdefault(placed.node.id, [])
            targets += [way.target for way in placed.node.ways]
            if isinstance(placed.node, ExitNode) and placed.node.ignored is not None:
                targets.append(placed.node.ignored)
    return graph


def _can_end(tool: PlacedTool, ending: Collection[str]) -> bool:
    """Whether a way leads to the exit on which only tools are called that end."""
    graph = _edges(tool)
    nodes = [placed.node for placed in tool.nodes if placed.node is not None]
    # Calls first: what goes through a branch depends on those in it.
    for node in sorted(nodes, key=lambda node: bool(node.inner_starts)):
        graph[node.id] = list(node.ways_to_end(graph, ending))
    entry = next((node.id for node in nodes if isinstance(node, EntryNode)), None)
    reached = set[str]() if entry is None else reachable(graph, [entry])
    return any(isinstance(node, ExitNode) and node.id in reached for node in nodes)


_HISTORY_FUNCTIONS: Final = frozenset(
    {"previousNode", "executionCount", "nodeExecution", "nodeExecutions", "nodeContent"}
)
_RULE_VARIABLES: Final = frozenset({"item", "current", "accumulator"})
_CHOICES: Final = frozenset({"if", "?:", "and", "or"})  # their first operand alone is surely evaluated
_FIRST_NAME: Final = re.compile(r"[^.\[]+")
_STANDARD: Final = "a rule of the standard"
_NO_PATH: Final = re.compile(r"[\[({*/<>=&|?~'\"]")
_LONG_NUMBERS: Final = re.compile(
    r""" "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*` | (?<![\w.])([0-9]{16,})(?:\.0+)?(?![\w.]) """,
    re.VERBOSE | re.DOTALL,
)
"""Matches strings and names, and whole numbers that may be beyond 2^53; the group is the number."""
_STRINGS: Final = re.compile(r""" "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' """, re.VERBOSE | re.DOTALL)
_OTHER_LANGUAGES: Final = (
    (re.compile("==|!=="), "JSONata compares with = and !="),
    (re.compile("&&"), "JSONata has 'and' instead of &&"),
    (re.compile(r"\|\|"), "JSONata has 'or' instead of ||"),
    (re.compile("!(?!=)"), "JSONata has $not(...) instead of !"),
    (re.compile("=>"), "JSONata's functions are written function($x) { ... }"),
    (re.compile(r"\{\{"), "Write the expression without {{ and }}"),
)


def check_expressions(findings: Findings, node: Node, ids: Collection[str], look_up: LookUp) -> None:
    """Checks the expressions of a node; `look_up` gets each that is JSONata, to judge what it looks up."""
    checks = _ExpressionChecks(findings, node.id, ids, look_up)
    for name, part in node.parts:
        checks.part(part, name)


class _ExpressionChecks:
    def __init__(self, findings: Findings, node: str, ids: Collection[str], look_up: LookUp) -> None:
        self._findings = findings
        self._node = f'Node "{node}"'
        self._ids = ids
        self._look_up = look_up

    def jsonata(self, expression: Expression, where: str) -> None:
        path = _path_of(expression)
        problem = check_jsonata(expression.text)
        if problem is not None:
            message = f"{self._node}: Invalid JSONata syntax in {where}: {problem}"
            self._findings.error(message, path, _from_other_language(expression.text))
        self._variables(expression.text, path, _HISTORY_FUNCTIONS)

    def _variables(self, text: str, path: Path, known: frozenset[str], *, sure: bool = True) -> None:
        self._look_up(text, path)
        for number in filter(None, _LONG_NUMBERS.findall(text)):
            if float(number) != int(number):
                what = f"{self._node}: {number} becomes {scalar_text(float(number))} in an expression"
                fix = "Whole numbers are exact up to 2^53 only; put it in quotes if it is an id"
                self._findings.warn(what, path, fix)
        called = surely_called(text) if sure else set[str]()
        for name in unset_variables(text):
            if name in known:
                continue
            if name in self._ids:
                fix = f"The output of the node '{name}' is written without $"
            else:
                fix = did_you_mean(name, (*FUNCTIONS, *known))
            message = f"{self._node}: JSONata has no '${name}', and the expression does not set it"
            tell = self._findings.fails if name in called else self._findings.warn
            tell(message, path, fix)

    def part(self, part: Part, where: str) -> None:
        match part:
            case Expression():
                is_marked = where.startswith("args") and _path_of(part)[-1:] == ("expr",)
                self.jsonata(part, f"{where}.expr" if is_marked else where)
            case Rule():
                # As in the reference, a ``var`` that does not begin with ``$`` fails only when it is used.
                self._rule(part.value, where, _path_of(part), _STANDARD if part.standard else None)
            case dict():
                for name, value in cast("dict[str, Any]", part).items():
                    self.part(value, f"{where}.{name}")
            case list():
                for index, value in enumerate(cast("list[Any]", part)):
                    self.part(value, f"{where}[{index}]")
            case _:
                pass

    def _rule(
        self,
        rule: Any,
        where: str,
        path: tuple[str | int, ...],
        loop: str | None = None,
        *,
        sure: bool = True,
    ) -> None:
        """Checks a part of a rule; `loop` is the operator for whose entries it is evaluated.

        What fails is an error if it is `sure` that the part is evaluated.
        """
        if isinstance(rule, list):
            for index, part in enumerate(cast("list[Any]", rule)):
                self._rule(part, where, (*path, index), loop, sure=sure)
        if not isinstance(rule, dict):
            return
        parts = cast("dict[str, Any]", rule)
        if list(parts) == ["var"]:
            var = parts["var"]
            if loop is not None and not is_jsonata(var):
                self._path_in_entry(var, where, (*path, "var"), loop, sure=sure)
            else:
                is_list = loop is not None and isinstance(var, list)  # [expression, default]
                value = cast("list[Any]", var)[0] if is_list else cast("Any", var)
                self._var(value, where, (*path, "var"), sure=sure)
            return
        if len(parts) == 1:
            (name,) = parts
            if name not in OPERATORS:
                fix = did_you_mean(name, OPERATORS) or "See https://jsonlogic.com/operations.html"
                message = f"{self._node}: JSON Logic has no operator '{name}' ({where})"
                tell = self._findings.fails if sure else self._findings.warn
                tell(f"{message}; a run fails here", (*path, name), fix)
        sure = sure and len(parts) == 1  # several keys are data
        for name, value in parts.items():
            operands = cast("list[Any]", value)
            if name in ARRAY_LOOPS | _CHOICES and isinstance(value, list) and len(parts) == 1:
                for index, operand in enumerate(operands):
                    # The second operand of a loop is the one that is evaluated for each entry.
                    inner = name if index == 1 and name in ARRAY_LOOPS else loop
                    self._rule(operand, where, (*path, name, index), inner, sure=sure and index == 0)
            else:
                self._rule(value, where, (*path, name), loop, sure=sure)

    def _path_in_entry(
        self, var: Any, where: str, path: tuple[str | int, ...], loop: str, *, sure: bool
    ) -> None:
        """Warns of a path that looks like JSONata, which the reference evaluates here, too."""
        if not isinstance(var, str):  # a part of a rule, which the reference does not know
            self._rule(var, where, path, loop, sure=sure)
            return
        text, first = var, _FIRST_NAME.match(var)
        is_node = first is not None and first[0] in self._ids and loop not in {"reduce", _STANDARD}
        if is_node or (_NO_PATH.search(text) and check_jsonata(text) is None):
            message = f"{self._node}: inside of {loop}, '{text}' is a path in the entry ({where})"
            fix = f"Write $.{text} for the value of the node" if is_node else "JSONata begins with $ there"
            self._findings.warn(message, path, fix)

    def _var(self, value: Any, where: str, path: tuple[str | int, ...], *, sure: bool) -> None:
        prefix = f"Invalid JSON Logic syntax in {where}"
        if (wrong := wrong_var(value)) is not None:
            fix = f"It takes one JSONata expression, not {kind_of(value)}"
            self._findings.error(f"{self._node}: {prefix}: {wrong}", path, fix)
            return
        problem = check_jsonata(value)
        if problem is None:
            self._variables(value, path, _HISTORY_FUNCTIONS | _RULE_VARIABLES, sure=sure)
            return
        text = f'{self._node}: {prefix}: Invalid JSONata in JSON Logic var operation "{value}": {problem}'
        if value.startswith("$"):
            self._findings.error(text, path)
        else:
            (self._findings.fails if sure else self._findings.warn)(f"{text}; a run fails here", path)


def _path_of(part: Expression | Rule) -> Path:
    return part.position.path if part.position is not None else ()


def _from_other_language(text: str) -> str | None:
    """What JSONata writes instead of an operator of another language in an expression."""
    code = _STRINGS.sub("''", text)
    return next((fix for pattern, fix in _OTHER_LANGUAGES if pattern.search(code)), None)
