"""Specs of ports, and schemas of tables with the descriptions of their types for KNIME's Java side.

Schemas and tables are ordered columns; what is selected of them is a lazy view.
"""

# Nodes import names of other modules from here (even ks.List), so not every import is used.
# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: F401, UP035
# pyright: reportUnusedImport=false

import datetime as dt
import logging
from abc import ABC, abstractmethod
from collections.abc import Sized
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
from ._absent import not_here
from ._ktypes import (
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


class _Columnar(ABC):
    """The common base of schemas and tables: ordered columns, of which lazy views select some."""

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
        return _ColumnarView(self, slicing)

    append = not_here("append of schemas and tables")
    insert = not_here("insert of schemas and tables")
    remove = not_here("remove of schemas and tables")

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
    """Selected columns of a schema or table, which ``get()`` returns."""

    def __init__(self, delegate: Any, columns: Any) -> None:
        self._delegate = delegate
        self._selected = columns
        self._result: Any = None

    def get(self, cache: bool = True) -> Any:
        if self._result is not None:
            return self._result
        whole = self._delegate
        source = whole.get(cache=False) if isinstance(whole, _ColumnarView) else whole
        result = source._select_columns(self._selected)
        if cache:
            self._result = result
        return result

    @property
    def column_names(self) -> list[str]:
        return self.get().column_names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.get(), name)

    def __eq__(self, other: object) -> bool:
        return self.get() == (other.get() if isinstance(other, _ColumnarView) else other)

    __hash__ = None  # type: ignore[assignment]


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
    """The spec of a credential port. The secrets stay with KNIME and are fetched when they are read."""

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

    def serialize(self) -> dict[str, Any]:
        """The schema as KNIME's document, with the RowID as first column."""
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
        raise NotImplementedError("Schema.deserialize is not part of the stand-in")


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


_SPEC_NAMES: dict[KnimeType, str] = {ktype: name for name, ktype in k.SPECS.items()}


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
    return _SPEC_NAMES[ktype], {"traits": own, "type": "simple"}
