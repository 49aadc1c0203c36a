"""Schemas of tables, and the descriptions of their types for KNIME's Java side."""

# Nodes import names of other modules from here (even ks.List), so not every import is used.
# ruff: noqa: F401, UP035
# pyright: reportUnusedImport=false

import logging
from collections.abc import Sized
from typing import Any, Dict, Iterable, Iterator, List, Optional, Self, Sequence, Type, Union, cast

from . import _ktypes as k
from ._columnar import Column, _Columnar, _ColumnarView  # pyright: ignore[reportPrivateUsage]
from ._ktypes import (
    DictEncodingKeyType,
    KnimeType,
    ListType,
    LogicalType,
    PrimitiveType,
    PrimitiveTypeId,
    StructType,
    blob,
    bool_,
    datetime,
    double,
    int32,
    int64,
    list_,
    logical,
    null,
    string,
    struct,
)
from ._specs import (
    BinaryPortObjectSpec,
    CredentialPortObjectSpec,
    HubAuthenticationPortObjectSpec,
    ImagePortObjectSpec,
    PortObjectSpec,
    WorkflowPortInfo,
    WorkflowPortObjectSpec,
)

LOGGER = logging.getLogger(__name__)


class Schema(_Columnar, PortObjectSpec):
    """The schema of a table, that is, its columns."""

    def __init__(
        self,
        ktypes: Sequence[KnimeType | type],
        names: Sequence[str],
        metadata: Sequence[dict[str, Any] | None] | None = None,
    ) -> None:
        is_list = isinstance(ktypes, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_list or not all(isinstance(ktype, KnimeType) for ktype in ktypes):
            # As in KNIME, a list has either KNIME types or Python classes, but not both.
            ktypes = [logical(cast("type", ktype)) for ktype in ktypes]
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"names must be a list of strings, not {names!r}")
        if len(ktypes) != len(names):
            raise ValueError(f"{len(ktypes)} types do not fit {len(names)} names")
        if metadata is not None and not isinstance(metadata, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"metadata must be a list, not {type(metadata).__name__}")
        if metadata is not None and len(metadata) != len(names):
            raise ValueError(f"{len(metadata)} metadata do not fit {len(names)} names")
        known = metadata if metadata is not None else [None] * len(names)
        self._columns = [Column(t, n, m) for t, n, m in zip(ktypes, names, known, strict=True)]

    @classmethod
    def from_columns(cls, columns: Sequence[Column] | Column) -> "Schema":
        """A schema of one column or several."""
        given = [columns] if isinstance(columns, Column) else columns
        if not isinstance(given, Sized):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"columns must be a list, not {type(given).__name__}")
        for column in given:
            if not isinstance(column, Column):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"a schema is made of columns, not of {type(column).__name__}")
        return cls([c.ktype for c in given], [c.name for c in given], [c.metadata for c in given])

    @classmethod
    def from_types(
        cls,
        ktypes: Sequence[KnimeType | type],
        names: Sequence[str],
        metadata: Sequence[dict[str, Any] | None] | None = None,
    ) -> "Schema":
        """A schema from types and names."""
        return cls(ktypes, names, metadata)

    @property
    def column_names(self) -> list[str]:
        """See `_Columnar`."""
        return [column.name for column in self._columns]

    def __iter__(self) -> Iterator[Column]:
        yield from self._columns

    def __contains__(self, key: object) -> bool:
        name = key.name if isinstance(key, Column) else key
        return isinstance(name, str) and name in self.column_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and type(other) is type(self) and other._columns == self._columns

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        columns = ",\n\t".join(str(column) for column in self._columns)
        return f"{type(self).__name__}<\n\t{columns}>"

    __repr__ = __str__

    def _select_columns(self, selection: Any) -> Any:
        if isinstance(selection, int) and selection < 0 and self._columns:
            selection %= len(self._columns)  # as in KNIME; negative positions in lists are errors
        if isinstance(selection, (int, str)):
            return self._columns[self._position(selection)]
        if isinstance(selection, slice):
            return self.from_columns(self._columns[selection])
        if isinstance(selection, list):
            wanted = cast("list[Any]", selection)
            return self.from_columns([self._columns[self._position(entry)] for entry in wanted])
        raise TypeError(f"columns cannot be selected by {type(selection).__name__}")

    def _append(self, other: Any) -> "Schema":
        if isinstance(other, _ColumnarView):
            other = other.get()
        if isinstance(other, Column):
            return self.from_columns([*self._columns, other])
        if isinstance(other, (Schema, Sequence)):
            return self.from_columns([*self._columns, *cast("Sequence[Column]", other)])
        raise TypeError(f"only columns and schemas can be appended, not {type(other).__name__}")

    def serialize(self) -> dict[str, Any]:
        """The schema as KNIME's document, with the RowID as first column.

        Raises:
            RuntimeError: two columns have the same name.
        """
        names = self.column_names
        if len(names) != len(set(names)):
            raise RuntimeError(f"column names must be unique: {names}")
        types = [_ROW_KEY, *(wrap_primitive(column.ktype) for column in self._columns)]
        described = [_describe(ktype) for ktype in types]
        return {
            "schema": {
                "specs": tuple(spec for spec, _ in described),
                "traits": tuple(traits for _, traits in described),
            },
            "columnNames": ["RowKey", *names],
            "columnMetaData": [None, *(column.metadata for column in self._columns)],
        }

    @classmethod
    def deserialize(cls, table_schema: dict[str, Any]) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The schema from KNIME's document, without the RowIDs."""
        schema, names = table_schema["schema"], table_schema["columnNames"]
        described = zip(schema["specs"], schema["traits"], strict=False)
        types = [unwrap_primitive(k.type_of(spec, traits)) for spec, traits in described]
        first = 1 if types[0] == _ROW_KEY else 0
        if not first:
            LOGGER.warning("a schema from KNIME does not begin with the RowIDs")
        return cls(types[first:], list(names[first:]), list(table_schema["columnMetaData"][first:]))


