"""The common parts of KNIME's cell types for tools: file store keys, and a struct with lists of ports.

Cells are written and read a column at a time. A port is a plain tuple of its texts here: each cell of an MCP
tool has one, and a `ToolPort`, which cleans its texts, would take a third more time.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from .arrow import to_list
from .tool import ToolPort

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PORTS: Final = pa.list_(pa.struct([pa.field(str(i), pa.string()) for i in range(4)]))
"""Name, description, type and spec of each port."""

PortTexts = tuple[str | None, ...]
_PARTS: Final = attrgetter(*ToolPort.__slots__)


def texts_of(ports: Sequence[ToolPort]) -> tuple[PortTexts, ...]:
    """The texts of ports, a tuple for each."""
    return tuple(map(_PARTS, ports))


@lru_cache(maxsize=1024)
def ports_of(texts: tuple[PortTexts, ...]) -> tuple[ToolPort, ...]:
    """Makes ports from their texts, once for all cells with the same texts.

    Args:
        texts: The texts as `texts_of` returns them; a missing text becomes "", a missing spec stays None.
    """
    return tuple(
        ToolPort(name or "", description or "", kind or "", spec) for name, description, kind, spec in texts
    )


def cell_storage(*kinds: pa.DataType) -> pa.StructType:
    """The Arrow type of a kind of cell: file store keys, and a struct of the given types."""
    inner = pa.struct([pa.field(str(i), kind) for i, kind in enumerate(kinds)])
    return pa.struct([pa.field("0", pa.string()), pa.field("1", inner)])


def encode_cells(rows: Sequence[Sequence[Any] | None], storage: pa.StructType) -> pa.StructArray:
    """Writes cells as an array of a type that `cell_storage` made.

    Args:
        rows: For each cell its file store keys and the values of its struct; None for a missing cell.
        storage: The type.
    """
    inner = storage.field(1).type
    missing = pa.array([row is None for row in rows], pa.bool_())
    empty_row = (None,) * (1 + inner.num_fields)
    keys, *columns = zip(*(row or empty_row for row in rows), strict=True) if rows else ((),) * len(empty_row)
    data = [
        _encode_ports(column) if entry.type == PORTS else pa.array(column, entry.type)
        for column, entry in zip(columns, inner, strict=True)
    ]
    parts = [pa.array(keys, pa.string()), pa.StructArray.from_arrays(data, fields=[*inner], mask=missing)]
    return pa.StructArray.from_arrays(parts, fields=[*storage], mask=missing)


def decode_cells(cells: Any) -> list[list[Any]]:
    """Reads cells, field by field.

    Args:
        cells: An array of a type that `cell_storage` made, possibly a slice.

    Returns:
        The values of all cells for the file store keys, then for each field of the struct; a list of ports is
        a tuple of `PortTexts`, empty for a missing list.
    """
    keys, inner = cells.flatten()
    return [
        _decode_ports(column) if column.type == PORTS else to_list(column)
        for column in (keys, *inner.flatten())
    ]


def _encode_ports(cells: Iterable[Sequence[PortTexts] | None]) -> pa.Array:
    offsets: list[int | None] = []
    flat: list[PortTexts] = []
    for ports in cells:
        offsets.append(None if ports is None else len(flat))  # None makes a missing list
        flat += ports or ()
    columns = zip(*flat, strict=True) if flat else ((),) * PORTS.value_type.num_fields
    texts = [pa.array(column, pa.string()) for column in columns]
    structs = pa.StructArray.from_arrays(texts, fields=[*PORTS.value_type])
    return pa.ListArray.from_arrays(pa.array([*offsets, len(flat)], pa.int32()), structs)


def _decode_ports(lists: Any) -> list[tuple[PortTexts, ...]]:
    ports = [*zip(*(to_list(column) for column in lists.flatten().flatten()), strict=True)]
    cells: list[tuple[PortTexts, ...]] = []
    start = 0
    for count in to_list(lists.value_lengths().fill_null(0)):
        cells.append(tuple(ports[start : start + count]))
        start += count
    return cells
