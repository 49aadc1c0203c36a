"""Converts parameters of Python nodes between their JSON form and KNIME's settings.

A Python node's parameters are one JSON document, ``{"model": {…}}``; a workflow stores them as settings.
There the node's schema determines the types of numbers, and markers (keys that end with ``_Internals``) keep
facts that the tree cannot express: that a value is an object, that a list is empty or null, and the version
of the extension that saved the parameters. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from .settings_xml import Config, EntryType, KnwfError, SettingsEntry, array_values, boolean, integer, string

MODEL: Final = "model"
VERSION_KEY: Final = "extension_version_Internals"
_KIND_KEY: Final = "json-type_Internals"
_NULL_KEY: Final = "null_Internals"
_MARKER_END: Final = "_Internals"
ENTRY_TYPES: Final[Mapping[str, EntryType]] = {
    "DOUBLE": "xdouble",
    "FLOAT": "xfloat",
    "INT": "xint",
    "LONG": "xlong",
    "BOOLEAN": "xboolean",
    "STRING": "xstring",
}
_ARRAY_END: Final = "_ARRAY"


def to_model(
    parameters: Mapping[str, Any], version: str, *, schema: Mapping[str, Any] | None = None
) -> Config:
    """Converts parameters to the ``model`` of a node's settings file.

    With the node's schema (that of its dialog), unknown keys are refused, because KNIME would silently drop
    them. Without it types follow the values: int becomes a 32 bit integer (64 bit if necessary), float a
    double. An empty list then counts as a list of groups, which is right for this extension's nodes; pass the
    schema for others. By ``version`` later versions of the extension know how to read the parameters.
    """
    values = _mapping(parameters.get(MODEL), "the parameters")
    properties = None if schema is None else _properties(_properties(schema).get(MODEL, {}))
    markers = (string(_KIND_KEY, "OBJECT"), string(VERSION_KEY, version))
    return Config(MODEL, (*_children(values, properties, ""), *markers))


def from_model(model: Config) -> tuple[dict[str, Any], str]:
    """The JSON document of settings, and the version of the extension that saved it, else "0.0.0"."""
    values = {child.key: _value(child) for child in model if not child.key.endswith(_MARKER_END)}
    # KNIME's Python side reads the absence of a version like this.
    return {MODEL: values}, model.text(VERSION_KEY, "0.0.0")


def is_json_model(model: Config) -> bool:
    """Returns whether settings are parameters of a Python node; those of Java nodes lack the marker."""
    return VERSION_KEY in model


def _children(
    values: Mapping[str, Any], properties: Mapping[str, Any] | None, path: str
) -> list[SettingsEntry | Config]:
    if properties is None:
        return [_setting(key, value, _kind_of(value), None, f"{path}{key}") for key, value in values.items()]
    unknown = sorted(values.keys() - properties.keys())
    if unknown:
        raise KnwfError(f"the node has no parameter {path}{unknown[0]}; it has: {', '.join(properties)}")
    return [
        _setting(key, values.get(key), _kind(schema, f"{path}{key}"), schema, f"{path}{key}")
        for key, schema in properties.items()
    ]


def _setting(
    key: str, value: Any, kind: str, schema: Mapping[str, Any] | None, path: str
) -> SettingsEntry | Config:
    if kind in ENTRY_TYPES:
        return _entry(key, value, kind, path)
    marker = string(_KIND_KEY, kind)
    if kind == "OBJECT":
        properties = None if schema is None else _properties(schema)
        return Config(key, (marker, *_children(_mapping(value, path), properties, f"{path}.")))
    if kind == "NULL":
        return Config(key, (marker,))
    items = None if value is None else _sequence(value, path)
    if kind.endswith(_ARRAY_END):
        # Only an empty array needs its marker: the elements of another one have types.
        if not items:
            return Config(key, (marker, integer("array-size", 0), boolean(_NULL_KEY, items is None)))
        element = kind.removesuffix(_ARRAY_END)
        entries = [_entry(str(i), item, element, f"{path}[{i}]") for i, item in enumerate(items)]
        return Config(key, (integer("array-size", len(entries)), *entries))
    if items is None:
        return Config(key, (boolean(_NULL_KEY, value=True),))
    item_schema = None if schema is None else _mapping(schema.get("items"), path)
    return Config(
        key,
        tuple(
            _setting(
                str(i),
                item,
                _kind_of(item) if item_schema is None else _kind(item_schema, path),
                item_schema,
                f"{path}[{i}]",
            )
            for i, item in enumerate(items)
        ),
    )


def _entry(key: str, value: Any, kind: str, path: str) -> SettingsEntry:
    match kind:
        case "STRING" if value is None or isinstance(value, str):
            fits = True
        case "BOOLEAN":
            fits = isinstance(value, bool)
        case "DOUBLE" | "FLOAT":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            value = float(value) if fits else value
        case "INT" | "LONG":
            fits = isinstance(value, int) and not isinstance(value, bool)
            if fits and not _fits(value, 32 if kind == "INT" else 64):
                raise KnwfError(f"parameter {path} is {value}, more than KNIME's {kind.lower()} can hold")
        case _:
            fits = False
    if not fits:
        raise KnwfError(f"parameter {path} is {value!r}, but its type is {kind.lower()}")
    return SettingsEntry(key, ENTRY_TYPES[kind], value)


def _fits(number: int, bits: int) -> bool:
    return -(1 << bits - 1) <= number < 1 << bits - 1


def _kind(schema: Mapping[str, Any], path: str) -> str:
    if "oneOf" in schema:
        return "STRING"
    if "anyOf" in schema:
        return "STRING_ARRAY"
    match schema.get("type"), schema.get("format"):
        case "array", _:
            element = _kind(_mapping(schema.get("items"), path), path)
            return element + _ARRAY_END if element in ENTRY_TYPES else "ARRAY"
        case "number", how:
            return "FLOAT" if how == "float" else "DOUBLE"
        case "integer", how:
            return "LONG" if how == "int64" else "INT"
        case ("string" | "boolean" | "object" | "null") as name, _:
            return name.upper()
        case name, _:
            raise KnwfError(f"the schema of parameter {path} has the type {name!r}, which KNIME cannot store")


def _kind_of(value: Any) -> str:
    """KNIME's kind of parameter for a value without a schema."""
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "INT" if _fits(value, 32) else "LONG"
        case float():
            return "DOUBLE"
        case Mapping():
            return "OBJECT"
        case list() | tuple():
            kinds = {_kind_of(item) for item in cast("Sequence[Any]", value)}
            for wide in ("LONG", "DOUBLE"):  # the type that holds all numbers of the list
                kinds = {wide} if wide in kinds and kinds <= {"INT", "LONG", wide} else kinds
            return kinds.pop() + _ARRAY_END if len(kinds) == 1 and kinds <= ENTRY_TYPES.keys() else "ARRAY"
        case _:
            return "STRING"


def _value(child: SettingsEntry | Config) -> Any:
    if isinstance(child, SettingsEntry):
        return child.value
    kind = child.text(_KIND_KEY)
    if child.value(_NULL_KEY) is True or kind == "NULL":
        return None
    if kind == "OBJECT":
        return {inner.key: _value(inner) for inner in child if not inner.key.endswith(_MARKER_END)}
    if kind.endswith(_ARRAY_END) or "array-size" in child:
        return array_values(child)
    items = {inner.key: inner for inner in child if not inner.key.endswith(_MARKER_END)}
    if items.keys() != {str(i) for i in range(len(items))}:
        raise KnwfError(f"{child.key!r} is neither an object nor a whole list: it has {', '.join(items)}")
    return [_value(items[str(i)]) for i in range(len(items))]


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(schema.get("properties"), "the schema")


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise KnwfError(f"{path} is {value!r}, but must be an object")
    return cast("Mapping[str, Any]", value)


def _sequence(value: Any, path: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise KnwfError(f"parameter {path} is {value!r}, but must be a list")
    return cast("Sequence[Any]", value)
