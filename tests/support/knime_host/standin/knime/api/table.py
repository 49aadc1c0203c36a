"""Tables, which are inputs and outputs of nodes: Arrow data with the RowIDs as first column."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .schema import Schema, _Columnar  # pyright: ignore[reportPrivateUsage]

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Backend:
    """What the API has of KNIME only while a node runs: files for cells. Tables need one, too."""

    file_store_handler: Any


_backend: Backend | None = None


def running_backend() -> Backend:
    """The services for tables and file stores, which KNIME, too, has only during execute()."""
    if _backend is None:
        raise AttributeError("tables and file stores can only be made or read while a node executes")
    return _backend


class Table(_Columnar):
    """A table with all its rows, made with `from_pyarrow`."""

    _data: Any

    def __init__(self) -> None:
        raise TypeError("make tables with Table.from_pyarrow")

    @staticmethod
    def from_pyarrow(data: "pa.Table", *, row_ids: str = "auto") -> "Table":
        """A table from Arrow data, whose batches must have the same size, except for the last one.

        ``row_ids`` is ``keep`` for the first column, or ``generate`` for Row0, Row1, …; ``auto`` keeps a
        first column named ``<RowID>`` (whole numbers become Row<n>) and generates otherwise.
        """
        from knime._arrow import of_arrow

        running_backend()
        return made(of_arrow(data, row_ids))

    def to_pyarrow(self) -> "pa.Table":
        """The data with the RowIDs as first column ``<RowID>``; logical values stay in extension arrays."""
        from knime._arrow import ROW_ID, unwrap_table

        if ROW_ID in self.column_names:
            raise RuntimeError(f"the column name {ROW_ID} is KNIME's own; rename the column")
        return unwrap_table(self._data)

    @property
    def num_rows(self) -> int:
        return len(self._data)

    @property
    def column_names(self) -> list[str]:
        return list(self._data.schema.names[1:])

    @property
    def schema(self) -> Schema:
        from knime._arrow import schema_of

        return schema_of(self._data)

    def _select_columns(self, selection: str | list[str]) -> "Table":
        return made(self._data.select([0, *(position + 1 for position in self._positions(selection))]))


class ArrowSourceTable(Table):
    """A table that execute() gets."""

    _known_schema: Schema

    @property
    def schema(self) -> Schema:
        """The columns, with KNIME's metadata about their types."""
        return self._known_schema


def made(data: Any, schema: Schema | None = None) -> Table:
    """A table from data with KNIME's types; with a schema, a table that execute() gets."""
    # Past the constructor, which is there to refuse: KNIME's tables cannot be made by calling the class.
    table = object.__new__(Table if schema is None else ArrowSourceTable)
    table._data = data  # pyright: ignore[reportPrivateUsage]
    if isinstance(table, ArrowSourceTable) and schema is not None:
        table._known_schema = schema  # pyright: ignore[reportPrivateUsage]
    return table


class BatchOutputTable:
    _batches: "list[pa.Table]"
    _sizes: list[int]  # of the first and the last record batch

    def __init__(self) -> None:
        raise RuntimeError("make one with BatchOutputTable.create")

    @staticmethod
    def create(row_ids: str = "keep") -> "BatchOutputTable":
        """An empty output table, which keeps the first column of each batch as RowIDs."""
        running_backend()
        if row_ids != "keep":
            raise NotImplementedError("a BatchOutputTable that makes RowIDs is not part of the stand-in")
        table = object.__new__(BatchOutputTable)
        table._batches, table._sizes = [], []
        return table

    def append(self, batch: "pa.Table") -> None:
        """Adds a batch, which is not larger than the first one."""
        import pyarrow as pa
        from knime._arrow import check_batches, of_arrow

        if not isinstance(batch, pa.Table):
            raise TypeError(f"a batch must be an Arrow table here, not {type(batch).__name__}")
        data = of_arrow(batch, "keep")
        for size in [len(part) for part in data.to_batches()] or [0]:
            check_batches([*self._sizes, size])
            self._sizes = [*self._sizes[:1], size]
        if self._batches and data.schema != self._batches[0].schema:
            raise pa.ArrowInvalid("a batch has other columns than the first one")
        self._batches.append(data)

    def _all(self) -> Any:
        """The data of all batches; None if there are no batches."""
        import pyarrow as pa

        return pa.concat_tables(self._batches) if self._batches else None
