"""JSON schemas of what the tools answer."""

from __future__ import annotations

from typing import Any, Final

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_FLAG: Final[dict[str, Any]] = {"type": "boolean"}
_TEXTS: Final[dict[str, Any]] = {"type": "array", "items": _TEXT}
_MAPPING: Final[dict[str, Any]] = {"type": "object"}
_WARNING: Final = {"type": "string", "description": "What was corrected or left out"}
_NEXT: Final = {"type": "string", "description": "Call again with this as cursor to go on"}
_TOTAL: Final = {"type": "integer", "description": "How many there are in all"}
_CATALOGUE: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What this answer comes from",
    "properties": {
        "version": {"type": "string", "description": "Changes exactly when the catalogue's content does"},
        "built_at": {"type": "string", "description": "UTC, ISO 8601"},
        "nodes": {"type": "integer"},
        "origin": {"type": "string", "description": "What it was built from"},
    },
    "required": ["version", "built_at", "nodes", "origin"],
}
_BRIEF: Final[dict[str, Any]] = {
    "node_type": _TEXT,
    "subtype": _TEXT,
    "id": _TEXT,
    "name": _TEXT,
    "description": _TEXT,
    "deprecated": _FLAG,
    "successor": {"type": ["string", "null"], "description": "The node to use instead"},
}
_PARAMETER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "type": {"type": ["string", "null"]},
        "required": _FLAG,
        "default_value": {},
        "description": _TEXT,
        "enum_values": {"type": ["array", "null"]},
        "validation_pattern": {"type": ["string", "null"]},
    },
    "required": ["name"],
}
_SETTING: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "type": {"type": ["string", "null"]},
        "default": {},
        "description": _TEXT,
        "required": _FLAG,
        "min": {"type": "number"},
        "max": {"type": "number"},
        "options": {"type": "array"},
        "enum_values": {"type": "array"},
        "validation_pattern": _TEXT,
    },
}
_PORT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "type": _TEXT,
        "required": _FLAG,
        "description": _TEXT,
        "max_connections": {"type": "integer", "description": "-1: any number"},
        "data_format": {
            "type": ["object", "null"],
            "properties": {
                "mime_type": _TEXT,
                "schema": {"type": ["string", "null"]},
                "examples": {"type": "array"},
            },
        },
        "validation_schema": {"type": ["object", "null"]},
    },
    "required": ["name", "type"],
}
_SCHEMA_MAP: Final[dict[str, Any]] = {"type": "object", "additionalProperties": _SETTING}
_DETAILS: Final[dict[str, Any]] = _BRIEF | {
    "version": _TEXT,
    "category": _TEXTS,
    "parameters": {"type": "array", "items": _PARAMETER},
    "configurations": _SCHEMA_MAP,
    "input_params_schema": _SCHEMA_MAP,
    "output_params_schema": _SCHEMA_MAP,
    "default_configurations": _MAPPING,
    "default_input_params": _MAPPING,
    "default_output_params": _MAPPING,
    "input_ports": {"type": "array", "items": _PORT},
    "output_ports": {"type": "array", "items": _PORT},
    "tags": _TEXTS,
    "attached_nodes": _TEXTS | {"description": "Only for nodes that others are attached to"},
    "examples": {"type": "array", "items": _MAPPING},
    "warning": _WARNING,
    "error": {"type": "string", "description": "Why there is no such node"},
    "hint": _TEXT,
    "suggestions": {"type": "array", "items": {"type": "object", "properties": _BRIEF}},
    "valid": _TEXTS | {"description": "The subtypes, or types, that there are"},
}


def _answer(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties | {"catalogue": _CATALOGUE},
        "required": [*required, "catalogue"],
    }


TYPES_OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Subtypes by type. Keys that begin with _ are no types.",
    "properties": {
        "_catalogue": _CATALOGUE,
        "_warning": _WARNING,
        "_total": _TOTAL,
        "_next_cursor": _NEXT,
    },
    "patternProperties": {"^[^_]": _TEXTS},
    "additionalProperties": False,
    "required": ["_catalogue"],
}
DETAILS_OUTPUT: Final = _answer(
    {
        "nodes": {
            "type": "array",
            "description": "In the order they were asked for",
            "items": {"type": "object", "properties": _DETAILS, "required": ["node_type", "subtype"]},
        },
        "warning": _WARNING,
    },
    "nodes",
)
SEARCH_OUTPUT: Final = _answer(
    {
        "nodes": {
            "type": "array",
            "description": "The best first",
            "items": {
                "type": "object",
                "properties": _DETAILS
                | {
                    "relevance_score": {"type": "number"},
                    "matched_field": {
                        "type": "string",
                        "description": "name, id, aliases, vocabulary, category, parameters or description",
                    },
                    "matched": _TEXTS | {"description": "What matched there"},
                },
                "required": ["node_type", "subtype", "description", "relevance_score", "matched_field"],
            },
        },
        "total": _TOTAL,
        "next_cursor": _NEXT,
        "warning": _WARNING,
        "hint": _TEXT,
    },
    "nodes",
    "total",
)
COMPATIBLE_OUTPUT: Final = _answer(
    {
        "node": {"type": "object", "properties": _BRIEF},
        "direction": {"enum": ["after", "before"]},
        "nodes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": _BRIEF
                | {
                    "via": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"output": _TEXT, "input": _TEXT, "type": _TEXT},
                        },
                    }
                },
                "required": ["node_type", "subtype", "via"],
            },
        },
        "total": _TOTAL,
        "next_cursor": _NEXT,
        "warning": _WARNING,
        "hint": _TEXT,
    },
    "node",
    "direction",
    "nodes",
    "total",
)
CHECK_OUTPUT: Final = _answer(
    {
        "node": {"type": "object", "properties": _BRIEF},
        "valid": {"type": ["boolean", "null"], "description": "null: nothing can be said about it"},
        "problems": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"setting": _TEXT, "problem": _TEXT, "fix": _TEXT},
                "required": ["setting", "problem", "fix"],
            },
        },
        "notes": _TEXTS,
        "defaults": {"type": "object", "description": "Settings that were not given, and what they are then"},
        "warning": _WARNING,
    },
    "node",
    "valid",
    "problems",
)
