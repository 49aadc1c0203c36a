"""KNIME's columns in Arrow: every column has an extension type that names its Java value factory."""

from typing import Any

import pyarrow as pa
from knime.api import schema as k
from knime.api import types as kt

ROW_ID = "<RowID>"
_VALUE = "org.knime.core.data.v2.value."
_ROW_KEY = k.value_factory_json(_VALUE + "DefaultRowKeyValueFactory")
_VOID = k.PRIMITIVE_FACTORIES[k.null()]


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
        return _named(serialized.decode(), storage_type)

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
    "double": pa.float64(),
    "int": pa.int32(),
    "long": pa.int64(),
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


_KTYPES = {arrow: k.SPECS[spec] for spec, arrow in _BY_SPEC.items()}
_PRIMITIVES = {arrow: ktype for arrow, ktype in _KTYPES.items() if ktype in k.PRIMITIVE_FACTORIES}


def _wrap(column: Any, name: str, is_row_id: bool) -> Any:
    """A column with KNIME's type. Raises ValueError: KNIME has no columns of this Arrow type."""
    dtype = column.type
    if isinstance(dtype, LogicalTypeExtensionType):
        return column
    if is_row_id and dtype == pa.string():
        return _with_type(column, _named(_ROW_KEY, dtype))
    if dtype in _PRIMITIVES:
        return _with_type(column, _named(k.PRIMITIVE_FACTORIES[_PRIMITIVES[dtype]], dtype))
    if dtype == pa.null():
        # Arrow cannot store an extension type over nulls (apache/arrow#15068), so KNIME uses texts.
        return _with_type(column.cast(pa.string()), _named(_VOID, pa.string()))
    if pa.types.is_list(dtype) and dtype.value_type in _PRIMITIVES:
        factory = k.PRIMITIVE_FACTORIES[k.list_(_PRIMITIVES[dtype.value_type])]
        return _with_type(column, _named(factory, dtype))
    moment = _moment_type(dtype)
    if moment is not None:
        encoded = pa.array([moment.encode(value) for value in column.to_pylist()], type=moment.storage_type)
        return pa.ExtensionArray.from_storage(moment, encoded)
    raise ValueError(f"column {name!r}: KNIME has no columns of the Arrow type {dtype}; use another one")


def _moment_type(dtype: Any) -> LogicalTypeExtensionType | None:
    """KNIME's type for Arrow's dates and times."""
    # Before the dates, as every timestamp has both.
    if pa.types.is_timestamp(dtype):
        return k.datetime(timezone=dtype.tz is not None).to_pyarrow()
    if pa.types.is_date(dtype):
        return k.datetime(time=False).to_pyarrow()
    return k.datetime(date=False).to_pyarrow() if pa.types.is_time(dtype) else None


def _with_type(column: Any, dtype: LogicalTypeExtensionType) -> Any:
    chunks = [pa.ExtensionArray.from_storage(dtype, chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=dtype)


def unwrap_table(table: Any) -> Any:
    """The table with plain Arrow types for KNIME's primitive types, lists of these, and RowIDs."""
    return pa.table([_unwrap(column) for column in table.columns], names=table.schema.names)


def _unwrap(column: Any) -> Any:
    dtype = column.type
    if dtype.logical_type == _VOID:
        return pa.chunked_array([pa.nulls(len(column))])
    if dtype.logical_type == _ROW_KEY or dtype.logical_type in k.KNOWN_PRIMITIVES:
        return pa.chunked_array([chunk.storage for chunk in column.chunks], type=dtype.storage_type)
    return column


def schema_of(table: Any) -> k.Schema:
    """KNIME's schema of a wrapped table, without the RowIDs."""
    fields = list(table.schema)[1:]
    return k.Schema.from_columns([k.Column(_ktype_of(f.type), f.name, f.metadata) for f in fields])


def _ktype_of(dtype: Any) -> k.KnimeType:
    if isinstance(dtype, LogicalTypeExtensionType):
        if dtype.logical_type in k.KNOWN_PRIMITIVES:
            return k.KNOWN_PRIMITIVES[dtype.logical_type]
        return k.LogicalType(dtype.logical_type, _ktype_of(dtype.storage_type))
    if pa.types.is_list(dtype):
        return k.list_(_ktype_of(dtype.value_type))
    if pa.types.is_struct(dtype):
        return k.struct(*(_ktype_of(dtype.field(i).type) for i in range(dtype.num_fields)))
    if dtype not in _KTYPES:
        raise TypeError(f"KNIME has no type for Arrow's {dtype}")
    return _KTYPES[dtype]


def of_arrow(data: Any, row_ids: str) -> Any:
    """The data of a table with KNIME's types; see `knime.api.table.Table.from_pyarrow`."""
    check_batches([len(batch) for batch in data.to_batches()])
    if row_ids not in ("auto", "keep", "generate"):
        raise ValueError(f"row_ids must be auto, keep or generate, not {row_ids!r}")
    if row_ids == "auto":
        row_ids = "keep" if data.schema[0].name == ROW_ID else "generate"
    if row_ids == "generate":
        ids = pa.array([f"Row{number}" for number in range(data.num_rows)], type=pa.string())
        data = data.add_column(0, ROW_ID, ids)
    names = data.schema.names
    # KNIME does not check that they are unique here: Java fails later, which `port_values` foresees.
    columns = [_wrap(data.column(i), names[i], i == 0) for i in range(len(names))]
    if columns[0].type.logical_type != _ROW_KEY:
        raise TypeError("the first column must hold the RowIDs: strings, unique in the table")
    return pa.table(columns, names=names)


def check_batches(sizes: list[int]) -> None:
    """Raises ValueError unless all batches but the last, which may be smaller, have the same size."""
    for index, size in enumerate(sizes):
        if size > sizes[0] or (size < sizes[0] and index < len(sizes) - 1):
            raise ValueError(
                f"a batch has {size} rows, but the first one has {sizes[0]}: "
                "all batches must have the same size, only the last one may be smaller"
            )
