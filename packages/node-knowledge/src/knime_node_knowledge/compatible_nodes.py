"""Finds the nodes that can follow or precede a port, by the classes of what goes through both.

Where a source has only a name for a type (descriptions do), a port accepts this type only, and a generic port
every type but tables. Nodes without ports, from packs of workflow engines, are
connected by their output: any node of the pack can follow, except triggers, and tools and memories, which are
attached. An index of all ports is kept in memory, as each call needs the ports of all nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from knime_mcp.types.errors import ArgumentsInvalid

from .catalogue_reader import per_version
from .node_index import index_of
from .node_model import Port
from .port_types import ANYTHING, is_connectable_port
from .query_words import folded
from .tool_arguments import count_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .catalogue_reader import CatalogueReader
    from .node_model import NodeSpec, NodeSummary


_BEGINS: Final = frozenset({"TRIGGER"})
_ATTACHED: Final = frozenset({"TOOL", "MEMORY"})
_SHOWN: Final = 80

_ANYTHING: Final = frozenset({"", "any", "generic port", "port object", "portobject"})
_TABLE: Final = "table"
_COMMONEST: Final = 1_000_000_000
_MOST_KEPT: Final = 64
Kind = tuple[str, str | None]
Reachable = tuple[bool, int, int, int]
"""A node that can be connected, as it is sorted: whether it is deprecated, the number of nodes with such a
port (a rare one says more about what the node is for), its place by name, its row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatible:
    node: NodeSummary
    via: tuple[tuple[str, str, str], ...]  # output, input, type
    is_certain: bool  # both types of at least one pair are known, or the nodes have no ports


def find_compatible(
    reader: CatalogueReader,
    spec: NodeSpec,
    *,
    after: bool,
    port: str | int | None,
    offset: int,
    limit: int,
    among: dict[int, int] | None,
) -> tuple[list[Compatible], int]:
    """Finds the nodes that can be connected after `spec`, or before it, and how many there are in all.

    `port` is the name or the number (from 0) of one port; None stands for all. `among` has the rows that may
    be returned, with their place in the answer; without it those come first that stand there in public
    workflows, then nodes with a rarer port type, nodes of the same category, and the others by name.
    Deprecated nodes come last.
    """
    summaries = index_of(reader).summaries
    ports = _chosen(spec.output_ports if after else spec.input_ports, port)
    if ports:
        found = ports_of(reader).reachable(ports, "input" if after else "output")
    elif spec.input_ports or spec.output_ports:
        found = ()
    else:
        found = _without_ports(reader, spec, after)
    if among is not None:
        places = sorted((deprecated, among[row], row) for deprecated, _, _, row in found if row in among)
        listed, total = [row for *_, row in places], len(places)
    else:
        listed, total = _first(summaries, found, " / ".join(spec.category), offset + limit), len(found)
        listed = _usual_first(listed, {row for *_, row in found}, summaries, spec, after)
    attached = after and spec.node_type in _ATTACHED
    rows = listed[offset : offset + limit]
    return [_with_ports(reader, summaries[row], ports, after, attached) for row in rows], total


def _first(
    summaries: Mapping[int, NodeSummary], found: Sequence[Reachable], category: str, most: int
) -> list[int]:
    """The rows of the first nodes; among equally good nodes, those of the category come first."""
    listed: list[int] = []
    for _, group in groupby(found, key=lambda entry: entry[:2]):
        # The sort is stable, so that the others stay in their order.
        listed += sorted((row for *_, row in group), key=lambda row: summaries[row].category != category)
        if len(listed) >= most:
            break
    return listed


def _usual_first(
    listed: list[int], fitting: set[int], summaries: Mapping[int, NodeSummary], spec: NodeSpec, after: bool
) -> list[int]:
    """The nodes that most often stand there in public workflows, and then the others."""
    usual = spec.followed_by if after else spec.preceded_by
    if not usual:
        return listed
    rows = {summaries[row].id: row for row in fitting if not summaries[row].deprecated}
    first = [rows[name] for name in usual if name in rows]
    return [*first, *(row for row in listed if row not in first)]


def _chosen(ports: tuple[Port, ...], wanted: str | int | None) -> tuple[Port, ...]:
    if wanted is None:
        return ports
    number = wanted if isinstance(wanted, int) else count_in(wanted)
    if number is not None:
        # A negative number would count from the end.
        found = ports[number : number + 1] if number >= 0 else ()
    else:
        found = tuple(entry for entry in ports if folded(entry.name) == folded(str(wanted)))[:1]
    if found:
        return found
    known = ", ".join(f"{number}: {entry.name}" for number, entry in enumerate(ports)) or "none"
    what = f"There is no port '{str(wanted)[:_SHOWN]}' on that side. Ports: {known}."
    raise ArgumentsInvalid(what, pointer="/port", tool="find_compatible")


