"""Lists the tools of a document's servers, and checks that the called tools exist and their arguments fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from knime_mcp.client.limits import Timeouts
from knime_mcp.client.validation.argument_schemas import properties_in
from knime_mcp.runs.server_configs import client_for
from knime_mcp.types.errors import MCPError
from knime_mcp.yaml_text import Problem, Severity, as_list, as_mapping, one_of

from .graph_model import Expression, InvalidExpression
from .known_fields import CalledTool, wrong_names
from .nodes import McpNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knime_mcp.client.protocol.tools import ToolDefinition
    from knime_mcp.runs.server_configs import ServerConfig
    from knime_mcp.yaml_text import Position

    from .graph_model import GraphDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineChecks:
    """What servers say about a document: problems, and what is known of their tools by server and name."""

    problems: list[Problem] = field(default_factory=list[Problem])
    tools: dict[tuple[str, str], CalledTool] = field(default_factory=dict[tuple[str, str], CalledTool])


def check_online(document: GraphDocument, *, seconds: float = 30.0) -> OnlineChecks:
    """Compares a document with the servers that it calls, asking each for at most so many seconds.

    Errors are for calls that are sure to fail, warnings for everything else, as a server may be down only
    now.
    """
    calls: dict[str, list[McpNode]] = {}
    for tool in document.tools:
        for node in tool.nodes:
            if isinstance(node, McpNode):
                calls.setdefault(node.server, []).append(node)
    found = OnlineChecks()
    for name, nodes in calls.items():
        _server(document.servers[name], nodes, seconds, found)
    return found


def _server(
    config: ServerConfig,
    nodes: list[McpNode],
    seconds: float,
    found: OnlineChecks,
) -> None:
    try:
        with client_for(config, timeouts=Timeouts(connect=seconds, total=seconds)) as client:
            tools = {tool.name: tool for tool in client.list_tools()}
    except MCPError as error:
        message = f"the server '{config.name}' could not be asked for its tools: {error.sentence}"
        found.problems.append(_problem(message, nodes[0].written.at("server"), Severity.WARNING))
        return
    found.problems.extend(problem for node in nodes for problem in _call(node, tools))
    for name, tool in tools.items():
        output = tool.output_schema if isinstance(tool.output_schema, dict) else None
        found.tools[config.name, name] = CalledTool(
            input_schema=as_mapping(tool.input_schema), output_schema=output
        )


def _call(node: McpNode, tools: Mapping[str, ToolDefinition]) -> list[Problem]:
    tool = tools.get(node.tool)
    if tool is None:
        fix = one_of(node.tool, sorted(tools))
        message = f'Node "{node.id}": the server "{node.server}" has no tool "{node.tool}"'
        return [_problem(message, node.written.at("tool"), Severity.ERROR, fix)]
    if isinstance(node.args, Expression | InvalidExpression):
        return []  # the expression makes all arguments
    schema = as_mapping(tool.input_schema)
    refused = schema.get("additionalProperties") is False
    problems: list[Problem] = []
    for keys, message, fix in wrong_names(node, schema):
        severity = Severity.ERROR if refused or keys == ("args",) else Severity.WARNING
        problems.append(_problem(f'Node "{node.id}": {message}', node.written.at(*keys), severity, fix))
    properties = properties_in(schema, schema)
    for name, value in as_mapping(node.args).items():
        if name in properties and _is_literal(value) and (wrong := _violation(properties[name], value)):
            message = f'Node "{node.id}": the argument "{name}" of the tool "{node.tool}": {wrong}'
            problems.append(_problem(message, node.written.at("args", name), Severity.ERROR))
    return problems


def _is_literal(value: Any) -> bool:
    """Returns whether the value is known before the run."""
    match value:
        case Expression() | InvalidExpression():
            return False
        case dict():
            return all(_is_literal(entry) for entry in as_mapping(value).values())
        case list():
            return all(_is_literal(entry) for entry in as_list(value))
        case _:
            return True


def _violation(schema: Any, value: Any) -> str | None:
    """The problem of a literal value, or None. Schemas with references are not checked."""
    import jsonschema_rs

    # A reference leads into the whole schema, of which this is a part.
    if not isinstance(schema, dict) or "$ref" in str(as_mapping(schema)):
        return None
    try:
        validator = jsonschema_rs.validator_for(as_mapping(schema))
        error = next(iter(validator.iter_errors(value)), None)
    except (jsonschema_rs.ValidationError, ValueError):
        return None
    return None if error is None else error.message


def _problem(message: str, position: Position | None, severity: Severity, fix: str | None = None) -> Problem:
    return Problem(message=message, position=position, severity=severity, fix=fix)
