"""Tables: what a node gets and gives, as Arrow data whose first column holds the RowIDs."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast

from ._columnar import _Columnar, _ColumnarView  # pyright: ignore[reportPrivateUsage]
from .schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


class Backend(Protocol):
    """What the host gives while a node runs."""

    file_store_handler: Any


_backend: Backend | None = None


def running_backend() -> Backend:
    """The host's services for tables and file stores.

    Raises:
        AttributeError: no node is executing (as in KNIME, where the backend is None then).
    """
    if _backend is None:
        raise AttributeError("tables and file stores can only be made or read while a node executes")
    return _backend


class _Tabular(_Columnar):
    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of columns and rows."""
        return self.num_columns, self.num_rows

    @property
    def schema(self) -> Schema:
        """The columns."""
        raise NotImplementedError

    def __getitem__(self, slicing: Any) -> Any:
        """A view: ``table[columns]`` or ``table[columns, rows]``, rows as a slice."""
        if not isinstance(slicing, tuple):
            return super().__getitem__(slicing)
        columns, rows = slicing  # pyright: ignore[reportUnknownVariableType]
        by_column: _TabularView = self._view(lambda real: real._select_columns(columns))
        return by_column._view(lambda real: real._select_rows(rows))

    def _view(self, operation: Callable[[Any], Any]) -> Any:
        return _TabularView(self, operation)


class _TabularView(_Tabular, _ColumnarView):
    def to_pyarrow(self, sentinel: str | int | None = None) -> "pa.Table":
        return self.get().to_pyarrow(sentinel)

    def to_pandas(self, sentinel: str | int | None = None) -> Any:
        return self.get().to_pandas(sentinel)

    @property
    def num_rows(self) -> int:
        return self.get().num_rows

    @property
    def num_columns(self) -> int:
        return self.get().num_columns

    @property
    def column_names(self) -> list[str]:
        return self.get().column_names

    @property
    def schema(self) -> Schema:
        return self.get().schema


class Table(_Tabular):
    """A table. Make one with `from_pyarrow`."""

    _data: Any

    def __init__(self) -> None:
        raise TypeError("make tables with Table.from_pyarrow")

    @staticmethod
    def from_pyarrow(data: "pa.Table", sentinel: str | int | None = None, row_ids: str = "auto") -> "Table":
        """A table of Arrow data; all batches but the last must have the same size.

        Args:
            data: the columns; with ``keep`` (or ``auto``) the first one may be the RowIDs.
            sentinel: not part of the stand-in.
            row_ids: ``keep`` the first column, ``generate`` Row0, Row1, …; ``auto`` keeps a first column
                named ``<RowID>`` (whole numbers become Row<n>) and generates otherwise.

        Raises:
            ValueError: a column's Arrow type is unknown to KNIME, or batches differ in size.
            TypeError: the RowIDs to keep are no texts.
            IndexError: there are no columns at all (with ``auto``).
            AttributeError: no node is executing.
        """
        running_backend()
        _refuse_sentinel(sentinel)
        return _table_of(data, row_ids, 0)

    @staticmethod
    def from_pandas(data: Any, sentinel: str | int | None = None, row_ids: str = "auto") -> "Table":
        """Not part of the stand-in, which knows no pandas."""
        raise NotImplementedError("the stand-in has no Table.from_pandas; use Table.from_pyarrow")

    def to_pyarrow(self, sentinel: str | int | None = None) -> "pa.Table":
        """The data with the RowIDs as first column ``<RowID>``; logical values stay in extension arrays."""
        from knime._arrow import ROW_ID, unwrap_table

        _refuse_sentinel(sentinel)
        if ROW_ID in self.column_names:
            raise RuntimeError(f"the column name {ROW_ID} is KNIME's own; rename the column")
        return unwrap_table(self._data)

    def to_pandas(self, sentinel: str | int | None = None) -> Any:
        """Not part of the stand-in, which knows no pandas."""
        raise NotImplementedError("the stand-in has no Table.to_pandas; use Table.to_pyarrow")

    def batches(self) -> Iterator["Table"]:
        """The table in batches; only for tables as a node gets them."""
        raise RuntimeError("only the unmodified tables that execute() gets come in batches")

    def to_batches(self) -> Iterator["Table"]:
        """The same as `batches`."""
        return self.batches()

    @property
    def num_rows(self) -> int:
        """See `_Tabular`."""
        return len(self._data)

    @property
    def column_names(self) -> list[str]:
        """See `_Columnar`."""
        return list(self._data.schema.names[1:])

    @property
    def schema(self) -> Schema:
        """See `_Tabular`."""
        from knime._arrow import schema_of

        return schema_of(self._data)

    def _select_columns(self, selection: Any) -> "Table":
        names = self.column_names
        wanted: list[Any]
        if isinstance(selection, slice):
            wanted = list(range(len(names)))[selection]
        elif isinstance(selection, list):
            wanted = cast("list[Any]", selection)
        elif isinstance(selection, (int, str)):
            wanted = [selection]
        else:
            raise IndexError(f"columns cannot be selected by {type(selection).__name__}")
        return made(self._data.select([0, *(self._position(entry, names) + 1 for entry in wanted)]))

    @staticmethod
    def _position(entry: Any, names: list[str]) -> int:
        if isinstance(entry, str):
            if entry not in names:
                raise IndexError(f"there is no column {entry!r}; columns: {names}")
            return names.index(entry)
        if not isinstance(entry, int) or not 0 <= entry < len(names):
            raise IndexError(f"{entry!r} is not the position of one of {len(names)} columns")
        return entry

    def _select_rows(self, selection: Any) -> "Table":
        if not isinstance(selection, slice):
            raise IndexError("rows can only be selected by a slice")
        start, stop, step = selection.indices(len(self._data))
        if step == 1:
            return made(self._data.slice(start, max(0, stop - start)))
        return made(self._data.take(list(range(start, stop, step))))

    def _append(self, other: Any) -> "Table":
        raise NotImplementedError("appending to a table is not implemented, in KNIME neither")


