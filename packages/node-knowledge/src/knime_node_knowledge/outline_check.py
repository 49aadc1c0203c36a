"""Checks a whole workflow against the catalogue: its nodes, their settings, and what is connected to what.

As with `configuration_check`, only what is certain is reported, so that nothing right is ever called wrong.
An error is what KNIME refuses or no catalogue knows; a warning is what works and ought to be changed, or
cannot run yet. What nothing can be said about is counted as not judged, with the reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import TYPE_CHECKING, Final, Literal

from .compatible_nodes import is_typed, takes_anything
from .configuration_check import check_configuration
from .node_index import index_of, is_engines
from .node_model import Port, SourceKind
from .node_references import resolved_node
from .port_types import is_connectable_port
from .query_words import folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .catalogue_reader import CatalogueReader
    from .node_model import NodeSpec
    from .workflow_outline import Outline, OutlineConnection, OutlineNode, UnreadKey

_FLOW_VARIABLES: Final = Port(
    name="flow variables",
    type="Flow Variable",
    type_id="org.knime.core.node.port.flowvariable.FlowVariablePortObject",
)
"""The port 0 that every node has on both sides."""

_ENGINES: Final = frozenset({"main", "error"})
"""What flows in workflow engines; what is told of an error may go wherever anything may go."""

_OWN_PORTS: Final = "-1"
"""The node that stands for a metanode's or component's own ports in the connections inside of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineFinding:
    severity: Literal["error", "warning"]
    where: str  # a node such as ``filter (Row Filter)``, a connection, or ``workflow``
    setting: str = ""
    problem: str
    fix: str


@dataclass(slots=True)
class WorkflowCheck:
    findings: list[OutlineFinding] = field(default_factory=list[OutlineFinding])
    notes: list[str] = field(default_factory=list[str])
    not_judged: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])  # where, why
    nodes: int = 0
    settings: int = 0  # nodes whose settings were judged
    connections: int = 0  # connections whose ports and types were judged

    @property
    def valid(self) -> bool | None:
        """False with an error; None without one if there is something that nothing can be said about."""
        if any(finding.severity == "error" for finding in self.findings):
            return False
        return None if self.not_judged else True

    def error(self, where: str, problem: str, fix: str, *, setting: str = "") -> None:
        self.findings.append(
            OutlineFinding(severity="error", where=where, setting=setting, problem=problem, fix=fix)
        )

    def unjudged(self, where: str, why: str) -> None:
        self.not_judged[where, why] = None

    def unread(self, where: str, keys: Sequence[UnreadKey]) -> None:
        """Says which keys of the outline play no part: nobody would know that they were not read."""
        for entry in keys:
            if entry.key in entry.known:
                self.unjudged(where, f"'{entry.key}' was not read, as other keys say which it is")
                continue
            meant = " or ".join(f"'{key}'" for key in entry.meant)
            fix = (f"Did you mean {meant}? " if meant else "") + f"Keys: {', '.join(entry.known)}."
            self.error(where, f"'{entry.key}' is no key of an outline", fix)

    def warning(self, where: str, problem: str, fix: str) -> None:
        self.findings.append(OutlineFinding(severity="warning", where=where, problem=problem, fix=fix))


def check_workflow(reader: CatalogueReader, outline: Outline) -> WorkflowCheck:
    found = WorkflowCheck()
    _Checker(reader, found).check(outline, "")
    return found


