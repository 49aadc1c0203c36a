"""Makes the data of tables from Arrow data and pandas frames: RowIDs, KNIME's types, missing numbers."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import ROW_ID, wrap_table

LOGGER = logging.getLogger(__name__)


def of_arrow(data: Any, row_ids: str, *, first_row: int = 0, sentinel: Any = None) -> Any:
    """The data of a table; see `knime.api.table.Table.from_pyarrow`.

    Args:
        data: A table or record batch.
        row_ids: ``auto``, ``keep`` or ``generate``.
        first_row: The number in the first generated RowID.
        sentinel: The value that stands for missing whole numbers.
    """
    if isinstance(data, pa.Table):
        check_batches([len(batch) for batch in data.to_batches()])
    if row_ids not in ("auto", "keep", "generate"):
        raise ValueError(f"row_ids must be auto, keep or generate, not {row_ids!r}")
    if row_ids == "auto":
        first = data.schema[0]
        is_own = first.name == ROW_ID and (pa.types.is_string(first.type) or pa.types.is_integer(first.type))
        if first.name == ROW_ID and not is_own:
            LOGGER.warning("%s holds %s, which cannot be RowIDs: new ones are made", ROW_ID, first.type)
        if is_own and pa.types.is_integer(first.type):
            numbers = data.column(0).to_pylist()
            data = _with_ids(data.select(list(range(1, len(data.schema)))), numbers)
        row_ids = "keep" if is_own else "generate"
    if row_ids == "generate":
        data = _with_ids(data, range(first_row, first_row + data.num_rows))
    return wrap_table(data if sentinel is None else without_sentinel(data, sentinel))


def of_frame(frame: Any, row_ids: str, *, first_row: int = 0, sentinel: Any = None) -> Any:
    """The data of a table from a pandas frame; see `knime.api.table.Table.from_pandas`."""
    from ._pandas import data_of

    data = data_of(frame, row_ids)
    has_ids = row_ids == "keep" or (row_ids == "auto" and len(data.schema) > 0)
    return of_arrow(data, "keep" if has_ids else "generate", first_row=first_row, sentinel=sentinel)


def _with_ids(data: Any, numbers: Iterable[Any]) -> Any:
    ids = pa.array([f"Row{number}" for number in numbers], type=pa.string())
    return pa.table([ids, *data.columns], names=[ROW_ID, *data.schema.names])


def check_batches(sizes: list[int]) -> None:
    """Raises ValueError unless all batches but the last, which may be smaller, have the same size."""
    for index, size in enumerate(sizes):
        if size > sizes[0] or (size < sizes[0] and index < len(sizes) - 1):
            raise ValueError(
                f"a batch has {size} rows, but the first one has {sizes[0]}: "
                "all batches must have the same size, only the last one may be smaller"
            )


def batches_of(data: Any) -> list[Any]:
    """The record batches of a table, without the metadata of fields; one batch if there are no rows."""
    empty = [column.combine_chunks() for column in data.columns] if not len(data) else []
    parts = [part.columns for part in data.to_batches()] if len(data) else [empty]
    return [pa.RecordBatch.from_arrays(columns, data.schema.names) for columns in parts]


def with_sentinel(data: Any, sentinel: Any) -> Any:
    """The data with a sentinel in place of missing whole numbers: ``min``, ``max`` or a number."""

    def filled(column: Any) -> Any:
        return column.fill_null(_number(column.type, sentinel)) if column.null_count else column

    return _integers(data, filled)


def without_sentinel(data: Any, sentinel: Any) -> Any:
    """The data with missing cells in place of the sentinel in columns of whole numbers."""

    def missing(column: Any) -> Any:
        is_sentinel = pc.equal(column, _number(column.type, sentinel))
        return pc.if_else(is_sentinel, pa.scalar(None, column.type), column)

    return _integers(data, missing)


def _integers(data: Any, change: Callable[[Any], Any]) -> Any:
    columns = [change(c) if pa.types.is_integer(c.type) else c for c in data.columns]
    make = pa.RecordBatch if isinstance(data, pa.RecordBatch) else pa.Table
    return make.from_arrays(columns, names=data.schema.names)


def _number(dtype: Any, sentinel: Any) -> int:
    largest = 2**31 if dtype == pa.int32() else 2**63
    match sentinel:
        case "min":
            return -largest
        case "max":
            return largest - 1
        case _:
            return int(sentinel)
