"""Finds the nodes that can follow or precede a port: both ports need the same type of data.

KNIME's descriptions name the type of a port, but not the subtypes of that type. So a port accepts its own
type only, and a generic port accepts every type. Nodes without ports, from packs of workflow engines, are
connected by their output: any node of the pack can follow, except triggers, and tools and memories, which are
attached.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ...types.errors import ArgumentsInvalid
from ..searching.search_index import index_of
from ..words import folded
from .arguments import count_in
from .port_index import fits, is_typed, ports_of, takes_anything

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..catalogue.reading import CatalogueReader
    from ..model import NodeSpec, NodeSummary, Port
    from ..searching.search_index import NodeIndex
    from .port_index import Reachable

_BEGINS: Final = frozenset({"TRIGGER"})
_ATTACHED: Final = frozenset({"TOOL", "MEMORY"})
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatible:
    """A node that can be connected.

    Attributes:
        node: The summary of the node.
        via: The pairs of ports that fit, as (output, input, type).
        is_certain: Whether both types of at least one pair are known, or the nodes have no ports.
    """

    node: NodeSummary
    via: tuple[tuple[str, str, str], ...]
    is_certain: bool


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
    """Finds the nodes that can be connected.

    Args:
        reader: The catalogue.
        spec: The node that is in the workflow already.
        after: True to find nodes that can follow `spec`, False for nodes that can precede it.
        port: The name or the number (from 0) of one port of `spec`; None for all of its ports.
        offset: The number of nodes to skip.
        limit: The largest number of nodes to return.
        among: The rows that may be returned, with their place in the answer; None for all rows.

    Returns:
        The nodes, and the total number of nodes that fit. Nodes with a rarer port type come first, then nodes
        of the same category, then the others by name; deprecated nodes come last.

    Raises:
        ArgumentsInvalid: The node has no such port.
    """
    index = index_of(reader)
    ports = _chosen(spec.output_ports if after else spec.input_ports, port)
    if ports:
        found = ports_of(reader).reachable(ports, "input" if after else "output")
    elif spec.input_ports or spec.output_ports:
        found = ()
    else:
        found = _without_ports(reader, spec, after)
    if among is not None:
        fitting = [entry for entry in found if entry.row in among]
        listed = [e.row for e in sorted(fitting, key=lambda e: (e.deprecated, among[e.row]))]
        total = len(listed)
    else:
        listed = _first(index, found, " / ".join(spec.category), offset + limit)
        total = len(found)
    attached = after and spec.node_type in _ATTACHED
    rows = listed[offset : offset + limit]
    return [_with_ports(reader, index.summaries[row], ports, after, attached) for row in rows], total


def _first(index: NodeIndex, found: Sequence[Reachable], category: str, most: int) -> list[int]:
    """The rows of the first nodes; among equally good nodes, those of the category come first."""
    listed: list[int] = []
    for _, group in groupby(found, key=lambda entry: (entry.deprecated, entry.rarity)):
        rows = [entry.row for entry in group]
        near = [row for row in rows if index.summaries[row].category == category]
        kept = set(near)
        listed += [*near, *(row for row in rows if row not in kept)]
        if len(listed) >= most:
            break
    return listed


def _chosen(ports: tuple[Port, ...], wanted: str | int | None) -> tuple[Port, ...]:
    if wanted is None:
        return ports
    number = wanted if isinstance(wanted, int) else count_in(wanted)
    if number is not None:
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
    for row, other in index.portless(reader):
        if other.origin.name != spec.origin.name or other.id == spec.id:
            continue
        source, target = (spec, other) if after else (other, spec)
        if _attaches(source, target) or _follows(source, target):
            found[row] = 0
    return index.ordered(found)


def _attaches(source: NodeSpec, target: NodeSpec) -> bool:
    return source.node_type in _ATTACHED and bool(
        {source.id, source.node_type} & set(target.attached_nodes or ())
    )


def _follows(source: NodeSpec, target: NodeSpec) -> bool:
    if source.node_type in _ATTACHED or target.node_type in _ATTACHED:
        return False
    return target.node_type not in _BEGINS


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
