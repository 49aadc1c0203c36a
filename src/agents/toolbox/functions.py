"""Describes tools to a model, as functions in the form of the chat-completions protocol.

An MCP tool's schema goes to the model unchanged, with recursion, ``$defs`` and titles. A workflow tool has no
schema, only parameters, so its schema is made here, in the form of KNIME's agents: ``configuration`` for the
parameters and ``data_inputs`` for ids of tables.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, assert_never

from ...types.canonical import compact_json
from ...types.tool import MCPTool, WorkflowTool, parse_object
from .names import numbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...types.tool import Tool, ToolPort

CONFIGURATION: Final = "configuration"
DATA_INPUTS: Final = "data_inputs"


def function_definition(tool: Tool, name: str) -> dict[str, Any]:
    """Describes a tool to a model. The parameters may be shared: do not change them."""
    return _function(name, description_for_model(tool), arguments_schema(tool))


def built_in_definition(name: str, description: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Describes a built-in tool to a model; arguments without a default are required."""
    return _function(name, description, _object(dict(properties)))


def arguments_schema(tool: Tool) -> dict[str, Any]:  # @ToolTypeDispatch
    """Returns the schema of the arguments: the server's, or one made for a workflow. Do not change it.

    Raises:
        ToolFormatError: The cell holds malformed JSON.
    """
    match tool:
        case MCPTool():
            return tool.parameter_schema
        case WorkflowTool():
            return _workflow_schema(tool)
        case _:
            assert_never(tool)


def description_for_model(tool: Tool) -> str:  # @ToolTypeDispatch
    """Returns the description, or the title without one; for a workflow with its outputs."""
    match tool:
        case MCPTool():
            title = tool.title  # read even if not needed: malformed JSON is an error that names the row
            return tool.description or title or ""
        case WorkflowTool():
            if not tool.output_ports:  # the message's port is not one of them
                return tool.description
            outputs = "; ".join(_port_text(port) for port in tool.output_ports)
            return f"{tool.description}\n\nData outputs, each of which gets an id: {outputs}".lstrip()
        case _:
            assert_never(tool)


def port_names(ports: Sequence[ToolPort]) -> tuple[str, ...]:
    """Unique names for ports, which may share a name or have none: ``Table``, ``Table (2)``."""
    return numbered([port.name.strip() or f"port {position}" for position, port in enumerate(ports, 1)])


def token_estimate(definitions: Iterable[Mapping[str, Any]]) -> int:
    """Estimates the tokens of functions, like the column *Context tokens*: a quarter of their bytes."""
    return sum(-(-len(compact_json(definition).encode()) // 4) for definition in definitions)


def _function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _workflow_schema(tool: WorkflowTool) -> dict[str, Any]:
    _ = tool.parameter_schema  # malformed JSON is an error that names the row
    return _made_schema(tool.schema_json, tool.input_ports)


@lru_cache(maxsize=1024)
def _made_schema(parameters_json: str, ports: tuple[ToolPort, ...]) -> dict[str, Any]:
    parameters = parse_object(parameters_json)
    properties: dict[str, Any] = {}
    if parameters:
        properties[CONFIGURATION] = {
            "description": "Parameters of the workflow; one that is left out keeps its default",
            **_object(parameters),
        }
    if ports:
        inputs = {
            name: {"type": "string", "description": f"Id of the data for: {_port_text(port)}"}
            for name, port in zip(port_names(ports), ports, strict=True)
        }
        properties[DATA_INPUTS] = {"description": "Ids of data, one per input", **_object(inputs)}
    schema = _object(properties)
    schema["required"] = [name for name, part in properties.items() if part.get("required")]
    return schema


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, part in properties.items() if not _has_default(part)],
        "additionalProperties": False,
    }


def _port_text(port: ToolPort) -> str:
    kind = f" ({port.type})" if port.type else ""
    return f"{port.name}{kind}: {port.description}" if port.description else f"{port.name}{kind}"


def _has_default(part: Any) -> bool:
    return isinstance(part, dict) and "default" in part
