"""The types of columns: primitive, list, struct and logical ones (a Java value factory over a storage)."""

import functools
import json
from collections.abc import Iterable
from enum import Enum, unique
from typing import Any

from . import types as kt


class KnimeType:
    """Base of all column types."""

    def __init__(self) -> None:
        if type(self) is KnimeType:
            raise TypeError("KnimeType is abstract")

    def __repr__(self) -> str:
        return str(self)


@unique
class PrimitiveTypeId(Enum):
    """The primitive types by the name that people see."""

    INT = "Number (Integer)"
    LONG = "Number (Long Integer)"
    STRING = "String"
    DOUBLE = "Number (Float)"
    BOOL = "Boolean"
    BLOB = "blob"
    NULL = "null"


class PrimitiveType(KnimeType):
    """A primitive type; equal ones are equal and hash alike."""

    def __init__(self, type_id: PrimitiveTypeId) -> None:
        if not isinstance(type_id, PrimitiveTypeId):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{type_id!r} is no PrimitiveTypeId")
        self._type_id = type_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrimitiveType) and other._type_id is self._type_id

    def __hash__(self) -> int:
        return hash(self._type_id)

    def __str__(self) -> str:
        return self._type_id.value


class ListType(KnimeType):
    """A list whose elements have one type."""

    def __init__(self, inner_type: KnimeType) -> None:
        if not isinstance(inner_type, KnimeType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the elements of a list need a KnimeType, not {inner_type!r}")
        self._inner_type = inner_type

    @property
    def inner_type(self) -> KnimeType:
        """The type of the elements."""
        return self._inner_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListType) and other._inner_type == self._inner_type

    def __hash__(self) -> int:
        return hash(("list", self._inner_type))

    def __str__(self) -> str:
        return f"List (Collection of: {self._inner_type})"


class StructType(KnimeType):
    """A fixed number of fields; they have positions, no names."""

    def __init__(self, inner_types: Iterable[KnimeType]) -> None:
        self._inner_types = tuple(inner_types)
        for inner in self._inner_types:
            if not isinstance(inner, KnimeType):  # pyright: ignore[reportUnnecessaryIsInstance]
                # A value factory with a byte in its storage ends here: KNIME's Python API has no byte type.
                raise TypeError(f"the fields of a struct need a KnimeType, not {inner!r}")

    @property
    def inner_types(self) -> tuple[KnimeType, ...]:
        """The types of the fields."""
        return self._inner_types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructType) and other._inner_types == self._inner_types

    def __hash__(self) -> int:
        return hash(self._inner_types)

    def __str__(self) -> str:
        return f"struct<{', '.join(str(inner) for inner in self._inner_types)}>"


class LogicalType(KnimeType):
    """A meaning given to a storage: the JSON text that names a Java value factory, and the storage's type."""

    def __init__(self, logical_type: str, storage_type: KnimeType, proxy_type_converter: Any = None) -> None:
        self._logical_type = logical_type
        self._storage_type = storage_type
        self._proxy_type_converter = proxy_type_converter

    @property
    def logical_type(self) -> str:
        """JSON text with the key ``value_factory_class``."""
        return self._logical_type

    @property
    def storage_type(self) -> KnimeType:
        """How the values are stored."""
        return self._storage_type

    @property
    def value_type(self) -> str:
        """Module and name of the Python class of the values.

        Raises:
            ValueError: no value factory is registered for this type.
        """
        return kt.get_value_factory_bundle_for_java_value_factory(self._logical_type).python_type

    @property
    def proxy_type(self) -> type | None:
        """The alternative Python class that was asked for, if it is not the usual one."""
        return self._proxy_type_converter.compatible_type if self._proxy_type_converter else None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LogicalType)
            and other._logical_type == self._logical_type
            and other._storage_type == self._storage_type
            and other.proxy_type == self.proxy_type
        )

    def __hash__(self) -> int:
        return hash((self._logical_type, self._storage_type))

    def __str__(self) -> str:
        try:
            return kt.get_value_factory_bundle_for_java_value_factory(self._logical_type).data_type
        except ValueError:
            return f"extension<logical={self._logical_type}, storage={self._storage_type}>"

    def to_pyarrow(self) -> Any:
        """The Arrow extension type for columns of this type; it has ``encode`` and ``decode``.

        Raises:
            ValueError: no value factory is registered for this type.
        """
        from knime._arrow import logical_type_of

        bundle = kt.get_value_factory_bundle_for_java_value_factory(self._logical_type)
        return logical_type_of(bundle, self._proxy_type_converter)

    def to_pandas(self) -> Any:
        """Not part of the stand-in, which knows no pandas."""
        raise NotImplementedError("the stand-in has no pandas types; use to_pyarrow() and Table.from_pyarrow")

    @staticmethod
    def supported_value_types() -> str:
        """The Python classes for which value factories are registered, as text."""
        return "Registered value types: " + ", ".join(sorted(kt.get_python_type_list()))