class _Checker:
    def __init__(self, reader: CatalogueReader, found: WorkflowCheck) -> None:
        self._reader = reader
        self._found = found

    def check(self, outline: Outline, prefix: str) -> None:
        """Checks one level; `prefix` is the path of the metanode or component that it is in."""
        by_id: dict[str, NodeSpec | None] = {}
        nodes: dict[str, OutlineNode] = {}
        self._found.unread(f"{prefix}workflow", outline.unread)
        for node in outline.nodes:
            where = f"{prefix}{node.label}"
            self._found.nodes += 1
            self._found.unread(where, node.unread)
            if node.id in by_id:
                self._found.error(
                    f"{prefix}workflow", f"two nodes have the id '{node.id}'", "Give each its own id."
                )
            nodes[node.id] = node
            by_id[node.id] = self._node(node, where)
            if node.inside is not None:
                self.check(node.inside, f"{prefix}{node.id}:")
        _Connections(self._found, outline, by_id, nodes, prefix).check()

    def _node(self, node: OutlineNode, where: str) -> NodeSpec | None:
        if node.reference is None:
            if node.settings is not None:
                self._found.unjudged(where, "settings of metanodes and components are not known")
            return None
        spec = self._spec(node, where)
        if spec is None:
            return None
        if spec.deprecated:  # KNIME still runs it, and offers it no more
            self._found.warning(where, f"'{spec.name}' is deprecated", self._instead_of(spec))
        if node.settings is not None:
            self._settings(node, spec, where)
        return spec

    def _spec(self, node: OutlineNode, where: str) -> NodeSpec | None:
        reference = node.reference or {}
        resolved = resolved_node(self._reader, reference)
        if resolved.node is None:
            meant = " or ".join(f"'{entry.name}' ({entry.id})" for entry in resolved.suggestions)
            written = reference.get("id") or ".".join(reference.values())
            fix = f"Did you mean {meant}?" if meant else resolved.hint
            self._found.error(where, f"there is no node '{written[:120]}' in this catalogue", fix)
            return None
        if resolved.warning:
            self._found.notes.append(f"{where}: {resolved.warning}")
        return self._reader.at(resolved.node.row)

    def _instead_of(self, spec: NodeSpec) -> str:
        if spec.successor is None:
            return "Look for another one with search_nodes."
        row = index_of(self._reader).row_of(spec.successor)
        if row is None:
            return f"Use {spec.successor} instead."
        newer = index_of(self._reader).summaries[row]
        return f"Use '{newer.name}' ({newer.id}) instead."

    def _settings(self, node: OutlineNode, spec: NodeSpec, where: str) -> None:
        check = check_configuration(spec, node.settings or {})
        self._found.settings += spec.settings_known
        for note in check.notes:
            self._found.unjudged(where, note)
        for entry in check.problems:
            self._found.error(where, entry.problem, entry.fix, setting=entry.setting)


