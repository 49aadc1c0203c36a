"""KNIME's column types: their Java value factories, storage, names, and Python value factories.

On KNIME's Java side the class name of a value factory identifies the type of a column. This module has the
types that occur in this project's tables. As in KNIME, their Python value factories are registered before an
extension is loaded.
"""

import json
from dataclasses import dataclass
from typing import Any

from knime_mcp.types.columns import java_factory

_DATA = "org.knime.core.data."
_VALUE = _DATA + "v2.value."
_TIME = _DATA + "v2.time."


def _struct(*inner: Any) -> dict[str, Any]:
    return {"type": "struct", "inner_types": list(inner)}


def _list(inner: Any) -> dict[str, Any]:
    return {"type": "list", "inner_type": inner}


@dataclass(frozen=True, slots=True)
class JavaType:
    """A Java value factory."""

    storage: Any  # the DataSpec as JSON; None if several are possible
    shown: str  # the name of the type in KNIME
    preferred: str  # the Java class of the values
    #: module, class and value class of the Python value factory, if the type needs one.
    python: tuple[str, str, str] | None = None


_BUILTIN = "knime.types.builtin"
_PORT = _struct("string", "string", "string", "string")
_TOOL = _struct("string", _struct("string", "string", "string", _list(_PORT), _list(_PORT), "int"))
_MESSAGE = _struct(
    "string",
    _list(_struct("string", "variable_width_binary")),
    _list(_struct("string", "string", "string")),
    "string",
    "string",
)
_LISTS = _DATA + "collection.ListDataValue"

_PRIMITIVES = {
    "Int": ("int", "Number (Integer)"),
    "Long": ("long", "Number (Long)"),
    "Double": ("double", "Number (Float)"),
    "String": ("string", "String"),
    "Boolean": ("boolean", "Boolean"),
}

JAVA_TYPES: dict[str, JavaType] = {
    _VALUE + "DefaultRowKeyValueFactory": JavaType("string", "RowID", _DATA + "StringValue"),
    _VALUE + "VoidValueFactory": JavaType(None, "?", _DATA + "DataValue"),
    _VALUE + "ListValueFactory": JavaType(None, "List", _LISTS),
    **{
        f"{_VALUE}{name}ValueFactory": JavaType(spec, shown, f"{_DATA}{name}Value")
        for name, (spec, shown) in _PRIMITIVES.items()
    },
    **{
        f"{_VALUE}{name}ListValueFactory": JavaType(_list(spec), "List", _LISTS)
        for name, (spec, _) in _PRIMITIVES.items()
    },
    _TIME + "LocalDateValueFactory": JavaType(
        "long",
        "Local Date",
        _DATA + "time.localdate.LocalDateValue",
        (_BUILTIN, "LocalDateValueFactory", "datetime.date"),
    ),
    _TIME + "LocalTimeValueFactory": JavaType(
        "long",
        "Local Time",
        _DATA + "time.localtime.LocalTimeValue",
        (_BUILTIN, "LocalTimeValueFactory", "datetime.time"),
    ),
    # Registered before the zoned type: both have the same Python class, for which the later type is found.
    _TIME + "LocalDateTimeValueFactory": JavaType(
        _struct("long", "long"),
        "Local Date Time",
        _DATA + "time.localdatetime.LocalDateTimeValue",
        (_BUILTIN, "LocalDateTimeValueFactory", "datetime.datetime"),
    ),
    _TIME + "ZonedDateTimeValueFactory2": JavaType(
        _struct("long", "long", "int", "string"),
        "Zoned Date Time",
        _DATA + "time.zoneddatetime.ZonedDateTimeValue",
        (_BUILTIN, "ZonedDateTimeValueFactory2", "datetime.datetime"),
    ),
    _TIME + "DurationValueFactory": JavaType(
        _struct("long", "int"),
        "Duration",
        _DATA + "time.duration.DurationValue",
        (_BUILTIN, "DurationValueFactory", "datetime.timedelta"),
    ),
    _TIME + "PeriodValueFactory": JavaType(
        _struct("int", "int", "int"), "Period", _DATA + "time.period.PeriodValue"
    ),
    _DATA + "image.png.PNGImageValueFactory": JavaType(
        _struct("string", "variable_width_binary"),
        "PNG Image",
        _DATA + "image.png.PNGImageValue",
        (_BUILTIN, "PNGImageValueFactory", "PIL.Image.Image"),
    ),
    _DATA + "json.JSONValueFactory": JavaType(
        _struct("string", "variable_width_binary"),
        "JSON",
        _DATA + "json.JSONValue",
        ("knime.types.json", "JsonValueFactory", "builtins.dict"),
    ),
    "org.knime.filehandling.core.data.location.FSLocationValueFactory": JavaType(
        _struct("string", "string", "string"),
        "Path",
        "org.knime.filehandling.core.data.location.FSLocationValue",
        (_BUILTIN, "FSLocationValueFactory", "knime.types.builtin.FSLocationValue"),
    ),
    "org.knime.core.node.agentic.tool.WorkflowToolValueFactory": JavaType(
        _TOOL,
        "WorkflowTool",
        "org.knime.core.node.agentic.tool.ToolValue",
        ("knime.types.tool", "WorkflowToolValueFactory", "knime.types.tool.WorkflowTool"),
    ),
    "org.knime.ai.core.data.message.MessageValueFactory": JavaType(
        _MESSAGE,
        "Message",
        "org.knime.ai.core.data.message.MessageValue",
        ("knime.types.message", "MessageValueFactory", "knime.types.message.MessageValue"),
    ),
}

#: The preferred value class of cells that can be executed as tools.
TOOL_VALUE = "org.knime.core.node.agentic.tool.ToolValue"


def register_all() -> None:
    """Registers the Python value factories of KNIME's own types."""
    from knime.api import types as kt
    from knime.api.schema import value_factory_json

    for java_class, known in JAVA_TYPES.items():
        if known.python is not None:
            module, factory, value_type = known.python
            traits = _traits(known.storage)
            traits["traits"] = {"logical_type": value_factory_json(java_class)}
            kt.register_python_value_factory(
                module, factory, known.shown, json.dumps(known.storage), json.dumps(traits), value_type
            )


def _traits(storage: Any) -> dict[str, Any]:
    if isinstance(storage, str):
        return {"type": "simple", "traits": {}}
    if storage["type"] == "list":
        return {"type": "list", "traits": {}, "inner": _traits(storage["inner_type"])}
    return {"type": "struct", "traits": {}, "inner": [_traits(inner) for inner in storage["inner_types"]]}


def factory_of(kind: Any) -> str:
    """The Java value factory in a type's ``logical_type``; the type as text if it has none."""
    return java_factory(kind) or str(kind)


def java_type(kind: Any) -> JavaType | None:
    """The Java type of a column type; None if KNIME does not have it and no value factory is registered.

    Registered types count as known even if KNIME does not have them, as only this process reads them.
    """
    from knime.api import types as kt

    class_name = factory_of(kind)
    if class_name in JAVA_TYPES:
        return JAVA_TYPES[class_name]
    try:
        bundle = kt.get_value_factory_bundle_for_java_value_factory(kind.logical_type)
    except (AttributeError, ValueError):
        return None
    return JavaType(bundle.data_spec_json, bundle.data_type, class_name)
