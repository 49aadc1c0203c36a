"""JSON schemas of the tools' structured results."""

from __future__ import annotations

from typing import Any, Final

_Schema = dict[str, Any]


def _object(properties: _Schema, *required: str, description: str = "") -> _Schema:
    schema: _Schema = {"type": "object"} | ({"description": description} if description else {})
    schema["properties"] = properties
    return schema | ({"required": list(required)} if required else {})


def _array(items: _Schema, description: str = "") -> _Schema:
    return {"type": "array"} | ({"description": description} if description else {}) | {"items": items}


def _maybe(kind: str) -> _Schema:
    return {"type": [kind, "null"]}


def described(description: str, kind: str = "string") -> _Schema:
    """A schema with only a type and a description."""
    return {"type": kind, "description": description}


_TEXT: Final[_Schema] = {"type": "string"}
_FLAG: Final[_Schema] = {"type": "boolean"}
_TEXTS: Final = _array(_TEXT)
_LIST: Final[_Schema] = {"type": "array"}
_MAPPING: Final[_Schema] = {"type": "object"}
_WARNING: Final = described("What was corrected or left out")
_NEXT: Final = described("Call again with this as cursor to go on")
_TOTAL: Final = described("How many there are in all", "integer")
_CATALOGUE: Final = _object(
    {
        "version": described("Changes exactly when the catalogue's content does"),
        "built_at": described("UTC, ISO 8601"),
        "nodes": {"type": "integer"},
        "origin": described("What it was built from"),
    },
    *("version", "built_at", "nodes", "origin"),
    description="What this answer comes from",
)
_BRIEF: Final[_Schema] = {
    **dict.fromkeys(("node_type", "subtype", "id", "name", "description"), _TEXT),
    "deprecated": _FLAG,
    "successor": _maybe("string") | {"description": "The node to use instead"},
}
_PARAMETER: Final = _object(
    {
        "name": _TEXT,
        "type": _maybe("string"),
        "required": _FLAG,
        "default_value": {},
        "description": _TEXT,
        "enum_values": _maybe("array"),
        "validation_pattern": _maybe("string"),
    },
    "name",
)
_SETTING: Final = _object(
    {
        "type": _maybe("string"),
        "default": {},
        "description": _TEXT,
        "required": _FLAG,
        "min": {"type": "number"},
        "max": {"type": "number"},
        "options": _LIST,
        "enum_values": _LIST,
        "validation_pattern": _TEXT,
    }
)
_DATA_FORMAT: Final = {"mime_type": _TEXT, "schema": _maybe("string"), "examples": _LIST}
_PORT: Final = _object(
    {
        "name": _TEXT,
        "type": _TEXT,
        "required": _FLAG,
        "description": _TEXT,
        "max_connections": described("-1: any number", "integer"),
        "data_format": _maybe("object") | {"properties": _DATA_FORMAT},
        "validation_schema": _maybe("object"),
    },
    *("name", "type"),
)
_SCHEMA_MAP: Final[_Schema] = {"type": "object", "additionalProperties": _SETTING}
_DETAILS: Final[_Schema] = _BRIEF | {
    "version": _TEXT,
    "category": _TEXTS,
    "parameters": _array(_PARAMETER),
    **dict.fromkeys(("configurations", "input_params_schema", "output_params_schema"), _SCHEMA_MAP),
    **dict.fromkeys(("default_configurations", "default_input_params", "default_output_params"), _MAPPING),
    "input_ports": _array(_PORT),
    "output_ports": _array(_PORT),
    "tags": _TEXTS,
    "attached_nodes": _TEXTS | {"description": "Only for nodes that others are attached to"},
    "examples": _array(_MAPPING),
    "warning": _WARNING,
    "error": described("Why there is no such node"),
    "hint": _TEXT,
    "suggestions": _array(_object(_BRIEF)),
    "valid": _TEXTS | {"description": "The subtypes, or types, that there are"},
}


def _answer(properties: _Schema, *required: str) -> _Schema:
    return _object(properties | {"catalogue": _CATALOGUE}, *required, "catalogue")


TYPES_OUTPUT: Final[_Schema] = _object(
    {"_catalogue": _CATALOGUE, "_warning": _WARNING, "_total": _TOTAL, "_next_cursor": _NEXT},
    description="Subtypes by type. Keys that begin with _ are no types.",
) | {"patternProperties": {"^[^_]": _TEXTS}, "additionalProperties": False, "required": ["_catalogue"]}
DETAILS_OUTPUT: Final = _answer(
    {
        "nodes": _array(_object(_DETAILS, "node_type", "subtype"), "In the order they were asked for"),
        "warning": _WARNING,
    },
    "nodes",
)
_FIELD: Final = described("name, id, aliases, vocabulary, category, parameters or description")
_HIT: Final = _object(
    _DETAILS
    | {
        "relevance_score": {"type": "number"},
        "matched_field": _FIELD,
        "matched": _TEXTS | {"description": "What matched there"},
    },
    *("node_type", "subtype", "description", "relevance_score", "matched_field"),
)
_PAGE: Final = {"total": _TOTAL, "next_cursor": _NEXT, "warning": _WARNING, "hint": _TEXT}
SEARCH_OUTPUT: Final = _answer({"nodes": _array(_HIT, "The best first"), **_PAGE}, "nodes", "total")
_VIA: Final = _object({"output": _TEXT, "input": _TEXT, "type": _TEXT})
COMPATIBLE_OUTPUT: Final = _answer(
    {
        "node": _object(_BRIEF),
        "direction": {"enum": ["after", "before"]},
        "nodes": _array(_object(_BRIEF | {"via": _array(_VIA)}, "node_type", "subtype", "via")),
        **_PAGE,
    },
    *("node", "direction", "nodes", "total"),
)
_PROBLEM: Final = {"setting": _TEXT, "problem": _TEXT, "fix": _TEXT}
CHECK_OUTPUT: Final = _answer(
    {
        "node": _object(_BRIEF),
        "valid": _maybe("boolean") | {"description": "null: nothing can be described about it"},
        "problems": _array(_object(_PROBLEM, *_PROBLEM)),
        "notes": _TEXTS,
        "defaults": described("Settings that were not given, and what they are then", "object"),
        "warning": _WARNING,
    },
    *("node", "valid", "problems"),
)
