"""Specs of ports, and schemas of tables with the descriptions of their types for KNIME's Java side.

Schemas and tables are ordered columns; their operations on columns return lazy views.
"""

# Nodes import names of other modules from here (even ks.List), so not every import is used.
# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: ARG003, F401, UP035
# pyright: reportUnusedImport=false

import datetime as dt
import logging
from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Protocol,
    Self,
    Sequence,
    Type,
    Union,
    cast,
)

from . import _ktypes as k
from ._absent import absent as _absent
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

if TYPE_CHECKING:
    from enum import Enum

LOGGER = logging.getLogger(__name__)


class Column:
    """A column: its type, its name and, for input columns, KNIME's metadata about the type."""

    ktype: KnimeType
    name: str
    metadata: dict[str, Any] | None

    def __init__(self, ktype: KnimeType | type, name: str, metadata: dict[str, Any] | None = None) -> None:
        if not isinstance(ktype, KnimeType):
            ktype = logical(ktype)
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a column's name must be a string, not {type(name).__name__}")
        if not name.strip():
            raise ValueError("a column's name must not be empty")
        self.ktype = ktype
        self.name = name
        self.metadata = metadata

    def __str__(self) -> str:
        metadata = "" if self.metadata is None else f", {self.metadata}"
        return f"Column<'{self.name}', {self.ktype}{metadata}>"

    def __eq__(self, other: Any) -> bool:
        # As in KNIME, a column can be compared with columns only.
        return other.ktype == self.ktype and other.name == self.name and other.metadata == self.metadata

    __hash__ = None  # type: ignore[assignment]


class Operation(Protocol):
    """The operation of a view, which is applied when the result is needed."""

    def apply(self, source: Any) -> Any: ...


@dataclass(frozen=True)
class Selection:
    columns: Any

    def apply(self, source: Any) -> Any:
        return source._select_columns(self.columns)

    def __str__(self) -> str:
        return f"ColumnSlicingOp({self.columns})"


@dataclass(frozen=True)
class Addition:
    other: Any

    def apply(self, source: Any) -> Any:
        return source._append(self.other)

    def __str__(self) -> str:
        return f"AppendOp({self.other})"


