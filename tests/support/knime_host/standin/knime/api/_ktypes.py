"""The types of columns: primitive, list, struct and logical ones (a Java value factory over a storage)."""

import json
from collections.abc import Iterable
from enum import Enum, unique
from typing import Any, ClassVar

from . import types as kt
from ._absent import not_here


class KnimeType:
    def __init__(self) -> None:
        if type(self) is KnimeType:
            raise TypeError("KnimeType is abstract")

    def __repr__(self) -> str:
        return str(self)


@unique
class PrimitiveTypeId(Enum):
    """The primitive types, with the names that KNIME shows."""

    INT = "Number (Integer)"
    LONG = "Number (Long Integer)"
    STRING = "String"
    DOUBLE = "Number (Float)"
    BOOL = "Boolean"
    BLOB = "blob"
    NULL = "null"


class _OneOfAKind(type):
    """Metaclass that makes only one object of each primitive type."""

    _made: ClassVar[dict[Any, Any]] = {}

    def __call__(cls, dtype: Any) -> Any:
        if dtype not in cls._made:
            cls._made[dtype] = super().__call__(dtype)
        return cls._made[dtype]


class PrimitiveType(KnimeType, metaclass=_OneOfAKind):
    def __init__(self, type_id: PrimitiveTypeId) -> None:
        if not isinstance(type_id, PrimitiveTypeId):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{type_id!r} is not a PrimitiveTypeId")
        self._type_id = type_id

    def __str__(self) -> str:
        return self._type_id.value


class ListType(KnimeType):
    def __init__(self, inner_type: KnimeType) -> None:
        if not isinstance(inner_type, KnimeType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the elements of a list need a KnimeType, not {inner_type!r}")
        self._inner_type = inner_type

    @property
    def inner_type(self) -> KnimeType:
        return self._inner_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListType) and other._inner_type == self._inner_type

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"List (Collection of: {self._inner_type})"


class StructType(KnimeType):
    """A fixed number of fields, which have positions but no names."""

    def __init__(self, inner_types: Iterable[KnimeType]) -> None:
        for inner in inner_types:
            if not isinstance(inner, KnimeType):  # pyright: ignore[reportUnnecessaryIsInstance]
                # Value factories with a byte in their storage fail here: KNIME's Python API has no byte type.
                raise TypeError(f"the fields of a struct need a KnimeType, not {inner!r}")
        self._inner_types = inner_types

    @property
    def inner_types(self) -> Iterable[KnimeType]:
        return self._inner_types

    def __eq__(self, other: object) -> bool:
        # As in KNIME, surplus fields of the longer struct do not count.
        return isinstance(other, StructType) and all(
            own == others for own, others in zip(self._inner_types, other._inner_types, strict=False)
        )

    def __hash__(self) -> int:
        # The text has what `__eq__` compares, and more: two structs of other lengths can be equal and not
        # be found.
        return hash(str(self))

    def __str__(self) -> str:
        return f"struct<{', '.join(str(inner) for inner in self._inner_types)}>"


class LogicalType(KnimeType):
    """A storage type with a meaning, which is the JSON text with the name of a Java value factory."""

    def __init__(self, logical_type: str, storage_type: KnimeType) -> None:
        self._logical_type = logical_type
        self._storage_type = storage_type

    @property
    def logical_type(self) -> str:
        """JSON text with the key ``value_factory_class``."""
        return self._logical_type

    @property
    def storage_type(self) -> KnimeType:
        return self._storage_type

    @property
    def value_type(self) -> str:
        """Module and name of the Python class of the values."""
        return kt.get_value_factory_bundle_for_java_value_factory(self._logical_type).python_type

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LogicalType)
            and other._logical_type == self._logical_type
            and other._storage_type == self._storage_type
        )

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        try:
            bundle = kt.get_value_factory_bundle_for_java_value_factory(self._logical_type)
        except ValueError:
            return f"extension<logical={self._logical_type}, storage={self._storage_type}>"
        return bundle.data_type

    def to_pyarrow(self) -> Any:
        """The Arrow extension type for columns of this type; it has ``encode`` and ``decode``."""
        from knime._arrow import logical_type_of

        bundle = kt.get_value_factory_bundle_for_java_value_factory(self._logical_type)
        return logical_type_of(bundle)

    to_pandas = not_here("LogicalType.to_pandas")

    @staticmethod
    def supported_value_types() -> str:
        """The Python classes for which value factories are registered, as text."""
        return "Registered value types: " + ", ".join(sorted(kt.get_python_type_list()))


