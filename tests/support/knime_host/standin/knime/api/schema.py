"""Types of columns, specs of ports, and schemas of tables with their descriptions for KNIME's Java side."""

import datetime as dt
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from . import types as kt


class KnimeType:
    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class PrimitiveType(KnimeType):
    """A primitive type, with the name that KNIME shows."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class ListType(KnimeType):
    inner_type: KnimeType

    def __str__(self) -> str:
        return f"List (Collection of: {self.inner_type})"


@dataclass(frozen=True, repr=False)
class StructType(KnimeType):
    """A fixed number of fields, which have positions but no names."""

    inner_types: tuple[KnimeType, ...]

    def __post_init__(self) -> None:
        for inner in self.inner_types:
            if not isinstance(inner, KnimeType):  # pyright: ignore[reportUnnecessaryIsInstance]
                # Value factories with a byte in their storage fail here: KNIME's Python API has no byte type.
                raise TypeError(f"the fields of a struct need a KnimeType, not {inner!r}")

    def __str__(self) -> str:
        return f"struct<{', '.join(str(inner) for inner in self.inner_types)}>"


@dataclass(frozen=True, repr=False)
class LogicalType(KnimeType):
    """A storage type with a meaning, which is the JSON text with the name of a Java value factory."""

    logical_type: str
    storage_type: KnimeType

    def __str__(self) -> str:
        try:
            return kt.get_value_factory_bundle_for_java_value_factory(self.logical_type).data_type
        except ValueError:
            return f"extension<logical={self.logical_type}, storage={self.storage_type}>"

    def to_pyarrow(self) -> Any:
        """The Arrow extension type for columns of this type; it has ``encode`` and ``decode``."""
        from knime._arrow import logical_type_of

        return logical_type_of(kt.get_value_factory_bundle_for_java_value_factory(self.logical_type))


def int32() -> PrimitiveType:
    return PrimitiveType("Number (Integer)")


def int64() -> PrimitiveType:
    return PrimitiveType("Number (Long Integer)")


def double() -> PrimitiveType:
    return PrimitiveType("Number (Float)")


def bool_() -> PrimitiveType:
    return PrimitiveType("Boolean")


def string() -> PrimitiveType:
    return PrimitiveType("String")


def null() -> PrimitiveType:
    """The type of columns in which every cell is missing."""
    return PrimitiveType("null")


def list_(inner_type: KnimeType) -> ListType:
    return ListType(inner_type)


def struct(*inner_types: KnimeType) -> StructType:
    return StructType(inner_types)


def logical(value_type: type) -> LogicalType:
    """The column type for values of a Python class."""
    try:
        bundle = kt.get_value_factory_bundle_for_python_type(value_type)
        return _type_of(bundle.data_spec_json, bundle.data_traits)
    except Exception as error:
        raise TypeError(f"no value factory is registered for {value_type}: {error}", error) from error


#: The primitive types, by Java's names for how they are stored.
SPECS: dict[str, PrimitiveType] = {
    "string": string(),
    "int": int32(),
    "long": int64(),
    "double": double(),
    "boolean": bool_(),
    "variable_width_binary": PrimitiveType("blob"),  # only in fields of logical types
    "void": null(),
}


def _type_of(spec: Any, traits: Any) -> Any:
    """The type for Java's description by storage and traits."""
    own = traits.get("traits", {})
    match traits["type"]:
        case "list":
            found: Any = list_(_type_of(spec["inner_type"], traits["inner"]))
        case "struct":
            inner = zip(spec["inner_types"], traits["inner"], strict=True)
            found = struct(*(_type_of(field, its_own) for field, its_own in inner))
        case _:
            found = SPECS.get(spec)  # None for a byte, which a struct refuses
    return LogicalType(own["logical_type"], found) if "logical_type" in own else found


def value_factory_json(class_name: str) -> str:
    """The JSON text with which columns refer to a Java value factory."""
    return json.dumps({"value_factory_class": class_name}, separators=(",", ":"))


_TIME = "org.knime.core.data.v2.time."
_MOMENTS = {
    (True, True, False): ("LocalDateTimeValueFactory", struct(int64(), int64())),
    (True, True, True): ("ZonedDateTimeValueFactory2", struct(int64(), int64(), int32(), string())),
    (True, False, False): ("LocalDateValueFactory", int64()),
    (False, True, False): ("LocalTimeValueFactory", int64()),
}


def datetime(date: bool = True, time: bool = True, timezone: bool = False) -> LogicalType:
    """The column type of local dates, times, dates with time, or zoned dates with time."""
    if (date, time, timezone) not in _MOMENTS:
        raise ValueError("a date-time column needs a date, a time or both, and for a time zone both")
    class_name, storage = _MOMENTS[date, time, timezone]
    return LogicalType(value_factory_json(_TIME + class_name), storage)


