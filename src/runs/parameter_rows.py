"""The rows of a table of parameters, read a piece at a time: cells of any of KNIME's types, or of a file."""

from __future__ import annotations

from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, Self

from ..audit.arrow_cells import Unreadable, in_microseconds, python_value
from ..types.columns import ROW_ID
from ..types.errors import ArgumentsInvalid
from .cell_contents import how_to_convert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ..audit.table_formats import FileTable

LARGE: Final = 1 << 26
"""Bytes at which a piece is written out, even with few rows."""
_USUAL: Final = 512
_SHARED: Final = "knime.struct_dict_encoded"


@dataclass(frozen=True, kw_only=True)
class ParameterRows:
    """The rows of a table of parameters, as their source has them."""

    table: pa.Table  # the rows, with their RowIDs as first column. Columns of mixed types are text.
    # the rows as objects, where columns may have several types; otherwise the table is read
    objects: Sequence[Mapping[str, Any]] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns in order, without the RowIDs."""
        return self.table.column_names[1:]

    @classmethod
    def of_file(cls, read: FileTable) -> Self:
        """The rows of a file, with their numbers as RowIDs."""
        import pyarrow as pa

        numbers = pa.array(map(str, read.numbers), pa.string())
        table = pa.Table.from_arrays([numbers, *read.table.columns], names=[ROW_ID, *read.columns])
        return cls(table=table, objects=read.objects)

    def rows(self, start: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields RowID and cells by column name, None for a missing cell.

        A cell is read at its first use, and raises `ArgumentsInvalid` if it cannot be read.
        """
        size = rows_per_piece(self.table)
        # From the piece that holds the first row, as cells may refer to others of their piece.
        for first in range(start - start % size, self.table.num_rows, size):
            piece = _Piece(self.table.slice(first, size))
            for index in range(max(0, start - first), len(piece.row_ids)):
                objects = self.objects
                row = _Row(piece, index) if objects is None else _Cells(objects[first + index])
                yield piece.row_ids[index], row


class _Piece:
    """Some rows of a table; a column is decoded when its first cell is read."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns: dict[str, list[Any]] = {}
        self.row_ids: list[str] = table.column(0).to_pylist()

    def column(self, name: str) -> list[Any]:
        """The cells of a column as Python values; `Unreadable` for cells that Python cannot read."""
        if name not in self._columns:
            self._columns[name] = values_of(self._table.column(self._table.column_names.index(name, 1)))
        return self._columns[name]


class _Row(dict[str, Any]):
    """A row of parameters; a cell is read at its first use."""

    def __init__(self, piece: _Piece, index: int) -> None:
        super().__init__()
        self._piece, self._index = piece, index

    def __missing__(self, name: str) -> Any:
        return _readable(self._piece.column(name)[self._index], name)


class _Cells(dict[str, Any]):
    """A row of a file whose cells have several types."""

    def __getitem__(self, name: str) -> Any:
        return _readable(super().__getitem__(name), name)


def _readable(value: Any, column: str) -> Any:
    if isinstance(value, Unreadable):
        raise ArgumentsInvalid(
            f"The cell of column '{column}' cannot be read: {value.why}",
            fix=value.fix or f"{how_to_convert(value.kind)}, or remove the column",
        )
    return value


def rows_per_piece(table: pa.Table | None) -> int:
    """The number of rows, at least 1, in all pieces of a parameter table except the last.

    KNIME stores cells of many types, such as XML and molecules, once per batch: equal cells after the first
    hold only a key to it. A piece that begins within a batch would lose them, so such a table is cut into its
    batches.
    """
    if table is None or not table.num_rows:
        return _USUAL
    if cells_are_shared(table):
        # KNIME's struct dictionaries refer to rows of the same batch: such a batch must not be cut.
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


def values_of(column: Any) -> list[Any]:
    """The values of an Arrow column, `Unreadable` for a cell that Python cannot read; see `python_values`."""
    import pyarrow as pa

    if not _has_values(column.type):
        kind = str(getattr(column.type, "logical_type", ""))
        unknown = Unreadable("KNIME does not tell Python how to read its type", kind)
        # Nobody knows what the stored parts mean, and they may be keys of file stores.
        return [unknown if present else None for present in column.is_valid().to_pylist()]
    if pa.types.is_nested(column.type) or getattr(column.type, "unit", "") == "ns":
        return [_value(cell, python_value) for cell in in_microseconds(column)]
    try:
        return column.to_pylist()
    except Exception:  # a value factory of any extension may fail in any way
        # One cell after the other, so that only the broken ones are lost.
        return [_value(cell, methodcaller("as_py")) for cell in column]


def _value(cell: Any, read: Callable[[Any], Any]) -> Any:
    try:
        return read(cell)
    except Exception as error:
        return Unreadable(type(error).__name__)


def _has_values(kind: Any) -> bool:
    """Returns whether KNIME has a value factory for such cells; without one it gives their stored parts."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        if pa.types.is_struct(kind.storage_type):
            from knime.api.types import FallbackPythonValueFactory, get_converter

            converter = get_converter(getattr(kind, "logical_type", ""))
            return not isinstance(converter, FallbackPythonValueFactory)
        return _has_values(kind.storage_type)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return not is_list or _has_values(kind.value_type)