class SourceTable(Table):
    """A table as a node's execute() gets it."""

    _known_schema: Schema

    @property
    def schema(self) -> Schema:
        """The columns, with what KNIME knows about their types as metadata."""
        return self._known_schema

    @property
    def num_batches(self) -> int:
        """How many batches `batches` gives."""
        return len(self._parts())

    def batches(self) -> Iterator[Table]:
        """The table in the batches in which it is stored; without rows it has one."""
        for part in self._parts():
            yield made(part)

    def _parts(self) -> list[Any]:
        import pyarrow as pa

        return [pa.Table.from_batches([part]) for part in self._data.to_batches()] or [self._data]


def made(data: Any, schema: Schema | None = None) -> Table:
    """A table of data that has KNIME's types already; with a schema, one that execute() gets."""
    table = object.__new__(Table if schema is None else SourceTable)
    table._data = data  # pyright: ignore[reportPrivateUsage]
    if isinstance(table, SourceTable) and schema is not None:
        table._known_schema = schema  # pyright: ignore[reportPrivateUsage]
    return table


def _refuse_sentinel(sentinel: object) -> None:
    if sentinel is not None:
        raise NotImplementedError("sentinel values for missing cells are not part of the stand-in")


def _table_of(data: Any, row_ids: str, first_row: int) -> Table:
    import pyarrow as pa
    from knime._arrow import ROW_ID, wrap_table

    if isinstance(data, pa.Table):
        check_batches([len(batch) for batch in data.to_batches()])
    if row_ids not in ("auto", "keep", "generate"):
        raise ValueError(f"row_ids must be auto, keep or generate, not {row_ids!r}")
    if row_ids == "auto":
        first = data.schema[0]
        is_own = first.name == ROW_ID and (pa.types.is_string(first.type) or pa.types.is_integer(first.type))
        if is_own and pa.types.is_integer(first.type):
            numbers = data.column(0).to_pylist()
            rest = list(range(1, len(data.schema)))
            return made(wrap_table(_with_ids(data.select(rest), numbers)))
        row_ids = "keep" if is_own else "generate"
    if row_ids == "generate":
        data = _with_ids(data, range(first_row, first_row + len(data)))
    return made(wrap_table(data))


def _with_ids(data: Any, numbers: Iterable[Any]) -> Any:
    import pyarrow as pa
    from knime._arrow import ROW_ID

    ids = pa.array([f"Row{number}" for number in numbers], type=pa.string())
    return pa.table([ids, *data.columns], names=[ROW_ID, *data.schema.names])


def check_batches(sizes: list[int]) -> None:
    """Raises ValueError unless all batches but the last, which may be smaller, have the same size."""
    for index, size in enumerate(sizes):
        is_last = index == len(sizes) - 1
        if size > sizes[0] or (size < sizes[0] and not is_last):
            raise ValueError(
                f"batch {index} has {size} rows, the first one {sizes[0]}: "
                "all batches must have the same size, only the last one may be smaller"
            )


class BatchOutputTable:
    """An output table that is made batch by batch."""

    _batches: list[Any]
    _row_ids: str

    def __init__(self) -> None:
        raise RuntimeError("make one with BatchOutputTable.create or BatchOutputTable.from_batches")

    @staticmethod
    def create(row_ids: str = "keep") -> "BatchOutputTable":
        """An empty output table.

        Args:
            row_ids: ``keep`` the first column of each batch as RowIDs, or ``generate`` them.
        """
        running_backend()
        if row_ids not in ("keep", "generate"):
            raise ValueError(f"row_ids must be keep or generate, not {row_ids!r}")
        table = object.__new__(BatchOutputTable)
        table._batches = []
        table._row_ids = row_ids
        return table

    @staticmethod
    def from_batches(generator: Iterable[Any], row_ids: str = "generate") -> "BatchOutputTable":
        """An output table of all batches that a generator gives."""
        table = BatchOutputTable.create(row_ids)
        for batch in generator:
            table.append(batch)
        return table

    @property
    def num_batches(self) -> int:
        """How many batches were appended."""
        return len(self._batches)

    def append(self, batch: "Table | pa.Table | pa.RecordBatch") -> None:
        """Adds a batch: a table or Arrow data.

        Raises:
            ValueError: the batch is larger than the first one, or follows a smaller one.
            TypeError: it is no table.
        """
        import pyarrow as pa

        data: Any = batch
        done = sum(len(known) for known in self._batches)
        if isinstance(data, Table):
            data = data._data  # pyright: ignore[reportPrivateUsage]
            if self._row_ids == "generate":
                data = _table_of(data.select(list(range(1, len(data.schema)))), "generate", done)._data  # pyright: ignore[reportPrivateUsage]
        elif isinstance(data, (pa.Table, pa.RecordBatch)):
            data = _table_of(data, self._row_ids, done)._data  # pyright: ignore[reportPrivateUsage]
        else:
            raise TypeError(f"a batch must be a table, not {type(data).__name__}")
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if self._batches and data.schema != self._batches[0].schema:
            raise pa.ArrowInvalid("a batch has other columns than the first one")
        sizes = [[len(part) for part in known.to_batches()] or [0] for known in [*self._batches, data]]
        check_batches(list(itertools.chain.from_iterable(sizes)))
        self._batches.append(data)

    def _all(self) -> Any:
        """The data of all batches; None when there are none."""
        import pyarrow as pa

        return pa.concat_tables(self._batches) if self._batches else None
