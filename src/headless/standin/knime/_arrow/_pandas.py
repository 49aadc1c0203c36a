"""KNIME's tables as pandas frames: the RowIDs are the index, and logical values are extension arrays.

pandas is not a dependency of this project: nodes that convert tables must install it.
"""

# Signatures are those of pandas, so not every argument is used.
# ruff: noqa: ARG002, ARG003
# pandas is not installed when types are checked.
# pyright: basic, reportMissingImports=false, reportIncompatibleMethodOverride=false

import datetime as dt
import warnings
from collections.abc import Sequence
from typing import Any, Self

try:
    import pandas as pd
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("tables become pandas frames only where pandas is installed") from error
import numpy as np
import pyarrow as pa
from knime.api import _ktypes as k
from pandas.api.extensions import ExtensionArray, ExtensionDtype

from . import ROW_ID, LogicalTypeExtensionType, from_storage, shown_storage, storage_of_cells

#: KNIME comes with pandas 2. Since pandas 3, texts have Arrow's type large_string, which KNIME refuses.
_HAS_KNIMES_TEXTS = int(pd.__version__.partition(".")[0]) < 3


class PandasLogicalTypeExtensionType(ExtensionDtype):
    """The pandas type of a column with a logical type. Some extensions instantiate this class."""

    na_value = None
    type = bytes  # as in KNIME, for all values
    _metadata = ("name", "proxy")  # the attributes that pandas compares

    def __init__(self, storage_type: pa.DataType, logical_type: str, converter: Any) -> None:
        self.arrow = LogicalTypeExtensionType(converter, storage_type, logical_type)

    @property
    def name(self) -> str:
        return f"PandasLogicalTypeExtensionType({self.arrow.storage_type}, {self.arrow.logical_type})"

    @property
    def proxy(self) -> str:
        """The name of the Python class of the values, if it is not the usual one of the type."""
        return self.arrow.proxy

    def __str__(self) -> str:
        return f"knime.pandas_type<{shown_storage(self.arrow.storage_type)}, {self.arrow.logical_type}>"

    @classmethod
    def construct_from_string(cls, string: str) -> Any:
        """Always raises TypeError, as the text does not have the value factory."""
        raise TypeError(f"no column type is made of the text {string!r}")

    def construct_array_type(self) -> Any:
        return KnimePandasExtensionArray

    def __from_arrow__(self, data: Any) -> "KnimePandasExtensionArray":
        return KnimePandasExtensionArray(data)


