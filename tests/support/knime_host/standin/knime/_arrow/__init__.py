"""KNIME's columns in Arrow: every column has an extension type that names its Java value factory."""

# Signatures are KNIME's, so not every argument is used.

import logging
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from knime.api import _ktypes as k
from knime.api import types as kt
from knime.api.schema import KNOWN_PRIMITIVES, PRIMITIVE_FACTORIES, Column, Schema

LOGGER = logging.getLogger(__name__)
ROW_ID = "<RowID>"
_VALUE = "org.knime.core.data.v2.value."
ROW_ID_TYPE = k.value_factory_json(_VALUE + "DefaultRowKeyValueFactory")
_LIST = k.value_factory_json(_VALUE + "ListValueFactory")
_VOID = k.value_factory_json(PRIMITIVE_FACTORIES[k.null()])


class LogicalTypeExtensionType(pa.ExtensionType):
    """An Arrow type with a logical type. Its serialized form is the JSON text of the Java value factory."""

    def __init__(self, converter: Any, storage_type: Any, java_value_factory: str) -> None:
        self.converter = converter
        self._logical_type = java_value_factory
        pa.ExtensionType.__init__(self, storage_type, "knime.logical_type")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._logical_type.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> "LogicalTypeExtensionType":
        name = serialized.decode()
        return cls(kt.get_converter(name), storage_type, name)

    def __arrow_ext_scalar_class__(self) -> Any:
        return LogicalScalar

    def __arrow_ext_class__(self) -> Any:
        return LogicalArray

    def decode(self, storage: Any) -> Any:
        return self.converter.decode(storage)

    def encode(self, value: Any) -> Any:
        return self.converter.encode(value)

    @property
    def logical_type(self) -> str:
        """JSON text with the key ``value_factory_class``."""
        return self._logical_type

    def __str__(self) -> str:
        return f"extension<knime.logical_type<{shown_storage(self.storage_type)}, {self._logical_type}>>"


def shown_storage(dtype: Any) -> str:
    """A storage type as text, in KNIME's spelling."""
    return str(dtype).replace(": ", ":").replace(", ", ",").replace("<item:", "<")


class LogicalScalar(pa.ExtensionScalar):
    """A cell of a logical type; ``as_py`` returns the Python value."""

    def as_py(self, **options: Any) -> Any:
        return self.type.decode(self.value.as_py() if self.value is not None else None)


class LogicalArray(pa.ExtensionArray):
    """Cells of a logical type; ``to_pylist`` returns Python values."""

    def to_pylist(self, **options: Any) -> list[Any]:
        return [self.type.decode(storage) for storage in self.storage.to_pylist()]


# One object stands for all logical types: Arrow finds the class by the extension's name only.
pa.register_extension_type(LogicalTypeExtensionType(None, pa.null(), ""))

_BY_SPEC = {
    "string": pa.string(),
    "variable_width_binary": pa.large_binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "double": pa.float64(),
    "float": pa.float32(),
    "int": pa.int32(),
    "long": pa.int64(),
    "void": pa.null(),
}


def storage_of(spec: Any) -> Any:
    """The Arrow type for Java's description of a storage. Names of fields are their positions."""
    if isinstance(spec, str):
        return _BY_SPEC[spec]
    if spec["type"] == "list":
        return pa.list_(storage_of(spec["inner_type"]))
    return pa.struct([(str(i), storage_of(inner)) for i, inner in enumerate(spec["inner_types"])])


def logical_type_of(bundle: kt.PythonValueFactoryBundle) -> LogicalTypeExtensionType:
    """The Arrow type for columns of a registered value factory."""
    storage = storage_of(bundle.data_spec_json)
    return LogicalTypeExtensionType(bundle.value_factory, storage, bundle.logical_type)


def _named(name: str, storage: Any) -> LogicalTypeExtensionType:
    return LogicalTypeExtensionType(kt.get_converter(name), storage, name)


_ARROW = {k.SPECS[name]: _BY_SPEC[name] for name in ("int", "long", "string", "boolean", "double")}
_PRIMITIVE = {_ARROW[ktype]: ktype for ktype in _ARROW}
# KNIME has no columns of single precision, so these are widened.
_PRIMITIVE[pa.float32()] = k.double()


