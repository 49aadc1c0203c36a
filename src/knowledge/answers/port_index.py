"""An index of all ports: which nodes have which types. Cached, as each call needs the ports of all nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalogue.reading import per_version
from ..model import Port
from ..searching.search_index import index_of
from ..words import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..catalogue.reading import CatalogueReader
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
        row: The node's row.
        rarity: The number of nodes with such a port. A rare port says more about what the node is for.
        deprecated: Whether the node is deprecated.
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
        self._counts: Counter[tuple[str, str]] = Counter()  # by name: one type may have several ids
        self._kept: dict[tuple[str, frozenset[Kind]], tuple[Reachable, ...]] = {}
        for side, kind, type_id, node in reader.rows("SELECT DISTINCT side, type, type_id, node FROM ports"):
            self._rows[side].setdefault((kind, type_id), []).append(node)
            self._counts[side, folded(kind)] += 1

    def reachable(self, ports: Iterable[Port], side: str) -> tuple[Reachable, ...]:
        """The nodes with a port that fits one of these ports: the rarest type first, deprecated nodes last.

        Args:
            ports: Ports of the node that is in the workflow already.
            side: ``input`` or ``output``: the side of the other nodes on which a port has to fit.
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
        """Sorts nodes, given as rarity by row: the rarest first, then by name; deprecated nodes last."""
        entries = (
            Reachable(row=row, rarity=count, deprecated=self._summaries[row].deprecated)
            for row, count in rarity.items()
        )
        return tuple(sorted(entries, key=lambda e: (e.deprecated, e.rarity, self._places[e.row])))

    def portless(self, reader: CatalogueReader) -> list[tuple[int, NodeSpec]]:
        """The nodes of spec packs without ports, with their rows; `compatibility` says how they connect."""
        if self._portless is None:
            rows = [row for row, entry in self._summaries.items() if entry.id != entry.subtype]
            specs = [(row, reader.at(row)) for row in rows]
            self._portless = [(row, s) for row, s in specs if not s.input_ports and not s.output_ports]
        return self._portless


ports_of = per_version(PortIndex)
"""Returns the port index of a reader's catalogue version."""


def fits(left: Port, right: Port) -> bool:
    """Returns whether an output and an input with these types can be connected."""
    if left.type_id and right.type_id and left.type_id == right.type_id:
        return True
    if takes_anything(left) or takes_anything(right):
        return True
    return bool(left.type) and folded(left.type) == folded(right.type)


def takes_anything(port: Port) -> bool:
    """Returns whether a port accepts every type, or names no type at all."""
    if port.type_id:
        return port.type_id in _ANY_IDS
    return folded(port.type) in _ANYTHING


def is_typed(port: Port) -> bool:
    """Returns whether the type of the port is known, even if it is the type for anything."""
    return bool(port.type or port.type_id)


def _port(kind: Kind) -> Port:
    return Port(name="", type=kind[0], type_id=kind[1])
