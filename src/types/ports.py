"""Lists of ports as KNIME's tool cells hold them: a list of structs of four texts per cell.

Both of KNIME's cell layouts have such lists, and both are read and written a column at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from .arrow import to_list
from .tool import ToolPort

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PORTS_STORAGE: Final = pa.list_(pa.struct([pa.field(str(i), pa.string()) for i in range(4)]))
"""Name, description, type and spec of each port."""


PortTexts = tuple[str, str, str, str | None]
"""Name, description, type and spec of one port."""


def port_texts(ports: Sequence[ToolPort]) -> tuple[PortTexts, ...]:
    """Gives what is stored of ports.

    Args:
        ports: The ports of one cell.

    Returns:
        The texts of each port.
    """
    return tuple([(port.name, port.description, port.type, port.spec) for port in ports])


def encode_ports(cells: Iterable[Sequence[PortTexts] | None]) -> pa.Array:
    """Writes the ports of many cells.

    Args:
        cells: The texts of each cell's ports, None for a missing list.

    Returns:
        An array of type `PORTS_STORAGE`.
    """
    offsets: list[int | None] = []
    flat: list[PortTexts] = []
    for ports in cells:
        offsets.append(None if ports is None else len(flat))  # no offset makes a missing list
        flat += ports or ()
    columns = list(zip(*flat, strict=True)) if flat else [()] * 4
    texts = [pa.array(column, pa.string()) for column in columns]
    structs = pa.StructArray.from_arrays(texts, fields=list(PORTS_STORAGE.value_type))
    return pa.ListArray.from_arrays(pa.array([*offsets, len(flat)], pa.int32()), structs)


def decode_ports(lists: Any) -> list[tuple[ToolPort, ...]]:
    """Reads the ports of many cells.

    Args:
        lists: An array of type `PORTS_STORAGE`, possibly a slice.

    Returns:
        The ports of each cell; none for a missing list.
    """
    texts = [to_list(column) for column in lists.flatten().flatten()]
    known: dict[tuple[str | None, ...], ToolPort] = {}  # tools often have the same ports
    ports = [known.get(row) or known.setdefault(row, _port(*row)) for row in zip(*texts, strict=True)]
    counts = to_list(lists.value_lengths().fill_null(0))
    cells: list[tuple[ToolPort, ...]] = []
    start = 0
    for count in counts:
        cells.append(tuple(ports[start : start + count]))
        start += count
    return cells


def _port(name: str | None, description: str | None, kind: str | None, spec: str | None) -> ToolPort:
    return ToolPort(name or "", description or "", kind or "", spec)
