"""Tables, which are inputs and outputs of nodes: Arrow data with the RowIDs as first column."""

import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from .schema import (
    Operation,
    Schema,
    Selection,
    _Columnar,  # pyright: ignore[reportPrivateUsage]
    _ColumnarView,  # pyright: ignore[reportPrivateUsage]
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Backend:
    """The host's services while a node runs: makes tables, and files for cells."""

    file_store_handler: Any

    def table_of_arrow(self, data: Any, sentinel: Any, row_ids: str) -> "Table":
        from knime._arrow import of_arrow

        return made(of_arrow(data, row_ids, sentinel=sentinel))

    def table_of_frame(self, data: Any, sentinel: Any, row_ids: str) -> "Table":
        from knime._arrow import of_frame

        return made(of_frame(data, row_ids, sentinel=sentinel))

    def batch_output_table(self, row_ids: str) -> "BatchOutputTable":
        return BatchOutputTable._made(row_ids)  # pyright: ignore[reportPrivateUsage]


_backend: Backend | None = None


def running_backend() -> Backend:
    """The host's services for tables and file stores.

    Raises:
        AttributeError: no node is executing (as in KNIME, where the backend is None then).
    """
    if _backend is None:
        raise AttributeError("tables and file stores can only be made or read while a node executes")
    return _backend


@dataclass(frozen=True)
class RowSelection:
    rows: Any

    def apply(self, source: Any) -> Any:
        return source._select_rows(self.rows)

    def __str__(self) -> str:
        return f"RowSlicingOp({self.rows})"


class _Tabular(_Columnar):
    @property
    @abstractmethod
    def num_rows(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int]:
        return self.num_columns, self.num_rows

    @property
    @abstractmethod
    def schema(self) -> Schema: ...

    def __getitem__(self, slicing: Any) -> Any:
        """A view: ``table[columns]``, or ``table[columns, rows]`` with rows as a slice."""
        if not isinstance(slicing, tuple):
            return super().__getitem__(slicing)
        given = cast("tuple[Any, ...]", slicing)
        by_column: _TabularView = self._view(Selection(given[0]))
        return by_column._view(RowSelection(given[1]))

    def _view(self, operation: Operation) -> Any:
        return _TabularView(self, operation)


class _TabularView(_Tabular, _ColumnarView):
    @property
    def num_rows(self) -> int:
        return self.get().num_rows

    @property
    def schema(self) -> Schema:
        return self.get().schema

    def __str__(self) -> str:
        return f"TableView<delegate={self.delegate}, op={self.operation}>"


class Table(_Tabular):
    """A table. Tables are made with `from_pyarrow` or `from_pandas`."""

    _data: Any

    def __init__(self) -> None:
        raise TypeError("make tables with Table.from_pyarrow or Table.from_pandas")

    @staticmethod
    def from_pyarrow(data: "pa.Table", sentinel: str | int | None = None, row_ids: str = "auto") -> "Table":
        """A table from Arrow data, whose batches must have the same size, except for the last one.

        Args:
            data: the columns; with ``keep`` (or ``auto``) the first one may be the RowIDs.
            sentinel: the whole number that stands for a missing cell: ``min``, ``max`` or any number.
            row_ids: ``keep`` the first column, ``generate`` Row0, Row1, …; ``auto`` keeps a first column
                named ``<RowID>`` (whole numbers become Row<n>) and generates otherwise.

        Raises:
            ValueError: a column's Arrow type is unknown to KNIME, or batches differ in size.
            TypeError: the RowIDs to keep are not strings.
            IndexError: there are no columns at all (with ``auto``).
            AttributeError: no node is executing, nor was `knime.extension.testing` imported.
        """
        return running_backend().table_of_arrow(data, sentinel, row_ids)

    @staticmethod
    def from_pandas(data: Any, sentinel: str | int | None = None, row_ids: str = "auto") -> "Table":
        """A table from a pandas frame.

        Args:
            data: the frame; a column of Python objects gets the type of its first object.
            sentinel: see `from_pyarrow`.
            row_ids: ``keep`` the index, ``generate`` Row0, Row1, …; ``auto`` keeps the index and writes whole
                numbers as Row<n>.

        Raises:
            ModuleNotFoundError: pandas is not installed.
            ValueError: the data is not a frame, or a column's type is unknown to KNIME.
            AttributeError: no node is executing.
        """
        return running_backend().table_of_frame(data, sentinel, row_ids)

    def to_pyarrow(self, sentinel: str | int | None = None) -> "pa.Table":
        """The data with the RowIDs as first column ``<RowID>``; logical values stay in extension arrays.

        Args:
            sentinel: the value for missing whole numbers; see `from_pyarrow`.
        """
        from knime._arrow import ROW_ID, unwrap_table, with_sentinel

        if ROW_ID in self.column_names:
            raise RuntimeError(f"the column name {ROW_ID} is KNIME's own; rename the column")
        data = unwrap_table(self._data)
        return data if sentinel is None else with_sentinel(data, sentinel)

    def to_pandas(self, sentinel: str | int | None = None) -> Any:
        """The data as a pandas frame with the RowIDs as index ``<RowID>``.

        Args:
            sentinel: the value for missing whole numbers; without it, such columns have floats.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        data = self.to_pyarrow(sentinel)
        from knime._arrow._pandas import frame_of

        return frame_of(data)

    def batches(self) -> Iterator["Table"]:
        """The batches of the table; only for the tables that execute() gets."""
        raise RuntimeError("only the unmodified tables that execute() gets come in batches")

    def to_batches(self) -> Iterator["Table"]:
        """The same as `batches`."""
        return self.batches()

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

    def _select_rows(self, selection: Any) -> "Table":
        if not isinstance(selection, slice):
            raise IndexError("rows can only be selected by a slice")
        start, stop, step = selection.indices(len(self._data))
        if step == 1:
            return made(self._data.slice(start, stop - start))
        return made(self._data.take(list(range(start, stop, step))))

    def __str__(self) -> str:
        return f"ArrowTable[shape=({self.num_columns}, {self.num_rows})]"

    def _append(self, other: Any) -> "Table":
        raise NotImplementedError("appending to a table is not implemented, nor is it in KNIME")


class ArrowTable(Table):
    """A table with data. Extensions print the names of these two classes, so they are KNIME's."""


class ArrowSourceTable(ArrowTable):
    _known_schema: Schema

    @property
    def schema(self) -> Schema:
        """The columns, with KNIME's metadata about their types."""
        return self._known_schema

    @property
    def num_batches(self) -> int:
        return len(self._parts())

    def batches(self) -> Iterator[Table]:
        """The batches in which the table is stored; one empty batch if there are no rows."""
        for part in self._parts():
            yield made(part)

    def _parts(self) -> list[Any]:
        from knime._arrow import batches_of

        return batches_of(self._data)

    def __str__(self) -> str:
        return f"ArrowSourceTable[cols={self.num_columns}, rows={self.num_rows}, batches={self.num_batches}]"


def made(data: Any, schema: Schema | None = None) -> Table:
    """A table from data with KNIME's types; with a schema, a table that execute() gets."""
    table = object.__new__(ArrowTable if schema is None else ArrowSourceTable)
    table._data = data  # pyright: ignore[reportPrivateUsage]
    if isinstance(table, ArrowSourceTable) and schema is not None:
        table._known_schema = schema  # pyright: ignore[reportPrivateUsage]
    return table


def is_frame(value: object) -> bool:
    """Returns whether a value is a pandas frame, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


class BatchOutputTable:
    _batches: list[Any]
    _row_ids: str
    _sizes: list[int]
    _rows: int

    def __init__(self) -> None:
        raise RuntimeError("make one with BatchOutputTable.create or BatchOutputTable.from_batches")

    @staticmethod
    def create(row_ids: str = "keep") -> "BatchOutputTable":
        """An empty output table.

        Args:
            row_ids: ``keep`` the first column of each batch as RowIDs, or ``generate`` them.
        """
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
        """Adds a batch: a table, Arrow data or a pandas frame.

        Raises:
            ValueError: the batch is larger than the first one, or follows a smaller one.
            TypeError: the batch is not a table.
        """
        import pyarrow as pa
        from knime._arrow import check_batches, of_arrow, of_frame

        data: Any = batch
        if isinstance(data, ArrowSourceTable):
            raise AttributeError(
                "a whole input table is not a batch, nor is it in KNIME; append its batches()"
            )
        if isinstance(data, Table):
            data = data._data  # pyright: ignore[reportPrivateUsage]
            if self._row_ids == "generate":
                data = of_arrow(
                    data.select(list(range(1, len(data.schema)))), "generate", first_row=self._rows
                )
        elif isinstance(data, (pa.Table, pa.RecordBatch)):
            data = of_arrow(data, self._row_ids, first_row=self._rows)
        elif is_frame(data):
            data = of_frame(data, self._row_ids, first_row=self._rows)
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