_VALUE = "org.knime.core.data.v2.value."
_ROW_KEY = LogicalType(k.value_factory_json(_VALUE + "DefaultRowKeyValueFactory"), string())
_LIST = k.value_factory_json(_VALUE + "ListValueFactory")
_PRIMITIVES: list[tuple[KnimeType, str]] = [
    (int32(), "Int"),
    (int64(), "Long"),
    (string(), "String"),
    (bool_(), "Boolean"),
    (double(), "Double"),
]
#: The Java value factories of the types that need no value factory in Python.
PRIMITIVE_FACTORIES: dict[KnimeType, str] = {
    **{ktype: f"{_VALUE}{name}ValueFactory" for ktype, name in _PRIMITIVES},
    **{list_(ktype): f"{_VALUE}{name}ListValueFactory" for ktype, name in _PRIMITIVES},
    null(): _VALUE + "VoidValueFactory",
}


#: The column types by Java value factory.
KNOWN_PRIMITIVES = {k.value_factory_json(name): ktype for ktype, name in PRIMITIVE_FACTORIES.items()}


def wrap_primitive(ktype: KnimeType) -> KnimeType:
    """The logical type of a primitive type or list on KNIME's Java side; other types unchanged."""
    if ktype in PRIMITIVE_FACTORIES:
        return LogicalType(k.value_factory_json(PRIMITIVE_FACTORIES[ktype]), ktype)
    if isinstance(ktype, ListType):
        return LogicalType(_LIST, list_(wrap_primitive(ktype.inner_type)))
    return ktype


def unwrap_primitive(ktype: KnimeType) -> KnimeType:
    """The reverse of `wrap_primitive`; other types unchanged."""
    if not isinstance(ktype, LogicalType):
        return ktype
    if ktype.logical_type == _LIST and isinstance(ktype.storage_type, ListType):
        return list_(unwrap_primitive(ktype.storage_type.inner_type))
    return KNOWN_PRIMITIVES.get(ktype.logical_type, ktype)


_SPEC_NAMES: dict[KnimeType, str] = {
    int32(): "int",
    int64(): "long",
    string(): "string",
    bool_(): "boolean",
    double(): "double",
    blob(): "variable_width_binary",
    null(): "void",
}


def _describe(ktype: KnimeType) -> tuple[Any, dict[str, Any]]:
    """The storage and traits of a type, as Java's JSON."""
    own: dict[str, Any] = {}
    if isinstance(ktype, LogicalType):
        own = {"logical_type": ktype.logical_type}
        ktype = ktype.storage_type
    if isinstance(ktype, ListType):
        spec, traits = _describe(ktype.inner_type)
        return {"type": "list", "inner_type": spec}, {"traits": own, "type": "list", "inner": traits}
    if isinstance(ktype, StructType):
        inner = [_describe(field) for field in ktype.inner_types]
        spec = {"type": "struct", "inner_types": [field for field, _ in inner]}
        return spec, {"traits": own, "type": "struct", "inner": [traits for _, traits in inner]}
    if isinstance(ktype, PrimitiveType) and ktype.dict_encoding_key_type is not None:
        own["dict_encoding"] = ktype.dict_encoding_key_type.value
        ktype = ktype.plain_type
    return _SPEC_NAMES[ktype], {"traits": own, "type": "simple"}
