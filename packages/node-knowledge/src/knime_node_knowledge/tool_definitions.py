"""The definitions of the tools: the three of the design documents, and four more.

They do not depend on the catalogue, so pinned definitions stay valid when a catalogue is rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .node_details import MINIMAL_TOKENS, MOST_TOKENS, STANDARD_TOKENS, DetailLevel
from .node_model import ENGINE_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping


_Schema = dict[str, Any]

_TEXT: Final[_Schema] = {"type": "string"}
_FLAG: Final[_Schema] = {"type": "boolean"}
_LIST: Final[_Schema] = {"type": "array"}
_MAPPING: Final[_Schema] = {"type": "object"}
_PROBLEM: Final = {"setting": _TEXT, "problem": _TEXT, "fix": _TEXT}
TOOLS_VERSION: Final = "1.0.0"
MOST_RESULTS: Final = 100
DEFAULT_RESULTS: Final = 10
MOST_NODES: Final = 100
MOST_SUBTYPES: Final = 5_000
DEFAULT_SUBTYPES: Final = 500
_HUMAN: Final = (
    "❌ ANTI-PATTERN: HIL → AI_AGENT → IF. ✅ CORRECT: a single HUMAN_IN_THE_LOOP node, which analyses the"
    " response itself and has an output for each outcome."
)
INSTRUCTIONS: Final = (
    "Knows which workflow nodes exist and how they are configured: the KNIME installation, facts and spec"
    " packs that its catalogue was built from; every answer names the catalogue. Use search_nodes to find a"
    " node, get_node_details for its ports and settings, find_compatible for what can follow it,"
    " and check_configuration before using settings. check_workflow checks a whole"
    " workflow. A HUMAN_IN_THE_LOOP node analyses the response itself."
)


def _object(properties: _Schema, *required: str, description: str = "") -> _Schema:
    schema: _Schema = {"type": "object"} | ({"description": description} if description else {})
    schema["properties"] = properties
    return schema | ({"required": list(required)} if required else {})


def _array(items: _Schema, description: str = "") -> _Schema:
    return {"type": "array"} | ({"description": description} if description else {}) | {"items": items}


def _maybe(kind: str) -> _Schema:
    return {"type": [kind, "null"]}


def described(description: str, kind: str = "string") -> _Schema:
    return {"type": kind, "description": description}


_TEXTS: Final = _array(_TEXT)
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
        "next_cursor": _NEXT,
        "warning": _WARNING,
    },
    "nodes",
)
_FIELD: Final = described("name, id, aliases, phrase, vocabulary, category, parameters or description")
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
CHECK_OUTPUT: Final = _answer(
    {
        "node": _object(_BRIEF),
        "valid": _maybe("boolean")
        | {"description": "null: nothing wrong was found, but not everything could be judged"},
        "problems": _array(_object(_PROBLEM, *_PROBLEM)),
        "notes": _TEXTS,
        "defaults": described("Settings that were not given, and what they are then", "object"),
        "warning": _WARNING,
    },
    *("node", "valid", "problems"),
)
_FINDING: Final = {
    "severity": {"enum": ["error", "warning"]},
    "where": described("A node, a connection, or workflow"),
    "setting": described("The key, if it is about one"),
    "problem": _TEXT,
    "fix": _TEXT,
}
_COUNT: Final[_Schema] = {"type": "integer"}
WORKFLOW_OUTPUT: Final = _answer(
    {
        "valid": _maybe("boolean")
        | {"description": "null: nothing wrong was found, but not everything could be judged"},
        "problems": _array(_object(_FINDING, "severity", "where", "problem", "fix"), "Errors come first"),
        "judged": _object(dict.fromkeys(("nodes", "settings", "connections"), _COUNT)),
        "not_judged": _array(_object({"where": _TEXT, "why": _TEXT}, "where", "why")),
        "notes": _TEXTS,
        "warning": _WARNING,
    },
    *("valid", "problems", "judged", "not_judged"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeTool:
    name: str
    title: str
    description: str
    parameters: Mapping[str, Any]
    # of the structured result; empty if there is none
    output_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    category: str = "workflow"
    tags: tuple[str, ...]
    workflow_guidance: str
    usage_examples: tuple[Mapping[str, Any], ...]
    version: str = TOOLS_VERSION


_CURSOR: Final = described("Where to go on: the next_cursor of the answer before. Leave it out to begin.")
_DETAIL: Final = {
    "type": "string",
    "enum": [level.value for level in DetailLevel],
    "description": (
        f"How much per node: minimal (at most {MINIMAL_TOKENS} tokens), standard (at most {STANDARD_TOKENS}:"
        " settings and ports in short) or full (everything)"
    ),
}
_REFERENCE: Final = {
    "type": "object",
    "properties": {
        "node_type": described("Such as TRIGGER"),
        "subtype": described("Such as WEBHOOK"),
        "id": described("Instead of both: the node's id or its exact name"),
    },
    "additionalProperties": False,
    "anyOf": [{"required": ["node_type", "subtype"]}, {"required": ["id"]}],
}
_NODE: Final = {
    "anyOf": [described("The node's id, its exact name, or TYPE.SUBTYPE"), _REFERENCE],
    "description": "The node",
}


def _arguments(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return _object(dict(properties), *required) | {"additionalProperties": False}


def _count(what: str, default: int = DEFAULT_RESULTS, most: int = MOST_RESULTS) -> dict[str, Any]:
    return {"type": "integer", "default": default, "minimum": 1, "maximum": most, "description": what}


def _flag(what: str, *, default: bool) -> dict[str, Any]:
    return {"type": "boolean", "default": default, "description": what}


GET_NODE_TYPES: Final = KnowledgeTool(
    name="get_node_types",
    title="Node types",
    description=(
        "Get all available workflow node types and their subtypes. Important: HUMAN_IN_THE_LOOP nodes"
        " analyse the response with AI themselves; do not add IF or AI_AGENT nodes to classify what a person"
        " answered. For thousands of nodes use search_nodes instead."
    ),
    parameters=_arguments(
        {
            "type_filter": {
                "type": "string",
                "anyOf": [
                    {"enum": list(ENGINE_TYPES)},
                    {
                        "pattern": "^[A-Za-z][A-Za-z0-9_ ]*$",
                        "description": "Another type of this catalogue, such as MANIPULATOR for KNIME's"
                        " nodes, or an old name such as ACTION_NODE, which is answered with a warning",
                    },
                ],
                "description": "Filter by node type (optional)",
            },
            "max_results": _count("How many subtypes in one answer", DEFAULT_SUBTYPES, MOST_SUBTYPES),
            "cursor": _CURSOR,
        }
    ),
    output_schema=TYPES_OUTPUT,
    tags=("nodes", "workflow", "specifications"),
    workflow_guidance=_HUMAN,
    usage_examples=({}, {"type_filter": "ACTION"}),
)

GET_NODE_DETAILS: Final = KnowledgeTool(
    name="get_node_details",
    title="Node details",
    description=(
        "Get detailed specifications for workflow nodes: parameters, configurations, ports, defaults,"
        " examples. HUMAN_IN_THE_LOOP nodes include the analysis of the response, with outputs confirmed,"
        " rejected, unrelated and timeout, so no separate IF or AI_AGENT nodes are needed. Slips in type or"
        " subtype are corrected with a warning; a node that does not exist comes back with an error and what"
        " was probably meant, the others are answered."
    ),
    parameters=_arguments(
        {
            "nodes": {
                "type": "array",
                "items": _NODE,
                "minItems": 1,
                "maxItems": MOST_NODES,
                "description": "List of nodes to get details for",
            },
            "include_examples": _flag("Include usage examples", default=True),
            "include_schemas": _flag("Include input/output schemas", default=True),
            "detail": _DETAIL | {"default": DetailLevel.FULL.value},
            "max_tokens": _count("The longest answer; more nodes come in short", MOST_TOKENS, 200_000),
            "cursor": _CURSOR,
        },
        "nodes",
    ),
    output_schema=DETAILS_OUTPUT,
    tags=("nodes", "specifications", "details"),
    workflow_guidance=_HUMAN,
    usage_examples=(
        {"nodes": [{"node_type": "AI_AGENT", "subtype": "OPENAI_CHATGPT"}]},
        {"nodes": ["Joiner"], "detail": "standard"},
    ),
)

SEARCH_NODES: Final = KnowledgeTool(
    name="search_nodes",
    title="Search nodes",
    description=(
        "Search workflow nodes by functionality, description, or capabilities, also by what it is called in"
        " Excel, SQL, pandas, Alteryx or n8n. The node with exactly that name or id comes first; each result"
        " says what matched."
    ),
    parameters=_arguments(
        {
            "query": described("Search query (e.g., 'HTTP request', 'send email', 'VLOOKUP')"),
            "max_results": _count("Maximum number of results to return"),
            "include_details": _flag("Include full node specifications in results", default=False),
            "detail": _DETAIL,
            "node_type": described("Only nodes of this type"),
            "cursor": _CURSOR,
        },
        "query",
    ),
    output_schema=SEARCH_OUTPUT,
    tags=("search", "nodes", "discovery"),
    workflow_guidance="Search first, then get_node_details for the node that fits, then check_configuration.",
    usage_examples=({"query": "send email notification", "max_results": 5}, {"query": "VLOOKUP"}),
)

FIND_COMPATIBLE: Final = KnowledgeTool(
    name="find_compatible",
    title="What can be connected",
    description=(
        "Find the nodes that can follow a node, or one of its output ports, by the type of data; with"
        " direction 'before', the nodes that can come before it. Give a query to find those that also do"
        " something."
    ),
    parameters=_arguments(
        {
            "node": _NODE,
            "port": {
                "type": ["string", "integer"],
                "description": "Name or number (from 0) of one port; all ports if left out",
            },
            "direction": {
                "type": "string",
                "enum": ["after", "before"],
                "default": "after",
                "description": "What can follow, or what can come before",
            },
            "query": described("Only nodes that this finds, the best first"),
            "max_results": _count("Maximum number of nodes to return"),
            "cursor": _CURSOR,
        },
        "node",
    ),
    output_schema=COMPATIBLE_OUTPUT,
    tags=("nodes", "ports", "compatibility"),
    workflow_guidance="Use it to choose the next node of a workflow, then get_node_details for its settings.",
    usage_examples=({"node": "CSV Reader", "query": "filter rows"}, {"node": "TRIGGER.WEBHOOK"}),
)

CHECK_CONFIGURATION: Final = KnowledgeTool(
    name="check_configuration",
    title="Check a configuration",
    description=(
        "Check a node's settings before they are used: keys that do not exist, missing or wrong values,"
        " ranges. Only what is certainly wrong is reported; valid is null where nothing can be described."
    ),
    parameters=_arguments(
        {"node": _NODE, "settings": described("Values by key, as in default_configurations", "object")},
        "node",
        "settings",
    ),
    output_schema=CHECK_OUTPUT,
    tags=("nodes", "configuration", "validation"),
    workflow_guidance="Check every node that was configured, correct what is reported, and check again.",
    usage_examples=({"node": "ACTION.HTTP_REQUEST", "settings": {"method": "GET"}},),
)

CHECK_WORKFLOW: Final = KnowledgeTool(
    name="check_workflow",
    title="Check a workflow",
    description=(
        "Check a whole workflow before it is built: nodes that do not exist, wrong ports and types, settings"
        " that do not exist or are missing, deprecated nodes with their successor, inputs left open."
        " Only what is certainly wrong is an error."
    ),
    parameters=_arguments(
        {
            "workflow": {
                "type": ["object", "string"],
                "description": (
                    'An outline: {"nodes": [{"id": "read", "node": "CSV Reader", "settings": {}}],'
                    ' "connections": ["read:1 -> filter:1"]}. A node is its name or id; ports are names, or'
                    " numbers from 1 (0 is the port for flow variables), and may be left out; 'inside' holds"
                    " the outline of a metanode or component."
                ),
            },
            "max_results": _count("Maximum number of problems to return", 50, 500),
        },
        "workflow",
    ),
    output_schema=WORKFLOW_OUTPUT,
    tags=("workflow", "validation"),
    workflow_guidance="Check the outline of a workflow, correct what is reported, and check again.",
    usage_examples=(
        {
            "workflow": {
                "nodes": [{"id": "read", "node": "CSV Reader"}, {"id": "filter", "node": "Row Filter"}],
                "connections": ["read:1 -> filter:1"],
            }
        },
    ),
)

TOOLS: Final = (
    GET_NODE_TYPES,
    GET_NODE_DETAILS,
    SEARCH_NODES,
    FIND_COMPATIBLE,
    CHECK_CONFIGURATION,
    CHECK_WORKFLOW,
)
TOOLS_BY_NAME: Final[Mapping[str, KnowledgeTool]] = {tool.name: tool for tool in TOOLS}