@dataclass(eq=False)
class Column:
    """A column: its type, its name and, for input columns, KNIME's metadata about the type."""

    ktype: KnimeType
    name: str
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ktype, KnimeType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a column's type must be one of KNIME's, not {self.ktype!r}")
        if not isinstance(self.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a column's name must be a string, not {type(self.name).__name__}")
        if not self.name.strip():
            raise ValueError("a column's name must not be empty")

    def __eq__(self, other: Any) -> bool:
        # As in KNIME, a column can be compared with columns only.
        return (other.ktype, other.name, other.metadata) == (self.ktype, self.name, self.metadata)

    __hash__ = None  # type: ignore[assignment]


class _Columnar(ABC):
    """The common base of schemas and tables: columns, of which lazy views select some by their names."""

    @property
    @abstractmethod
    def column_names(self) -> list[str]: ...

    @property
    def num_columns(self) -> int:
        return len(self.column_names)

    def __getitem__(self, selection: str | list[str]) -> Any:
        if not isinstance(selection, (str, list)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise NotImplementedError("a selection but by names of columns is not part of the stand-in")
        return _ColumnarView(self, selection)

    def _positions(self, selection: str | list[str]) -> list[int]:
        names = self.column_names
        wanted = [selection] if isinstance(selection, str) else selection
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise IndexError(f"there is no column {unknown[0]!r}; columns: {names}")
        return [names.index(name) for name in wanted]


class _ColumnarView:
    """Selected columns of a schema or table, which ``get()`` returns."""

    def __init__(self, delegate: Any, selection: Any) -> None:
        self._delegate = delegate
        self._selected = selection

    def get(self) -> Any:
        return self._delegate._select_columns(self._selected)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.get(), name)


class PortObjectSpec(ABC):
    """The description of a port's content before it is computed."""

    @abstractmethod
    def serialize(self) -> dict[str, Any]: ...

    @classmethod
    @abstractmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> "PortObjectSpec":
        """The spec from its document. KNIME also accepts implementations without the second argument."""


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
    _columns: list[Column]

    @classmethod
    def from_columns(cls, columns: Sequence[Column] | Column) -> "Schema":
        given = [columns] if isinstance(columns, Column) else columns
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"columns must be a list, not {type(given).__name__}")
        for column in cast("Sequence[Any]", given):
            if not isinstance(column, Column):
                raise TypeError(f"a schema is made of columns, not of {type(column).__name__}")
        made = cls()
        made._columns = list(given)
        return made

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self._columns]

    def __iter__(self) -> Iterator[Column]:
        yield from self._columns

    def __contains__(self, key: object) -> bool:
        return (key.name if isinstance(key, Column) else key) in self.column_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and other._columns == self._columns

    __hash__ = None  # type: ignore[assignment]

    def _select_columns(self, selection: str | list[str]) -> "Column | Schema":
        found = [self._columns[position] for position in self._positions(selection)]
        return found[0] if isinstance(selection, str) else self.from_columns(found)

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
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> "Schema":
        raise NotImplementedError("Schema.deserialize is not part of the stand-in")


_VALUE = "org.knime.core.data.v2.value."
_ROW_KEY = LogicalType(value_factory_json(_VALUE + "DefaultRowKeyValueFactory"), string())
_LIST = value_factory_json(_VALUE + "ListValueFactory")
_PRIMITIVES: list[tuple[KnimeType, str]] = [
    (int32(), "Int"),
    (int64(), "Long"),
    (string(), "String"),
    (bool_(), "Boolean"),
    (double(), "Double"),
]
#: The Java value factories of the types that need no value factory in Python.
PRIMITIVE_FACTORIES: dict[KnimeType, str] = {
    **{ktype: value_factory_json(f"{_VALUE}{name}ValueFactory") for ktype, name in _PRIMITIVES},
    **{list_(ktype): value_factory_json(f"{_VALUE}{name}ListValueFactory") for ktype, name in _PRIMITIVES},
    null(): value_factory_json(_VALUE + "VoidValueFactory"),
}
#: The column types by Java value factory.
KNOWN_PRIMITIVES = {factory: ktype for ktype, factory in PRIMITIVE_FACTORIES.items()}


def wrap_primitive(ktype: KnimeType) -> KnimeType:
    """The logical type of a primitive type or list on KNIME's Java side; other types unchanged."""
    if ktype in PRIMITIVE_FACTORIES:
        return LogicalType(PRIMITIVE_FACTORIES[ktype], ktype)
    if isinstance(ktype, ListType):
        return LogicalType(_LIST, list_(wrap_primitive(ktype.inner_type)))
    return ktype


_SPEC_NAMES: dict[KnimeType, str] = {ktype: name for name, ktype in SPECS.items()}


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