@functools.cache
def int32() -> PrimitiveType:
    """Whole numbers of 32 bits."""
    return PrimitiveType(PrimitiveTypeId.INT)


@functools.cache
def int64() -> PrimitiveType:
    """Whole numbers of 64 bits."""
    return PrimitiveType(PrimitiveTypeId.LONG)


@functools.cache
def double() -> PrimitiveType:
    """Floating-point numbers of 64 bits."""
    return PrimitiveType(PrimitiveTypeId.DOUBLE)


@functools.cache
def bool_() -> PrimitiveType:
    """Booleans."""
    return PrimitiveType(PrimitiveTypeId.BOOL)


@functools.cache
def string(dict_encoding_key_type: Any = None) -> PrimitiveType:
    """Texts. Dictionary encoding is not part of the stand-in."""
    _no_dictionary(dict_encoding_key_type)
    return PrimitiveType(PrimitiveTypeId.STRING)


@functools.cache
def blob(dict_encoding_key_type: Any = None) -> PrimitiveType:
    """Bytes, as fields of logical types; KNIME has no columns of plain bytes."""
    _no_dictionary(dict_encoding_key_type)
    return PrimitiveType(PrimitiveTypeId.BLOB)


def _no_dictionary(key_type: Any) -> None:
    if key_type is not None:
        raise NotImplementedError("dictionary encoding is not part of the stand-in")


@functools.cache
def null() -> PrimitiveType:
    """A column in which every cell is missing."""
    return PrimitiveType(PrimitiveTypeId.NULL)


def list_(inner_type: KnimeType) -> ListType:
    """Lists of ``inner_type``."""
    return ListType(inner_type)


def struct(*inner_types: KnimeType) -> StructType:
    """Structs with fields of the given types."""
    return StructType(inner_types)


def logical(value_type: type) -> LogicalType:
    """The column type for values of a Python class.

    Raises:
        TypeError: no value factory is registered for the class (or it is no class).
    """
    try:
        proxy, original = kt.get_proxy_by_python_type(value_type)
    except KeyError:
        proxy, original = None, value_type
    try:
        bundle = kt.get_value_factory_bundle_for_python_type(original)
        found = _from_spec(bundle.data_spec_json)
    except Exception as error:
        raise TypeError(f"no value factory is registered for {value_type}: {error}", error) from error
    return LogicalType(bundle.logical_type, found, proxy)


_BY_SPEC = {
    "string": string,
    "int": int32,
    "long": int64,
    "double": double,
    "boolean": bool_,
    "variable_width_binary": blob,
    "void": null,
}


def _from_spec(spec: Any) -> KnimeType:
    """The type for a storage that is described as Java does it."""
    if isinstance(spec, str):
        found = _BY_SPEC.get(spec)
        return found() if found else None  # type: ignore[return-value]  # a struct refuses it: see StructType
    if spec["type"] == "list":
        return list_(_from_spec(spec["inner_type"]))
    return struct(*(_from_spec(inner) for inner in spec["inner_types"]))


def value_factory_json(class_name: str) -> str:
    """The text by which columns name a Java value factory."""
    return json.dumps({"value_factory_class": class_name}, separators=(",", ":"))


_TIME = "org.knime.core.data.v2.time."
_DATE_TIMES = {
    (True, True, False): (_TIME + "LocalDateTimeValueFactory", (int64, int64)),
    (True, True, True): (_TIME + "ZonedDateTimeValueFactory2", (int64, int64, int32, string)),
    (True, False, False): (_TIME + "LocalDateValueFactory", ()),
    (False, True, False): (_TIME + "LocalTimeValueFactory", ()),
    (False, True, True): (_TIME + "LocalTimeValueFactory", ()),  # as in KNIME: the zone is dropped
}


def datetime(date: bool = True, time: bool = True, timezone: bool = False) -> LogicalType:
    """The column type of local dates, times, dates with time, or zoned dates with time.

    Raises:
        ValueError: there is no such combination, or the date types are not registered.
    """
    if not date and not time:
        raise ValueError("a date-time column needs a date, a time or both")
    if timezone and not time:
        raise ValueError("only a column with a time can have a time zone")
    class_name, fields = _DATE_TIMES[(bool(date), bool(time), bool(timezone))]
    name = value_factory_json(class_name)
    kt.get_value_factory_bundle_for_java_value_factory(name)
    storage = struct(*(field() for field in fields)) if fields else int64()
    return LogicalType(name, storage)