def _is_list(dtype: Any) -> bool:
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype)


def _wrap(array: Any, name: str, is_row_id: bool) -> Any:
    """A column's array with KNIME's type. Raises ValueError: KNIME has no columns of this Arrow type."""
    dtype = array.type
    if isinstance(dtype, LogicalTypeExtensionType):
        return array
    if isinstance(dtype, pa.DictionaryType):
        if dtype.value_type not in _PRIMITIVE and dtype.value_type != pa.null():
            raise KeyError(f"column {name!r}: KNIME does not read dictionaries of {dtype.value_type}")
        return _wrap(array.cast(dtype.value_type), name, is_row_id=False)
    if is_row_id and dtype == pa.string():
        return from_storage(array, _named(ROW_ID_TYPE, pa.string()))
    if dtype in _PRIMITIVE:
        ktype = _PRIMITIVE[dtype]
        array = _doubles(array, pa.float64()) if dtype == pa.float32() else array
        return from_storage(array, _named(k.value_factory_json(PRIMITIVE_FACTORIES[ktype]), _ARROW[ktype]))
    if dtype == pa.null():
        # Arrow cannot store an extension type over nulls (apache/arrow#15068), so KNIME uses texts.
        void = _named(_VOID, pa.string())
        return from_storage(array.cast(pa.string()), void)
    if _is_list(dtype) and dtype.value_type in _PRIMITIVE:
        inner = _PRIMITIVE[dtype.value_type]
        array = _doubles(array, pa.list_(pa.float64())) if dtype.value_type == pa.float32() else array
        name_of_list = k.value_factory_json(PRIMITIVE_FACTORIES[k.list_(inner)])
        return from_storage(array, _named(name_of_list, array.type))
    if _is_list(dtype) and dtype.value_type == pa.null():
        return _list_of_nothing(array)
    moment = _moment_type(dtype)
    if moment is not None:
        encoded = pa.array([moment.encode(value) for value in array.to_pylist()], type=moment.storage_type)
        return pa.ExtensionArray.from_storage(moment, encoded)
    raise ValueError(f"column {name!r}: KNIME has no columns of the Arrow type {dtype}; use another one")


def _list_of_nothing(array: Any) -> Any:
    """Lists of missing values, with KNIME's general list type."""
    lists = pa.array(array.to_pylist(), type=pa.list_(pa.string()))
    cells = from_storage(lists.values, _named(_VOID, pa.string()))
    storage = pa.ListArray.from_arrays(lists.offsets, cells, mask=lists.is_null())
    return from_storage(storage, _named(_LIST, storage.type))


def _moment_type(dtype: Any) -> LogicalTypeExtensionType | None:
    """KNIME's type for Arrow's dates, times and durations."""
    # Before the dates, as every timestamp has both.
    if pa.types.is_timestamp(dtype):
        return k.datetime(timezone=dtype.tz is not None).to_pyarrow()
    if pa.types.is_date(dtype):
        return k.datetime(time=False).to_pyarrow()
    if pa.types.is_time(dtype):
        return k.datetime(date=False).to_pyarrow()
    if pa.types.is_duration(dtype):
        name = k.value_factory_json("org.knime.core.data.v2.time.DurationValueFactory")
        return logical_type_of(kt.get_value_factory_bundle_for_java_value_factory(name))
    return None


def _doubles(array: Any, dtype: Any) -> Any:
    cast = array.cast(dtype)
    # Without rows there are no chunks, which is an error here and in KNIME.
    return pa.chunked_array(cast.chunks) if isinstance(cast, pa.ChunkedArray) else cast


def storage_of_cells(array: Any) -> Any:
    """The storage of a column's array; the array itself if it has no logical type."""
    # A column of a table is chunked, one of a record batch is not; only arrays know their storage.
    if not isinstance(array.type, LogicalTypeExtensionType):
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in array.chunks], type=array.type.storage_type)
    return array.storage