class KnimePandasExtensionArray(ExtensionArray):
    """A column with a logical type: Arrow data in one or several chunks. Cells are decoded on access.

    Operations that KNIME's own columns refuse are refused, such as setting a list of rows to one value.
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> Self:
        kind = dtype.arrow
        if isinstance(scalars, cls):  # the same cells as another Python class
            if scalars.dtype.name != dtype.name:
                raise TypeError(f"{scalars.dtype} cannot become {dtype}")
            return cls(from_storage(scalars._data, kind))
        return cls(_encoded(scalars, kind))  # as in KNIME, only None is a missing cell

    @classmethod
    def _from_factorized(cls, values: Any, original: Any) -> Self:
        raise NotImplementedError(
            "columns of logical types cannot be grouped or made categories, nor can they in KNIME"
        )

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[Self]) -> Self:
        if len(to_concat) == 1:
            return to_concat[0]
        # Chunks are not joined, because KNIME refuses a table in which a later chunk is larger.
        pieces = [part._data for part in to_concat]
        chunks = [
            c for data in pieces for c in (data.chunks if isinstance(data, pa.ChunkedArray) else [data])
        ]
        return cls(pa.chunked_array(chunks))

    def __getitem__(self, item: Any) -> Any:
        item = pd.api.indexers.check_array_indexer(self, item)
        if isinstance(item, (int, np.integer)):
            return self._data[int(item)].as_py()
        return self.take(np.arange(len(self))[item])

    def __setitem__(self, item: Any, value: Any) -> None:
        cells = np.empty(len(self), dtype=object)
        cells[:] = self._data.to_pylist()
        item = item[0] if isinstance(item, tuple) else item
        if isinstance(item, slice):
            places = range(*item.indices(len(self)))
            values = list(value) if isinstance(value, (pd.Series, type(self))) else [value] * len(places)
            if len(values) < len(places) or (hasattr(value, "__len__") and 1 < len(value) != len(places)):
                raise ValueError(f"{len(value)} values do not fit {len(places)} rows")
            for place, entry in zip(places, values, strict=False):
                cells[place] = entry
        elif isinstance(item, (list, np.ndarray)):
            cells[np.asarray(item)] = list(value)
        else:
            cells[item] = value
        self._data = _encoded(cells, self._data.type)

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        # As in KNIME, whole columns are compared, not single cells.
        return isinstance(other, type(self)) and self._data.equals(other._data)

    __hash__ = None  # type: ignore[assignment]

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002  # Arrow's name
        return self._data

    @property
    def dtype(self) -> PandasLogicalTypeExtensionType:
        return self._data.type.to_pandas_dtype()

    @property
    def nbytes(self) -> int:
        """The size of the column in bytes."""
        return self._data.nbytes

    def isna(self) -> Any:
        return np.array(self._data.is_null().to_pylist(), dtype=bool)

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Self:
        """The cells at positions; with ``allow_fill``, -1 is a missing cell."""
        places = np.asarray(indices, dtype=np.int64)
        if np.array_equal(places, np.arange(len(self))):
            return self.copy()
        if not allow_fill:
            places = np.where(places < 0, places + len(self), places)
        elif not len(self):
            raise TypeError("a column without rows cannot be filled up, nor can it in KNIME")
        elif (places < -1).any():
            raise ValueError("with allow_fill, positions are at least -1")
        if (places >= len(self)).any():
            raise IndexError(f"a position is beyond the {len(self)} rows")
        taken = storage_of_cells(self._data).take(pa.array(places, mask=places < 0))
        return type(self)(from_storage(taken, self._data.type))

    def copy(self) -> Self:
        """A column with the same Arrow data, which never changes."""
        return type(self)(self._data)


def _encoded(values: Any, kind: LogicalTypeExtensionType) -> Any:
    cells = pa.array([kind.encode(value) for value in values], type=kind.storage_type)
    return pa.ExtensionArray.from_storage(kind, cells)


def frame_of(data: Any) -> Any:
    """A frame from Arrow data with RowIDs as first column. Integers with missing cells become floats."""
    frame = data.to_pandas(types_mapper=lambda kind: pd.StringDtype() if kind == pa.string() else None)
    return frame.set_index(frame.columns[0])


def data_of(frame: Any, row_ids: str) -> pa.Table:
    """The Arrow data of a frame.

    Args:
        frame: The frame.
        row_ids: ``keep`` or ``auto`` make the index the first column ``<RowID>``; ``auto`` writes the number
            n as Row<n>. ``generate`` leaves the index out.

    Raises:
        ValueError: The value is not a frame, or two columns have the same name.
    """
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"a pandas.DataFrame is needed, not {type(frame).__name__}")
    if row_ids not in ("auto", "keep", "generate"):
        raise ValueError(f"row_ids must be auto, keep or generate, not {row_ids!r}")
    if frame.shape == (0, 0):
        return pa.table({})
    made = pd.DataFrame(frame.copy(deep=False))
    for position, name in enumerate(frame.columns):
        made.isetitem(position, _typed(frame.iloc[:, position], name))
    made.columns = [str(name) for name in frame.columns]
    made = made.reset_index(drop=True)
    if row_ids != "generate":
        made.insert(0, ROW_ID, _row_ids(frame, row_ids), allow_duplicates=True)
    data = pa.Table.from_pandas(made, preserve_index=False)
    if _HAS_KNIMES_TEXTS:
        return data
    kinds = [_in_knimes_pandas(kind) for kind in data.schema.types]
    return data.cast(pa.schema(list(zip(data.schema.names, kinds, strict=True))))


def _in_knimes_pandas(kind: pa.DataType) -> pa.DataType:
    """The Arrow type that pandas 2 uses for texts; other types unchanged."""
    own = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return pa.string() if own == pa.large_string() else kind


def _row_ids(frame: pd.DataFrame, row_ids: str) -> Any:
    index = frame.index.to_series()
    numbered = row_ids == "auto" and len(index) and index.dtype.kind in "iu"
    return (index.apply("Row{}".format) if numbered else index.astype(str)).astype("string").array


def _typed(column: Any, name: Any) -> Any:
    """The column. A column of Python objects gets the logical type of its first object, if there is one."""
    if not pd.api.types.is_object_dtype(column.dtype):
        return column
    present = column.dropna()
    if present.empty:
        return column
    try:
        dtype = _logical_type_of(present).to_pandas()
    except TypeError:
        return column
    try:
        return column.astype(object).where(pd.notnull(column), None).astype(dtype)
    except TypeError:
        warnings.warn(
            f"the column {name!r} seems to hold values of {dtype}, but some are others; give it a type with"
            " knext.logical(...).to_pandas()",
            stacklevel=2,
        )
        return column


def _logical_type_of(present: Any) -> k.LogicalType:
    kind = type(present.iloc[0])
    # The column has the type without time zone only if no value has a time zone.
    if kind in (dt.datetime, pd.Timestamp) and all(getattr(v, "tzinfo", None) is None for v in present):
        return k.datetime()
    return k.logical(kind)