class _Columnar(ABC):
    """The common base of schemas and tables: ordered columns. Operations return lazy views."""

    @property
    def num_columns(self) -> int:
        return len(self.column_names)

    @property
    @abstractmethod
    def column_names(self) -> list[str]: ...

    def __getitem__(self, slicing: Any) -> Any:
        # Without this an int index would make `for column in schema` endless.
        if isinstance(slicing, int) and slicing >= self.num_columns:
            raise IndexError(f"index {slicing} is beyond the {self.num_columns} columns")
        return self._view(Selection(slicing))

    def append(self, other: Any) -> Any:
        return _ColumnarView(self, Addition(other))

    def insert(self, other: Any, at: int) -> Any:
        count = self.num_columns
        order = list(range(count))
        added = 1 if isinstance(other, Column) else other.num_columns
        order[at:at] = range(count, count + added)
        return self.append(other)[order]

    def remove(self, slicing: int | str | list[str]) -> Any:
        """A view without a column (by index or name) or without several (by names)."""
        names = self.column_names
        if isinstance(slicing, list):
            missing = [name for name in slicing if name not in names]
            if missing:
                raise ValueError(f"there are no columns {missing}; columns: {names}")
            kept: list[Any] = [name for name in names if name not in slicing]
        elif isinstance(slicing, int):
            if not 0 <= slicing < len(names):
                raise IndexError(f"index {slicing} is not among the {len(names)} columns")
            kept = names[:slicing] + names[slicing + 1 :]
        elif isinstance(slicing, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            names.remove(slicing)
            kept = names
        else:
            raise TypeError(f"columns cannot be removed by {type(slicing).__name__}")
        return _ColumnarView(self, Selection(kept))

    def _view(self, operation: Operation) -> Any:
        return _ColumnarView(self, operation)

    def _position(self, entry: Any) -> int:
        """The position of a column that is given by name or position."""
        names = self.column_names
        if isinstance(entry, str):
            if entry not in names:
                raise IndexError(f"there is no column {entry!r}; columns: {names}")
            return names.index(entry)
        if not isinstance(entry, int) or not 0 <= entry < len(names):
            raise IndexError(f"{entry!r} is not the position of one of {len(names)} columns")
        return entry


class _ColumnarView(_Columnar):
    """A schema or table with an operation that is applied on demand; ``get()`` returns the result."""

    def __init__(self, delegate: Any, operation: Operation) -> None:
        self.delegate = delegate
        self.operation = operation
        self._result: Any = None

    def get(self, cache: bool = True) -> Any:
        """The schema, table or column that is the result of the operation."""
        if self._result is not None:
            return self._result
        source = self.delegate.get(cache=False) if isinstance(self.delegate, _ColumnarView) else self.delegate
        result = self.operation.apply(source)
        if cache:
            self._result = result
        return result

    @property
    def column_names(self) -> list[str]:
        return self.get().column_names

    @property
    def num_columns(self) -> int:
        return self.get().num_columns

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.get(), name)

    def __eq__(self, other: object) -> bool:
        return self.get() == (other.get() if isinstance(other, _ColumnarView) else other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"ColumnarView<delegate={self.delegate}, op={self.operation}>"


class PortObjectSpec(ABC):
    """The description of a port's content before it is computed."""

    @abstractmethod
    def serialize(self) -> dict[str, Any]: ...

    @classmethod
    @abstractmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> "PortObjectSpec":
        """The spec from its document. KNIME also accepts implementations without the second argument."""


class BinaryPortObjectSpec(PortObjectSpec):
    """The spec of a binary port. Ports with the same id can be connected."""

    def __init__(self, id: str) -> None:  # noqa: A002  # KNIME's name
        self._id = id

    @property
    def id(self) -> str:
        return self._id

    def serialize(self) -> dict[str, Any]:
        return {"id": self._id}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "BinaryPortObjectSpec":  # pyright: ignore[reportIncompatibleMethodOverride]
        return cls(data["id"])


class ImagePortObjectSpec(PortObjectSpec):
    """The spec of an image port, which has the format."""

    def __init__(self, format: "str | Enum") -> None:  # noqa: A002  # KNIME's name
        self._format = format if isinstance(format, str) else str(format.value)

    @property
    def format(self) -> str:
        """``png`` or ``svg``."""
        return self._format

    def serialize(self) -> dict[str, Any]:
        return {"format": self._format}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "ImagePortObjectSpec":  # pyright: ignore[reportIncompatibleMethodOverride]
        return cls(data["format"])


class CredentialPortObjectSpec(PortObjectSpec):
    """The spec of a credential port. The secrets stay with KNIME and are fetched when they are read.

    Reading a secret raises a ValueError if the upstream node has not been executed.
    """

    #: The object that has the secrets: KNIME's Java side, or here the node host.
    _java_callback: ClassVar[Any] = None

    def __init__(self, xml_data: str | None) -> None:
        self._xml_data = xml_data

    def _ask(self, what: str) -> Any:
        try:
            return getattr(self._java_callback, what)(self._xml_data)
        except LookupError:
            raise ValueError(
                "the credential is not there; maybe the upstream nodes have to be executed"
            ) from None

    @property
    def auth_schema(self) -> str:
        """``Bearer`` or ``Basic``."""
        return self._ask("get_auth_schema")

    @property
    def auth_parameters(self) -> str:
        """The token, which follows the schema in an Authorization header."""
        return self._ask("get_auth_parameters")

    @property
    def expires_after(self) -> dt.datetime | None:
        """The time when the token expires (UTC, without time zone), if it is known."""
        return self._ask("get_expires_after")

    def serialize(self) -> dict[str, Any]:
        return {"data": self._xml_data}

    @classmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> "CredentialPortObjectSpec":
        return cls(data.get("data"))


class Schema(_Columnar, PortObjectSpec):
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
        return cls(ktypes, names, metadata)

    @property
    def column_names(self) -> list[str]:
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


__getattr__ = _absent(
    __name__, "HubAuthenticationPortObjectSpec", "WorkflowPortInfo", "WorkflowPortObjectSpec"
)