def from_storage(array: Any, dtype: LogicalTypeExtensionType) -> Any:
    """A column of a logical type, from its storage or from a column of another type with the same storage."""
    array = storage_of_cells(array)
    if isinstance(array, pa.ChunkedArray):
        chunks = [pa.ExtensionArray.from_storage(dtype, chunk) for chunk in array.chunks]
        return pa.chunked_array(chunks, type=dtype)
    return pa.ExtensionArray.from_storage(dtype, array)


def wrap_table(table: Any) -> Any:
    """The table with KNIME's types. The first column must be texts, which are the RowIDs."""
    names = table.schema.names
    arrays = [_wrap(table.column(i), names[i], i == 0) for i in range(len(names))]
    # KNIME does not check that they are unique here: Java fails later, which `port_values` foresees.
    first = arrays[0].type
    if not isinstance(first, LogicalTypeExtensionType) or first.logical_type != ROW_ID_TYPE:
        raise TypeError("the first column must hold the RowIDs: strings, unique in the table")
    return _of_kind(table, arrays)


def unwrap_table(table: Any) -> Any:
    """The table with plain Arrow types for KNIME's primitive types, lists of these, and RowIDs."""
    arrays = [_unwrap(column) for column in table.columns]
    return _of_kind(table, arrays)


def _of_kind(table: Any, arrays: list[Any]) -> Any:
    make = pa.RecordBatch if isinstance(table, pa.RecordBatch) else pa.Table
    return make.from_arrays(arrays, names=table.schema.names)


def _unwrap(array: Any) -> Any:
    dtype = array.type
    if not isinstance(dtype, LogicalTypeExtensionType):
        return array
    if dtype.logical_type == _VOID:
        return (
            pa.chunked_array([pa.nulls(len(array))])
            if isinstance(array, pa.ChunkedArray)
            else pa.nulls(len(array))
        )
    if dtype.logical_type == _LIST and _is_void(dtype.storage_type.value_type):
        return pa.array(array.to_pylist(), type=pa.list_(pa.null()))
    if dtype.logical_type == ROW_ID_TYPE or dtype.logical_type in KNOWN_PRIMITIVES:
        return storage_of_cells(array)
    return array


def _is_void(dtype: Any) -> bool:
    return isinstance(dtype, LogicalTypeExtensionType) and dtype.logical_type == _VOID


def schema_of(table: Any) -> Schema:
    """KNIME's schema of a wrapped table, without the RowIDs."""
    fields = list(table.schema)[1:]
    return Schema.from_columns([Column(_ktype_of(f.type), f.name, f.metadata) for f in fields])


def _ktype_of(dtype: Any) -> k.KnimeType:
    if isinstance(dtype, LogicalTypeExtensionType):
        if dtype.logical_type == _LIST:
            return _ktype_of(dtype.storage_type)
        if dtype.logical_type in KNOWN_PRIMITIVES:
            return KNOWN_PRIMITIVES[dtype.logical_type]
        return k.LogicalType(dtype.logical_type, _ktype_of(dtype.storage_type))
    if _is_list(dtype):
        return k.list_(_ktype_of(dtype.value_type))
    if pa.types.is_struct(dtype):
        return k.struct(*(_ktype_of(dtype.field(i).type) for i in range(dtype.num_fields)))
    if dtype == pa.large_binary():
        return k.blob()
    if dtype in _PRIMITIVE:
        return _PRIMITIVE[dtype]
    raise TypeError(f"KNIME has no type for Arrow's {dtype}")


def spec_of(dtype: Any) -> Any:
    """Java's description of an Arrow type's storage; for unknown types a text with a question mark."""
    if isinstance(dtype, pa.ExtensionType):
        return spec_of(dtype.storage_type)
    if pa.types.is_struct(dtype):
        inner = [spec_of(dtype.field(i).type) for i in range(dtype.num_fields)]
        return {"type": "struct", "inner_types": inner}
    if _is_list(dtype):
        return {"type": "list", "inner_type": spec_of(dtype.value_type)}
    names = {arrow: name for name, arrow in _BY_SPEC.items()}
    return names.get(dtype, f"?{dtype}")


def of_arrow(data: Any, row_ids: str, *, first_row: int = 0) -> Any:
    """The data of a table, from a table or record batch; see `knime.api.table.Table.from_pyarrow`."""
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
    return wrap_table(data)


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
