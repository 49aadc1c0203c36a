"""Which nodes have which kinds of ports: kept, because every question is about all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalogue import per_version
from ..model import Port
from ..schema import folded
from ..searching.search_index import index_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..catalogue import CatalogueReader
    from ..model import NodeSpec

_ANYTHING: Final = frozenset({"", "any", "generic port", "port object", "portobject"})
_ANY_IDS: Final = frozenset({"org.knime.core.node.port.PortObject"})
_COMMONEST: Final = 1_000_000_000
_MOST_KEPT: Final = 64

Kind = tuple[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """A node that can be connected.

    Attributes:
        row: The node.
        rarity: How many nodes have such a port; the fewer, the more it says.
        deprecated: Whether the node is.
    """

    row: int
    rarity: int
    deprecated: bool


class PortIndex:
    """The ports of one version of a catalogue.

    Args:
        reader: The catalogue.
    """

    def __init__(self, reader: CatalogueReader) -> None:
        self._summaries = index_of(reader).summaries
        ordered = sorted(self._summaries.values(), key=lambda entry: (entry.name, entry.id))
        self._places = {entry.row: place for place, entry in enumerate(ordered)}
        self._portless: list[tuple[int, NodeSpec]] | None = None
        self._rows: dict[str, dict[Kind, list[int]]] = {"input": {}, "output": {}}
        self._counts: Counter[tuple[str, str]] = Counter()  # of one type, whatever id sources give it
        self._kept: dict[tuple[str, frozenset[Kind]], tuple[Reachable, ...]] = {}
        for side, kind, type_id, node in reader.rows("SELECT DISTINCT side, type, type_id, node FROM ports"):
            self._rows[side].setdefault((kind, type_id), []).append(node)
            self._counts[side, folded(kind)] += 1

    def reachable(self, ports: Iterable[Port], side: str) -> tuple[Reachable, ...]:
        """The nodes with a port that fits one of these, those with the rarest first, deprecated ones last.

        Args:
            ports: Of the node that is there already.
            side: ``input`` or ``output``: on which side of the others is looked.
        """
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
                count = _COMMONEST if takes_anything(other) else self._counts[side, folded(other.type)]
                for row in rows:
                    rarity[row] = min(rarity.get(row, count), count)
        return self.ordered(rarity)

    def ordered(self, rarity: Mapping[int, int]) -> tuple[Reachable, ...]:
        """Nodes by row, with how rare they are: the rarest first, then by name, deprecated ones last."""
        entries = (
            Reachable(row=row, rarity=count, deprecated=self._summaries[row].deprecated)
            for row, count in rarity.items()
        )
        return tuple(sorted(entries, key=lambda e: (e.deprecated, e.rarity, self._places[e.row])))

    def portless(self, reader: CatalogueReader) -> list[tuple[int, NodeSpec]]:
        """The nodes of spec packs that have no ports, with their rows; they are connected otherwise."""
        if self._portless is None:
            rows = [row for row, entry in self._summaries.items() if entry.id != entry.subtype]
            specs = [(row, reader.at(row)) for row in rows]
            self._portless = [(row, s) for row, s in specs if not s.input_ports and not s.output_ports]
        return self._portless


ports_of = per_version(PortIndex)
"""The ports of what a reader reads."""


def fits(left: Port, right: Port) -> bool:
    """Whether what comes out of one port can go into another."""
    if left.type_id and right.type_id and left.type_id == right.type_id:
        return True
    if takes_anything(left) or takes_anything(right):
        return True
    return bool(left.type) and folded(left.type) == folded(right.type)


def takes_anything(port: Port) -> bool:
    """Whether a port says nothing about what may be connected, or that anything may."""
    if port.type_id:
        return port.type_id in _ANY_IDS
    return folded(port.type) in _ANYTHING


def is_typed(port: Port) -> bool:
    """Whether it is told what may be connected, be it anything."""
    return bool(port.type or port.type_id)


def _port(kind: Kind) -> Port:
    return Port(name="", type=kind[0], type_id=kind[1])
