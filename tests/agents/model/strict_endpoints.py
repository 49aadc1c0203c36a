"""What endpoints refuse of tools, as public reports describe it, and tools that have some of it."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_TEXT_FORMATS = {"enum", "date-time"}
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_GOOGLE_KEYS = frozenset(
    (
        "type",
        "format",
        "description",
        "nullable",
        "enum",
        "items",
        "properties",
        "required",
        "minItems",
        "maxItems",
    )
)


def _walk(schema: Any, path: str) -> Iterator[tuple[Any, str]]:
    yield schema, path
    if not isinstance(schema, dict):
        return
    for name, inner in (schema.get("properties") or {}).items():
        yield from _walk(inner, f"{path}.properties[{name}]")
    if "items" in schema:
        yield from _walk(schema["items"], f"{path}.items")


def _google_fault(schema: Any) -> tuple[str, str] | None:
    if not isinstance(schema, dict):
        return "", "Proto field is not repeating, cannot start list."
    kind = schema.get("type")
    for key in schema:
        if key not in _GOOGLE_KEYS:
            return f".{key}", f'Unknown name "{key}": Cannot find field.'
    if not isinstance(kind, str):
        return ".type", "Proto field is not repeating, cannot start list." if kind else "missing field."
    if kind == "object" and not schema.get("properties"):
        return ".properties", "should be non-empty for OBJECT type"
    if kind == "array" and not schema.get("items"):
        return ".items", "missing field."
    if kind == "string" and schema.get("format", "enum") not in _TEXT_FORMATS:
        return ".format", "only 'enum' and 'date-time' are supported for STRING type"
    for number, value in enumerate(schema.get("enum", ())):
        if not isinstance(value, str):
            return f".enum[{number}]", f"Invalid value (TYPE_STRING), {value}"
        if not value:
            return f".enum[{number}]", "cannot be empty"
    if any(name not in schema["properties"] for name in schema.get("required", ())):
        return ".required[0]", "property is not defined"
    return None


def gemini(tools: list[Any]) -> str:
    """All faults, each with the place of its tool."""
    return "".join(
        f"* GenerateContentRequest.tools[0].function_declarations[{number}].{path}{fault[0]}: {fault[1]}\n"
        for number, tool in enumerate(tools)
        if "parameters" in tool["function"]
        for schema, path in _walk(tool["function"]["parameters"], "parameters")
        if (fault := _google_fault(schema))
    )


def gemini_alone(tools: list[Any]) -> str:
    """The first fault, as some proxies pass it on."""
    return gemini(tools).partition("\n")[0]


def gemini_silent(tools: list[Any]) -> str:
    return "API 调用参数有误，请检查文档。" if gemini(tools) else ""


def openai(tools: list[Any]) -> str:
    """The first fault, with the name of its tool."""
    for tool in tools:
        function = tool["function"]
        top = function.get("parameters", {"type": "object", "properties": {}})
        odd = [key for key in ("anyOf", "oneOf", "allOf", "enum", "not") if key in top]
        if top.get("type") != "object" or "properties" not in top or odd:
            return (
                f"Invalid schema for function '{function['name']}': it must have type 'object' and no {odd}."
            )
        for schema, _ in _walk(top, ""):
            if isinstance(schema, dict) and schema.get("type") == "array" and "items" not in schema:
                return f"Invalid schema for function '{function['name']}': array schema missing items."
    return ""


def ollama(tools: list[Any]) -> str:
    for tool in tools:
        for schema, path in _walk(tool["function"].get("parameters", {}), "parameters"):
            if not isinstance(schema, dict) or isinstance(schema.get("type"), list):
                return (
                    "json: cannot unmarshal array into Go struct field"
                    f" .tools.function.{re.sub('[^a-z.]', '', path)}.type of type string"
                )
    return ""


def llama_cpp(tools: list[Any]) -> str:
    """Its grammars know no lookaheads; an unknown reference or an untyped part is a fault, too."""
    for tool in tools:
        for schema, _ in _walk(tool["function"].get("parameters", {}), ""):
            if not isinstance(schema, dict) or "(?" in json.dumps(schema) or "not" in schema:
                return "Failed to initialize samplers: failed to parse grammar"
            if str(schema.get("$ref", "#")).startswith("#") is False or schema.get("$ref") == "#/nowhere":
                return "JSON schema conversion failed: Error resolving ref"
    return ""


def bedrock(tools: list[Any]) -> str:
    for number, tool in enumerate(tools):
        if not tool["function"].get("description"):
            return (
                f"Invalid length for parameter toolConfig.tools[{number}].toolSpec.description, value: 0,"
                " valid min length: 1"
            )
        for schema, _ in _walk(tool["function"].get("parameters", {}), ""):
            for name in schema.get("properties", {}) if isinstance(schema, dict) else ():
                if not _NAME.fullmatch(name):
                    return (
                        f"tools.{number}.custom.input_schema.properties: Property keys should match pattern"
                        " '^[a-zA-Z0-9_.-]{1,64}$'"
                    )
    return ""


ENDPOINTS: dict[str, Callable[[list[Any]], str]] = {
    "Gemini": gemini,
    "Gemini, first fault only": gemini_alone,
    "Gemini, no reason": gemini_silent,
    "OpenAI": openai,
    "Ollama": ollama,
    "llama.cpp": llama_cpp,
    "Bedrock": bedrock,
}


def _one(part: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": part}, **more}


_EMAIL = (
    "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"
)
_TREE = {"type": "object", "properties": {"name": {"type": "string"}, "inside": {"$ref": "#/$defs/tree"}}}

CONSTRUCTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # schema, arguments as a model writes them for the strict schema, and as the server gets them
    "nothing odd": (_one({"type": "string"}), {"a": "x"}, {"a": "x"}),
    "format": (_one({"type": "string", "format": "uri"}), {"a": "x:y"}, {"a": "x:y"}),
    "pattern": (_one({"type": "string", "pattern": "^[a-z]+$"}), {"a": "x"}, {"a": "x"}),
    "pattern with a lookahead": (
        _one({"type": "string", "pattern": _EMAIL}),
        {"a": "a@b.de"},
        {"a": "a@b.de"},
    ),
    "list of types": (_one({"type": ["string", "null"]}), {"a": "x"}, {"a": "x"}),
    "several types": (_one({"type": ["integer", "string"]}), {"a": "x"}, {"a": "x"}),
    "const": (_one({"const": "x"}), {"a": "x"}, {"a": "x"}),
    "choice of numbers": (_one({"type": "integer", "enum": [1, 2]}), {"a": 2}, {"a": 2}),
    "empty choice": (_one({"type": "string", "enum": ["", "x"]}), {"a": "x"}, {"a": "x"}),
    "reference": (
        {**_one({"$ref": "#/$defs/b"}), "$defs": {"b": {"type": "string"}}},
        {"a": "x"},
        {"a": "x"},
    ),
    "recursion": (
        {**_one({"$ref": "#/$defs/tree"}), "$defs": {"tree": _TREE}},
        {"a": {"name": "x", "inside": '{"name": "y"}'}},
        {"a": {"name": "x", "inside": '{"name": "y"}'}},
    ),
    "reference to nowhere": (_one({"$ref": "#/nowhere"}), {"a": '{"b": 1}'}, {"a": {"b": 1}}),
    "object without properties": (_one({"type": "object"}), {"a": '{"b": 1}'}, {"a": '{"b": 1}'}),
    "map": (
        _one({"type": "object", "additionalProperties": {"type": "string"}}),
        {"a": '{"b": "c"}'},
        {"a": '{"b": "c"}'},
    ),
    "list of anything": (_one({"type": "array", "items": {}}), {"a": ["x"]}, {"a": ["x"]}),
    "list without items": (_one({"type": "array"}), {"a": ["x"]}, {"a": ["x"]}),
    "tuple": (_one({"type": "array", "items": [{"type": "integer"}]}), {"a": [1]}, {"a": [1]}),
    "untyped": (_one({"description": "anything"}), {"a": '{"b": 1}'}, {"a": {"b": 1}}),
    "anything": (_one(True), {"a": "x"}, {"a": "x"}),
    "alternatives": (_one({"anyOf": [{"type": "integer"}, {"type": "null"}]}), {"a": 1}, {"a": 1}),
    "alternatives at the top": (
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], **_one({"type": "string"})},
        {"a": "x"},
        {"a": "x"},
    ),
    "not": (_one({"type": "string", "not": {"const": ""}}), {"a": "x"}, {"a": "x"}),
    "no parameters": ({"type": "object", "properties": {}}, {}, {}),
    "nothing at all": ({"type": "object"}, {}, {}),
    "not even a type": ({}, {}, {}),
    "default and examples": (
        _one({"type": "string", "default": "x", "examples": ["x"]}),
        {"a": "x"},
        {"a": "x"},
    ),
    "required but not declared": (_one({"type": "string"}, required=["a", "b"]), {"a": "x"}, {"a": "x"}),
    "names": (
        {
            "type": "object",
            "properties": {"$top": {"type": "integer"}, "都市": {"type": "string"}, "a b": {}},
        },
        {"top": 1, "argument_2": "x", "a_b": "y"},
        {"$top": 1, "都市": "x", "a b": "y"},
    ),
    "names inside": (
        _one({"type": "array", "items": {"type": "object", "properties": {"@id": {"type": "string"}}}}),
        {"a": [{"id": "x"}]},
        {"a": [{"@id": "x"}]},
    ),
    "long name": (
        {"type": "object", "properties": {"n" * 80: {"type": "string"}}},
        {"n" * 64: "x"},
        {"n" * 80: "x"},
    ),
}
