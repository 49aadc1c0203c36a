"""The OpenAPI document of a gateway, in which calls have the schema of each tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

if TYPE_CHECKING:
    from ..answers.tool_definitions import ToolDefinition
    from .tools import ToolRegistry


def document_of(app: FastAPI, registry: ToolRegistry) -> dict[str, Any]:
    """The document of an application whose endpoints call these tools."""
    # Not `app.openapi`, which calls this function.
    document = FastAPI.openapi(app)
    schemas = document["components"]["schemas"]
    for path in document["paths"].values():
        for operation in path.values():
            # This gateway answers invalid requests with 400, not with FastAPI's 422.
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    tools = registry.get_available_tools()
    for model, name, arguments in (
        ("ToolCall", "name", "arguments"),
        ("RPCParams", "name", "arguments"),
        ("MCPInvokeRequest", "tool_name", "params"),
    ):
        if model in schemas:
            found = schemas[model]
            more = {key: value for key, value in found["properties"].items() if key not in (name, arguments)}
            schemas[model] = {
                "title": model,
                "description": found["description"],
                "oneOf": [_call(tool, name, arguments, more) for tool in tools],
            }
    return document


def _call(tool: ToolDefinition, name: str, arguments: str, more: dict[str, Any]) -> dict[str, Any]:
    wanted = [name, arguments] if tool.parameters.get("required") else [name]
    return {
        "title": tool.name,
        "type": "object",
        "properties": {
            name: {"const": tool.name},
            arguments: {**tool.parameters, "description": tool.description},
            **more,
        },
        "required": wanted,
        "additionalProperties": False,
        "examples": [{name: tool.name, arguments: dict(example)} for example in tool.usage_examples],
    }