def int32() -> PrimitiveType:
    return PrimitiveType(PrimitiveTypeId.INT)


def int64() -> PrimitiveType:
    return PrimitiveType(PrimitiveTypeId.LONG)


def double() -> PrimitiveType:
    return PrimitiveType(PrimitiveTypeId.DOUBLE)


def bool_() -> PrimitiveType:
    return PrimitiveType(PrimitiveTypeId.BOOL)


def string(dict_encoding_key_type: None = None) -> PrimitiveType:
    _no_dictionary(dict_encoding_key_type)
    return PrimitiveType(PrimitiveTypeId.STRING)


def blob(dict_encoding_key_type: None = None) -> PrimitiveType:
    """The type of bytes in fields of logical types; KNIME has no columns of plain bytes."""
    _no_dictionary(dict_encoding_key_type)
    return PrimitiveType(PrimitiveTypeId.BLOB)


def _no_dictionary(key_type: object) -> None:
    if key_type is not None:
        raise NotImplementedError("a column with a dictionary is not part of the stand-in")


def null() -> PrimitiveType:
    """The type of columns in which every cell is missing."""
    return PrimitiveType(PrimitiveTypeId.NULL)


def list_(inner_type: KnimeType) -> ListType:
    """The type of lists of ``inner_type``."""
    return ListType(inner_type)


def struct(*inner_types: KnimeType) -> StructType:
    """The type of structs with fields of the given types."""
    return StructType(inner_types)


def logical(value_type: type) -> LogicalType:
    """The column type for values of a Python class."""
    try:
        bundle = kt.get_value_factory_bundle_for_python_type(value_type)
        return type_of(bundle.data_spec_json, bundle.data_traits)
    except Exception as error:
        raise TypeError(f"no value factory is registered for {value_type}: {error}", error) from error


#: The primitive types, by Java's names for how they are stored.
SPECS: dict[str, PrimitiveType] = {
    "string": string(),
    "int": int32(),
    "long": int64(),
    "double": double(),
    "boolean": bool_(),
    "variable_width_binary": blob(),
    "void": null(),
}


def type_of(spec: Any, traits: Any) -> Any:
    """The type for Java's description by storage and traits."""
    own = traits.get("traits", {})
    match traits["type"]:
        case "list":
            found: Any = list_(type_of(spec["inner_type"], traits["inner"]))
        case "struct":
            inner = zip(spec["inner_types"], traits["inner"], strict=True)
            found = struct(*(type_of(field, its_own) for field, its_own in inner))
        case _:
            found = SPECS.get(spec)  # None for a byte, which a struct refuses
    return LogicalType(own["logical_type"], found) if "logical_type" in own else found


def value_factory_json(class_name: str) -> str:
    """The JSON text with which columns refer to a Java value factory."""
    return json.dumps({"value_factory_class": class_name}, separators=(",", ":"))


_TIME = "org.knime.core.data.v2.time."
_DATE_TIMES = {
    (True, True, False): (_TIME + "LocalDateTimeValueFactory", (int64, int64)),
    (True, True, True): (_TIME + "ZonedDateTimeValueFactory2", (int64, int64, int32, string)),
    (True, False, False): (_TIME + "LocalDateValueFactory", ()),
    (False, True, False): (_TIME + "LocalTimeValueFactory", ()),
    (False, True, True): (_TIME + "LocalTimeValueFactory", ()),  # as in KNIME, which drops the zone
}


def datetime(date: bool = True, time: bool = True, timezone: bool = False) -> LogicalType:
    """The column type of local dates, times, dates with time, or zoned dates with time."""
    if not date and not time:
        raise ValueError("a date-time column needs a date, a time or both")
    if timezone and not time:
        raise ValueError("only a column with a time can have a time zone")
    class_name, fields = _DATE_TIMES[(bool(date), bool(time), bool(timezone))]
    name = value_factory_json(class_name)
    # Only to fail early, as in KNIME, where the extension with the types of dates may be missing.
    kt.get_value_factory_bundle_for_java_value_factory(name)
    storage = struct(*(field() for field in fields)) if fields else int64()
    return LogicalType(name, storage)
