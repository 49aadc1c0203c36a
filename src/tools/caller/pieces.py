"""The number of rows of a parameter table that are read, called and written at a time.

KNIME stores cells of many types, such as XML and molecules, once per batch: equal cells after the first hold
only a key to it. A piece that begins within a batch would lose them, so such a table is cut into its batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

LARGE: Final = 1 << 26
"""Bytes at which a piece is written out, even with few rows."""
_USUAL: Final = 512
_SHARED: Final = "knime.struct_dict_encoded"


def rows_per_piece(table: pa.Table | None) -> int:
    """The number of rows, at least 1, in all pieces of a parameter table except the last."""
    if table is None or not table.num_rows:
        return _USUAL
    if cells_are_shared(table):
        return max(len(chunk) for chunk in table.column(0).chunks)
    return max(1, min(_USUAL, LARGE * table.num_rows // max(1, table.nbytes)))


def cells_are_shared(table: pa.Table) -> bool:
    """Returns whether a column has cells that depend on other cells of their batch."""
    return any(_shares_cells(kind) for kind in table.schema.types)


def _shares_cells(kind: Any) -> bool:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return kind.extension_name.startswith(_SHARED) or _shares_cells(kind.storage_type)
    if pa.types.is_struct(kind):
        return any(_shares_cells(field.type) for field in kind)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return is_list and _shares_cells(kind.value_type)
