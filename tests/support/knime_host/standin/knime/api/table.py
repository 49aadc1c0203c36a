"""Tables, which are inputs and outputs of nodes: Arrow data with the RowIDs as first column."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ._absent import not_here
from .schema import Schema, _Columnar  # pyright: ignore[reportPrivateUsage]

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Backend:
    """The host's services while a node runs: makes tables, and files for cells."""

    file_store_handler: Any

    def table_of_arrow(self, data: Any, row_ids: str) -> "Table":
        from knime._arrow import of_arrow

        return made(of_arrow(data, row_ids))

    def batch_output_table(self, row_ids: str) -> "BatchOutputTable":
        return BatchOutputTable._made(row_ids)  # pyright: ignore[reportPrivateUsage]


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
    def from_pyarrow(data: "pa.Table", sentinel: str | int | None = None, row_ids: str = "auto") -> "Table":
        """A table from Arrow data, whose batches must have the same size, except for the last one.

        ``row_ids`` is ``keep`` for the first column, or ``generate`` for Row0, Row1, …; ``auto`` keeps a
        first column named ``<RowID>`` (whole numbers become Row<n>) and generates otherwise.
        """
        _no_sentinel(sentinel)
        return running_backend().table_of_arrow(data, row_ids)

    from_pandas = staticmethod(not_here("Table.from_pandas"))
    to_pandas = not_here("Table.to_pandas")

    def to_pyarrow(self, sentinel: str | int | None = None) -> "pa.Table":
        """The data with the RowIDs as first column ``<RowID>``; logical values stay in extension arrays."""
        from knime._arrow import ROW_ID, unwrap_table

        _no_sentinel(sentinel)
        if ROW_ID in self.column_names:
            raise RuntimeError(f"the column name {ROW_ID} is KNIME's own; rename the column")
        return unwrap_table(self._data)

    batches = to_batches = not_here("Table.batches")
    num_batches = property(not_here("Table.num_batches"))

    def __getitem__(self, slicing: Any) -> Any:
        if isinstance(slicing, tuple):
            raise NotImplementedError("a selection of rows is not part of the stand-in")
        return super().__getitem__(slicing)

    @property
    def num_rows(self) -> int:
        return len(self._data)

    @property
    def shape(self) -> tuple[int, int]:
        return self.num_columns, self.num_rows

    @property
    def column_names(self) -> list[str]:
        return list(self._data.schema.names[1:])

    @property
    def schema(self) -> Schema:
        from knime._arrow import schema_of

        return schema_of(self._data)

    def _select_columns(self, selection: Any) -> "Table":
        names = self.column_names
        wanted: list[Any]
        if isinstance(selection, slice):
            wanted = list(range(len(names)))[selection]
        elif isinstance(selection, list):
            wanted = cast("list[Any]", selection)
        elif isinstance(selection, int):
            # As in KNIME, negative positions count the RowIDs, too: the last column is -2.
            wanted = [selection if selection >= 0 else selection % (len(names) + 1)]
        elif isinstance(selection, str):
            wanted = [selection]
        else:
            raise IndexError(f"columns cannot be selected by {type(selection).__name__}")
        return made(self._data.select([0, *(self._position(entry) + 1 for entry in wanted)]))

    def __str__(self) -> str:
        return f"ArrowTable[shape=({self.num_columns}, {self.num_rows})]"


def _no_sentinel(sentinel: object) -> None:
    if sentinel is not None:
        raise NotImplementedError("a sentinel for missing cells is not part of the stand-in")


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
    _batches: list[Any]
    _row_ids: str
    _sizes: list[int]
    _rows: int

    def __init__(self) -> None:
        raise RuntimeError("make one with BatchOutputTable.create or BatchOutputTable.from_batches")

    @staticmethod
    def create(row_ids: str = "keep") -> "BatchOutputTable":
        """An empty output table, which keeps the first column of each batch as RowIDs, or generates them."""
        return running_backend().batch_output_table(row_ids)

    @classmethod
    def _made(cls, row_ids: str) -> "BatchOutputTable":
        if row_ids not in ("keep", "generate"):
            raise ValueError(f"row_ids must be keep or generate, not {row_ids!r}")
        table = object.__new__(cls)
        table._batches = []
        table._row_ids = row_ids
        table._sizes = []  # the sizes of the first and the last record batch
        table._rows = 0
        return table

    @staticmethod
    def from_batches(generator: Iterable[Any], row_ids: str = "generate") -> "BatchOutputTable":
        """An output table from the batches of a generator."""
        table = BatchOutputTable.create(row_ids)
        for batch in generator:
            table.append(batch)
        return table

    @property
    def num_batches(self) -> int:
        return len(self._batches)

    def append(self, batch: Any) -> None:
        """Adds a batch: a table or Arrow data, not larger than the first batch."""
        import pyarrow as pa
        from knime._arrow import check_batches, of_arrow

        data: Any = batch
        if isinstance(data, ArrowSourceTable):
            raise AttributeError(
                "a whole input table is not a batch, nor is it in KNIME; append its batches()"
            )
        if isinstance(data, Table):
            data = data._data  # pyright: ignore[reportPrivateUsage]
            # The batch was numbered on its own; the numbers go on through all batches.
            if self._row_ids == "generate":
                data = of_arrow(
                    data.select(list(range(1, len(data.schema)))), "generate", first_row=self._rows
                )
        elif isinstance(data, (pa.Table, pa.RecordBatch)):
            data = of_arrow(data, self._row_ids, first_row=self._rows)
        else:
            raise TypeError(f"a batch must be a table, not {type(data).__name__}")
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        for size in [len(part) for part in data.to_batches()] or [0]:
            check_batches([*self._sizes, size])
            self._sizes = [*self._sizes[:1], size]
        if self._batches and data.schema != self._batches[0].schema:
            raise pa.ArrowInvalid("a batch has other columns than the first one")
        self._rows += len(data)
        self._batches.append(data)

    def _all(self) -> Any:
        """The data of all batches; None if there are no batches."""
        import pyarrow as pa

        return pa.concat_tables(self._batches) if self._batches else None