def _without_ports(reader: CatalogueReader, spec: NodeSpec, after: bool) -> tuple[Reachable, ...]:
    """Nodes without ports of the same pack that can be connected by their output, or that are attached."""
    index = ports_of(reader)
    found: dict[int, int] = {}
    if not spec.settings_known:
        return ()  # it is described in our own words alone: it has ports, which are not known
    for row, other in index.portless(reader):
        if other.origin.name != spec.origin.name or other.id == spec.id:
            continue
        source, target = (spec, other) if after else (other, spec)
        attaches = source.node_type in _ATTACHED and not {source.id, source.node_type}.isdisjoint(
            target.attached_nodes or ()
        )
        follows = _ATTACHED.isdisjoint((source.node_type, target.node_type))
        if attaches or (follows and target.node_type not in _BEGINS):
            found[row] = 0
    return index.ordered(found)


def _with_ports(
    reader: CatalogueReader, node: NodeSummary, ports: tuple[Port, ...], after: bool, attached: bool
) -> Compatible:
    other = reader.at(node.row)
    theirs = other.input_ports if after else other.output_ports
    via: list[tuple[str, str, str]] = []
    is_certain = False
    for own in ports:
        for entry in theirs:
            if fits(own, entry):
                kind = entry.type if takes_anything(own) else own.type
                pair = (own.name, entry.name) if after else (entry.name, own.name)
                via.append((*pair, kind))
                is_certain = is_certain or (is_typed(own) and is_typed(entry))
    if not via:
        way = "attached" if attached or node.node_type in _ATTACHED else "output"
        via.append((way, way, ""))
        is_certain = True
    return Compatible(node=node, via=tuple(via), is_certain=is_certain)


class PortIndex:
    def __init__(self, reader: CatalogueReader) -> None:
        self._summaries = index_of(reader).summaries
        ordered = sorted(self._summaries.values(), key=lambda entry: (entry.name, entry.id))
        self._places = {entry.row: place for place, entry in enumerate(ordered)}
        self._portless: list[tuple[int, NodeSpec]] | None = None
        self._rows: dict[str, dict[Kind, list[int]]] = {"input": {}, "output": {}}
        self._counts: Counter[tuple[str, str]] = Counter()  # by name: one type may have several ids
        self._kept: dict[tuple[str, frozenset[Kind]], tuple[Reachable, ...]] = {}
        for side, kind, type_id, node in reader.rows("SELECT DISTINCT side, type, type_id, node FROM ports"):
            self._rows[side].setdefault((kind, type_id), []).append(node)
            self._counts[side, folded(kind)] += 1

    def reachable(self, ports: Iterable[Port], side: str) -> tuple[Reachable, ...]:
        """The nodes with a port on `side` that fits one of these: rare types first, deprecated ones last."""
        kinds = frozenset((port.type, port.type_id) for port in ports)
        found = self._kept.get((side, kinds))
        if found is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)), None)
            found = self._kept[side, kinds] = self._found(kinds, side)
        return found

    def _found(self, kinds: frozenset[Kind], side: str) -> tuple[Reachable, ...]:
        own = [_port(kind) for kind in kinds]
        rarity: dict[int, int] = {}
        for kind, rows in self._rows[side].items():
            other = _port(kind)
            if any(fits(port, other) for port in own):
                # A port for anything says nothing of what its node is for.
                count = _COMMONEST if takes_anything(other) else self._counts[side, folded(other.type)]
                for row in rows:
                    rarity[row] = min(rarity.get(row, count), count)
        return self.ordered(rarity)

    def ordered(self, rarity: Mapping[int, int]) -> tuple[Reachable, ...]:
        """Sorts nodes, given as rarity by row: the rarest first, then by name; deprecated nodes last."""
        deprecated = {row: self._summaries[row].deprecated for row in rarity}
        return tuple(sorted((deprecated[row], rare, self._places[row], row) for row, rare in rarity.items()))

    def portless(self, reader: CatalogueReader) -> list[tuple[int, NodeSpec]]:
        """The nodes of spec packs without ports, with their rows; `compatibility` says how they connect."""
        if self._portless is None:
            # Only nodes of spec packs have an id beside their subtype.
            rows = [row for row, entry in self._summaries.items() if entry.id != entry.subtype]
            specs = [(row, reader.at(row)) for row in rows]
            self._portless = [(row, s) for row, s in specs if not s.input_ports and not s.output_ports]
        return self._portless


ports_of = per_version(PortIndex)


def fits(left: Port, right: Port) -> bool:
    """Returns whether an output and an input with these types can be connected."""
    if left.type_id and right.type_id:
        return is_connectable_port(left, right) is True
    kinds = {folded(left.type), folded(right.type)}
    if takes_anything(left) or takes_anything(right):
        # A port for anything takes all but tables, see `port_types`.
        return _TABLE not in kinds or not (is_typed(left) and is_typed(right))
    return len(kinds) == 1


def takes_anything(port: Port) -> bool:
    """Returns whether a port accepts every type, or names no type at all."""
    if port.type_id:
        return port.type_id == ANYTHING
    return folded(port.type) in _ANYTHING


def is_typed(port: Port) -> bool:
    """Returns whether the type of the port is known, even if it is the type for anything."""
    return bool(port.type or port.type_id)


def _port(kind: Kind) -> Port:
    return Port(name="", type=kind[0], type_id=kind[1])
