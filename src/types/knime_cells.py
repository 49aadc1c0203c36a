"""What KNIME's cell types for tools have in common: file store keys, and a struct with lists of ports.

Written and read a column at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from .arrow import to_list
from .tool import ToolPort

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PORTS: Final = pa.list_(pa.struct([pa.field(str(i), pa.string()) for i in range(4)]))
"""Name, description, type and spec of each port."""


def cell_storage(*kinds: pa.DataType) -> pa.StructType:
    """Makes the Arrow type of a kind of cell.

    Args:
        kinds: The types of what it holds beside its file store keys.

    Returns:
        File store keys, and a struct of the rest.
    """
    inner = pa.struct([pa.field(str(i), kind) for i, kind in enumerate(kinds)])
    return pa.struct([pa.field("0", pa.string()), pa.field("1", inner)])


def encode_cells(rows: Sequence[Sequence[Any] | None], storage: pa.StructType) -> pa.StructArray:
    """Writes cells.

    Args:
        rows: For each cell its file store keys and what else it holds; None for a missing cell.
        storage: What `cell_storage` made.

    Returns:
        An array of that type.
    """
    inner = storage.field(1).type
    missing = pa.array([row is None for row in rows], pa.bool_())
    nothing = (None,) * (1 + inner.num_fields)
    keys, *columns = zip(*(row or nothing for row in rows), strict=True) if rows else ((),) * len(nothing)
    data = [
        _encode_ports(column) if entry.type == PORTS else pa.array(column, entry.type)
        for column, entry in zip(columns, inner, strict=True)
    ]
    parts = [pa.array(keys, pa.string()), pa.StructArray.from_arrays(data, fields=[*inner], mask=missing)]
    return pa.StructArray.from_arrays(parts, fields=[*storage], mask=missing)


def decode_cells(cells: Any) -> list[list[Any] | None]:
    """Reads cells.

    Args:
        cells: An array of a type that `cell_storage` made, possibly a slice.

    Returns:
        What `encode_cells` takes, with `ToolPort` tuples for lists of ports, none for a missing list.
    """
    keys, inner = cells.flatten()
    columns = [
        _decode_ports(column) if column.type == PORTS else to_list(column)
        for column in (keys, *inner.flatten())
    ]
    return [
        row if present else None for present, *row in zip(to_list(cells.is_valid()), *columns, strict=True)
    ]


def _encode_ports(cells: Iterable[Sequence[ToolPort] | None]) -> pa.Array:
    offsets: list[int | None] = []
    flat: list[ToolPort] = []
    for ports in cells:
        offsets.append(None if ports is None else len(flat))  # no offset makes a missing list
        flat += ports or ()
    texts = [pa.array([getattr(port, part) for port in flat], pa.string()) for part in ToolPort.__slots__]
    structs = pa.StructArray.from_arrays(texts, fields=[*PORTS.value_type])
    return pa.ListArray.from_arrays(pa.array([*offsets, len(flat)], pa.int32()), structs)


def _decode_ports(lists: Any) -> list[tuple[ToolPort, ...]]:
    texts = [to_list(column) for column in lists.flatten().flatten()]
    known: dict[tuple[str | None, ...], ToolPort] = {}  # tools often have the same ports
    ports = [known.get(row) or known.setdefault(row, _port(*row)) for row in zip(*texts, strict=True)]
    cells: list[tuple[ToolPort, ...]] = []
    start = 0
    for count in to_list(lists.value_lengths().fill_null(0)):
        cells.append(tuple(ports[start : start + count]))
        start += count
    return cells


def _port(name: str | None, description: str | None, kind: str | None, spec: str | None) -> ToolPort:
    return ToolPort(name or "", description or "", kind or "", spec)
