"""A node's parameters in KNIME's settings.xml, by KNIME's own rules: JSON in, XML out, and back.

Written beside `knime_mcp.knwf` and without it, so that each can be held against the other.
"""

import re
import xml.etree.ElementTree as ET

from .java_side import RigError

_ENTRIES = {
    "DOUBLE": "xdouble",
    "FLOAT": "xfloat",
    "INT": "xint",
    "LONG": "xlong",
    "BOOLEAN": "xboolean",
    "STRING": "xstring",
}
_VALUES = {
    "xint": int,
    "xlong": int,
    "xdouble": float,
    "xfloat": float,
    "xboolean": lambda text: text == "true",
}


def escape(text):
    """Control characters, everything above U+D7FF and the first % of two become ``%%`` and five digits."""
    data = text.encode("utf-16-le")
    units = [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]
    return "".join(
        f"%%{unit:05d}"
        if unit < 32 or unit > 0xD7FF or (unit == 37 and units[i + 1 : i + 2] == [37])
        else chr(unit)
        for i, unit in enumerate(units)
    )


def unescape(text):
    units = re.sub(r"%%(\d{5})", lambda found: chr(int(found.group(1))), text)
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _put_entry(parent, key, entry_type, value):
    attributes = {"key": key, "type": entry_type}
    if value is None:
        attributes["isnull"] = "true"
    texts = {None: "", True: "true", False: "false"}
    is_word = value is None or isinstance(value, bool)
    ET.SubElement(parent, "entry", {**attributes, "value": texts[value] if is_word else escape(str(value))})


def _kind(schema):
    if "oneOf" in schema:
        return "STRING"
    if "anyOf" in schema:
        return "STRING_ARRAY"
    match schema["type"], schema.get("format"):
        case "array", _:
            element = _kind(schema["items"])
            return f"{element}_ARRAY" if element in _ENTRIES else "ARRAY"
        case "number", how:
            return "FLOAT" if how == "float" else "DOUBLE"
        case "integer", how:
            return "LONG" if how == "int64" else "INT"
        case name, _:
            return name.upper()


def _put(parent, key, value, schema):
    kind = _kind(schema)
    if kind in _ENTRIES:
        if value is None and kind != "STRING":
            raise RigError(f"null for {kind} parameter {key!r}: IllegalArgumentException in KNIME")
        _put_entry(parent, key, _ENTRIES[kind], value)
        return
    config = ET.SubElement(parent, "config", {"key": key})
    if kind == "OBJECT":
        _put_entry(config, "json-type_Internals", "xstring", "OBJECT")
        for name, own in schema.get("properties", {}).items():
            _put(config, name, (value or {}).get(name), own)
    elif kind.endswith("_ARRAY") and not value:
        _put_entry(config, "json-type_Internals", "xstring", kind)
        _put_entry(config, "array-size", "xint", 0)
        _put_entry(config, "null_Internals", "xboolean", value is None)
    elif kind.endswith("_ARRAY"):
        _put_entry(config, "array-size", "xint", len(value))
        for i, entry in enumerate(value):
            _put_entry(config, str(i), _ENTRIES[kind.removesuffix("_ARRAY")], entry)
    elif kind == "ARRAY" and value is None:
        _put_entry(config, "null_Internals", "xboolean", True)
    elif kind == "ARRAY":
        for i, entry in enumerate(value):
            _put(config, str(i), entry, schema["items"])
    else:
        _put_entry(config, "json-type_Internals", "xstring", kind)


def to_settings_xml(parameters, schema, version):
    """The element ``<config key="model">`` of a node's settings.xml, as text."""
    model = ET.Element("config", {"key": "model"})
    for name, own in schema["properties"]["model"].get("properties", {}).items():
        _put(model, name, parameters["model"].get(name), own)
    _put_entry(model, "json-type_Internals", "xstring", "OBJECT")
    _put_entry(model, "extension_version_Internals", "xstring", version)
    ET.indent(model, "    ")
    return ET.tostring(model, encoding="unicode")


def local_name(element):
    return element.tag.rpartition("}")[2]


def entry_value(entry):
    if entry.get("isnull") == "true":
        return None
    return _VALUES.get(entry.get("type"), str)(unescape(entry.get("value")))


def by_key(element):
    return {child.get("key"): child for child in element}


def _json_value(element):
    if local_name(element) == "entry":
        return entry_value(element)
    children = by_key(element)
    kind = entry_value(children["json-type_Internals"]) if "json-type_Internals" in children else ""
    is_null = "null_Internals" in children and entry_value(children["null_Internals"])
    if is_null or kind == "NULL":
        return None
    if kind == "OBJECT":
        return {name: _json_value(own) for name, own in children.items() if not name.endswith("_Internals")}
    if kind.endswith("_ARRAY") or "array-size" in children:
        return [entry_value(children[str(i)]) for i in range(entry_value(children["array-size"]))]
    return [_json_value(children[str(i)]) for i in range(len(children))]


def from_settings_xml(model):
    """The parameters' JSON, ``{"model": {…}}``, and the version that saved it; a model is text or element."""
    element = ET.fromstring(model) if isinstance(model, str) else model
    children = by_key(element)
    values = {name: _json_value(own) for name, own in children.items() if not name.endswith("_Internals")}
    version = children.get("extension_version_Internals")
    return {"model": values}, "0.0.0" if version is None else entry_value(version)
