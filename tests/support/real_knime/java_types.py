"""Java's value factories: by class, the storage that each wants (None: any), what its cells are called, and
the value class by which dialogs filter columns."""

import json


def struct(*inner):
    return {"type": "struct", "inner_types": list(inner)}


def list_of(inner):
    return {"type": "list", "inner_type": inner}


_DATA = "org.knime.core.data."
_VALUE = _DATA + "v2.value."
_TIME = _DATA + "v2.time."
_TOOL = "org.knime.core.node.agentic.tool."
_PORT = struct("string", "string", "string", "string")  # name, description, type, spec
_LIST = _DATA + "collection.ListDataValue"
_PRIMITIVES = {
    "Int": ("int", "Number (Integer)"),
    "Long": ("long", "Number (Long)"),
    "Double": ("double", "Number (Float)"),
    "String": ("string", "String"),
    "Boolean": ("boolean", "Boolean"),
}
JAVA_VALUE_FACTORIES = {
    _VALUE + "DefaultRowKeyValueFactory": ("string", "RowID", _DATA + "StringValue"),
    # Python stores void as texts, because of a bug of pyarrow.
    _VALUE + "VoidValueFactory": (None, "?", _DATA + "DataValue"),
    _VALUE + "ListValueFactory": (None, "List", _LIST),
    _VALUE + "SetValueFactory": (None, "Set", _DATA + "collection.SetDataValue"),
    # All cells without a factory of their own, such as XML; the class is in the logical type.
    _VALUE + "cell.DictEncodedDataCellValueFactory": (None, "?", _DATA + "DataValue"),
    **{
        f"{_VALUE}{name}ValueFactory": (spec, shown, f"{_DATA}{name}Value")
        for name, (spec, shown) in _PRIMITIVES.items()
    },
    **{
        f"{_VALUE}{name}ListValueFactory": (list_of(spec), "List", _LIST)
        for name, (spec, _) in _PRIMITIVES.items()
    },
    _TIME + "LocalDateValueFactory": ("long", "Local Date", _DATA + "time.localdate.LocalDateValue"),
    _TIME + "LocalTimeValueFactory": ("long", "Local Time", _DATA + "time.localtime.LocalTimeValue"),
    _TIME + "LocalDateTimeValueFactory": (
        struct("long", "long"),
        "Local Date Time",
        _DATA + "time.localdatetime.LocalDateTimeValue",
    ),
    _TIME + "ZonedDateTimeValueFactory2": (
        struct("long", "long", "int", "string"),
        "Zoned Date Time",
        _DATA + "time.zoneddatetime.ZonedDateTimeValue",
    ),
    _TIME + "DurationValueFactory": (
        struct("long", "int"),
        "Duration",
        _DATA + "time.duration.DurationValue",
    ),
    _TIME + "PeriodValueFactory": (struct("int", "int", "int"), "Period", _DATA + "time.period.PeriodValue"),
    _VALUE + "BooleanSetValueFactory": (
        struct("boolean", "boolean", "boolean"),
        "BooleanSet",
        _VALUE + "BooleanSetValueFactory",
    ),
    **{
        f"{_VALUE}Dense{kind}VectorValueFactory": (
            "variable_width_binary",
            f"{kind} vector",
            f"{_DATA}vector.{kind.lower()}vector.{kind}VectorValue",
        )
        for kind in ("Bit", "Byte")
    },
    _DATA + "xml.XMLValueFactory": (
        struct("string", "variable_width_binary"),
        "XML",
        _DATA + "xml.XMLValue",
    ),
    "org.knime.filehandling.core.data.location.FSLocationValueFactory": (
        struct("string", "string", "string"),
        "Path",
        "org.knime.filehandling.core.data.location.FSLocationValue",
    ),
    _DATA + "image.png.PNGImageValueFactory": (
        struct("string", "variable_width_binary"),
        "PNG Image",
        _DATA + "image.png.PNGImageValue",
    ),
    _DATA + "json.JSONValueFactory": (
        struct("string", "variable_width_binary"),
        "JSON",
        _DATA + "json.JSONValue",
    ),
    _TOOL + "WorkflowToolValueFactory": (
        struct("string", struct("string", "string", "string", list_of(_PORT), list_of(_PORT), "int")),
        "WorkflowTool",
        _TOOL + "ToolValue",
    ),
    "org.knime.ai.core.data.message.MessageValueFactory": (
        struct(
            "string",
            list_of(struct("string", "variable_width_binary")),
            list_of(struct("string", "string", "string")),
            "string",
            "string",
        ),
        "Message",
        "org.knime.ai.core.data.message.MessageValue",
    ),
}
#: KNIME's prototype of a tool type, on the branch mcp-tools only: class, and its entry above.
PROTOTYPE_TOOL = (
    _TOOL + "ToolValueFactory",
    (
        struct(
            "string",
            struct(
                "int",
                "string",
                "string",
                "string",
                list_of(_PORT),
                list_of(_PORT),
                "int",
                "string",
                "string",
                "string",
            ),
        ),
        "Tool",
        _TOOL + "ToolValue",
    ),
)


def logical_type_json(java_class):
    return json.dumps({"value_factory_class": java_class}, separators=(",", ":"))


def traits_of(spec, logical_type=None):
    """The traits that Java sends for a value factory without dictionary encoding."""
    own = {"logical_type": logical_type} if logical_type else {}
    if isinstance(spec, str):
        return {"type": "simple", "traits": own}
    if spec["type"] == "list":
        return {"type": "list", "traits": own, "inner": traits_of(spec["inner_type"])}
    return {"type": "struct", "traits": own, "inner": [traits_of(inner) for inner in spec["inner_types"]]}


def factory_class(traits):
    """The value factory that a column's traits name, if they name one."""
    logical_type = traits.get("traits", {}).get("logical_type")
    if not logical_type or not logical_type.startswith("{"):
        return None
    return json.loads(logical_type)["value_factory_class"]


def column_metadata(traits):
    """What Java adds to the metadata of an input column."""
    java_class = factory_class(traits)
    if java_class not in JAVA_VALUE_FACTORIES:
        raise RuntimeError(f"Java: Unknown ValueFactory class '{java_class}'")
    _, name, preferred = JAVA_VALUE_FACTORIES[java_class]
    return {"preferred_value_type": preferred, "displayed_column_type": name}