@dataclass(frozen=True, slots=True)
class _Connections:
    found: WorkflowCheck
    outline: Outline
    specs: Mapping[str, NodeSpec | None]
    nodes: Mapping[str, OutlineNode]
    prefix: str

    def check(self) -> None:
        taken: Counter[tuple[str, int]] = Counter()
        for line in self.outline.connections:
            where = f"{self.prefix}{line}"
            self.found.unread(where, line.unread)
            missing = [name for name in (line.source, line.target) if not self._exists(name)]
            for name in missing:
                known = ", ".join(list(self.nodes)[:20]) or "none"
                self.found.error(where, f"there is no node '{name}' in the outline", f"Nodes: {known}.")
            if missing:
                continue
            # Where no port is named, any free one may be meant.
            if isinstance(line.target_port, int) and not self._takes_many(line.target):
                taken[line.target, line.target_port] += 1
            self._types(line, where)
        for (name, port), count in taken.items():
            if count > 1:
                what = f"{count} connections lead to its input {port}, which takes one"
                self.found.error(self._label(name), what, "Join or concatenate what should go there.")
        self._unconnected()
        self._cycles()

    def _exists(self, name: str) -> bool:
        return name in self.nodes or (self.outline.has_own_ports and name == _OWN_PORTS)

    def _label(self, name: str) -> str:
        return f"{self.prefix}{self.nodes[name].label if name in self.nodes else name}"

    def _takes_many(self, name: str) -> bool:
        """Whether an input takes several connections, as those of workflow engines do; KNIME's never do."""
        spec = self.specs.get(name)
        if spec is None:
            return name in self.nodes
        return is_engines(spec)

    def _types(self, line: OutlineConnection, where: str) -> None:
        source, target = self.specs.get(line.source), self.specs.get(line.target)
        if source is not None and target is not None and is_engines(source) != is_engines(target):
            engines, other = (source, target) if is_engines(source) else (target, source)
            what = f"'{engines.name}' ({engines.id}) is a node of the workflow engine, '{other.name}' is none"
            self.found.error(where, what, "Use nodes of one of the two.")
            return
        outputs = self._ports(line, where, source, is_input=False)
        inputs = self._ports(line, where, target, is_input=True)
        if outputs is None or inputs is None:
            return
        # Where an outline names no port, any of them may be meant.
        answers = [may_connect(output, into) for output, into in product(outputs, inputs)]
        if True not in answers and None in answers:
            self.found.unjudged(where, "it is not known whether the types of these ports fit")
            return
        self.found.connections += 1
        if True in answers:
            return
        gives, wants = (
            " or ".join(sorted({port.type or port.name for port in side})) for side in (outputs, inputs)
        )
        what = f"what comes out is of the type {gives}, and what should go in of the type {wants}"
        self.found.error(where, what, "Ask find_compatible which nodes fit.")

    def _ports(
        self, line: OutlineConnection, where: str, spec: NodeSpec | None, *, is_input: bool
    ) -> Sequence[Port] | None:
        """The ports that may be meant; None if nothing can be said, or what is wrong was reported."""
        name, port = (line.target, line.target_port) if is_input else (line.source, line.source_port)
        if spec is None:
            node = self.nodes.get(name)
            if node is None or node.reference is None:  # what is no node of the catalogue was reported
                self.found.unjudged(
                    self._label(name), "the ports of metanodes and components are not compared"
                )
            return None
        if not is_engines(spec) and port == 0:
            return [_FLOW_VARIABLES]
        if not (spec.input_ports or spec.output_ports):
            self.found.unjudged(where, f"the ports of '{spec.name}' are not known here")
            return None
        ports = spec.input_ports if is_input else spec.output_ports
        if port is None:
            found = list(ports)
        elif isinstance(port, int):
            found = at_position(ports, port)
        else:
            found = [entry for entry in ports if folded(entry.name) == folded(port)]
        if found:
            return found
        side = "input" if is_input else "output"
        if _is_sketch(spec):
            self.found.unjudged(where, f"not all {side}s of '{spec.name}' are known here")
            return None
        known = ", ".join(f"{number}: {entry.name}" for number, entry in enumerate(ports, 1)) or "none"
        what = f"'{spec.name}' has no {side}" + ("" if port is None else f" {port}")
        self.found.error(where, what, f"Its {side}s are {known}; 0 is for flow variables.")
        return None

    def _unconnected(self) -> None:
        """Inputs that a node needs and that nothing leads to."""
        by_target: dict[str, list[OutlineConnection]] = {}
        for line in self.outline.connections:
            by_target.setdefault(line.target, []).append(line)
        for name, spec in self.specs.items():
            if spec is None or is_engines(spec):
                continue
            lines = by_target.get(name, [])
            needed = [port for port in spec.input_ports if not port.optional]
            given = sum(line.target_port != 0 for line in lines)
            if len(needed) > given:
                what = f"{given} of the {len(needed)} inputs that it needs are connected"
                known = ", ".join(f"'{port.name}'" for port in needed)
                self.found.warning(self._label(name), what, f"It needs {known}.")

    def _cycles(self) -> None:
        """KNIME has no connection back: loops are pairs of nodes."""
        graph: dict[str, set[str]] = {}
        for line in self.outline.connections:
            ends = (line.source, line.target)
            if not any(name == _OWN_PORTS or self._takes_many(name) for name in ends):
                graph.setdefault(line.target, set()).add(line.source)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            names = " -> ".join(reversed(error.args[1]))
            what = f"its nodes wait for each other: {names}"
            self.found.error(f"{self.prefix}workflow", what, "Repeat with loop start and loop end nodes.")


def _is_sketch(spec: NodeSpec) -> bool:
    """Whether a node is described in our own words alone: it may have more ports, such as optional ones."""
    return spec.origin.kind is SourceKind.SPEC_PACK and not spec.settings_known and not is_engines(spec)


def at_position(ports: Sequence[Port], number: int) -> list[Port]:
    """The ports that may stand at a position, from 1. Groups may have any number of ports."""
    found: list[Port] = []
    earliest, is_open = 1, False
    for port in ports:
        is_group = port.group
        is_open = is_open or is_group
        if number == earliest or (number > earliest and is_open):
            found.append(port)
        # A group may be empty, and then the port behind it stands in its place.
        earliest += not is_group
    # Where there are groups, the other ports may be taken away, too.
    return [*found, *(port for port in ports if port.group and port not in found and found)]


def may_connect(output: Port, into: Port) -> bool | None:
    """Whether a connection is right; None where the types of both ports do not say."""
    if output.type_id and into.type_id:
        return is_connectable_port(output, into)
    if not is_typed(output) or not is_typed(into):
        return None
    kinds = {folded(output.type), folded(into.type)}
    if len(kinds) == 1 or kinds <= _ENGINES:
        return True
    # By their names types are told apart only from tables: a port may be a kind of another one.
    return False if "table" in kinds and not (takes_anything(output) or takes_anything(into)) else None
