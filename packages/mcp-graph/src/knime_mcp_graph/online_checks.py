"""Lists the tools of a document's servers, and checks that the called tools exist and their arguments fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from knime_mcp.client.limits import Timeouts
from knime_mcp.runs.server_configs import client_for
from knime_mcp.types.errors import MCPError
from knime_mcp.yaml_text import Problem, Severity, as_mapping, one_of

from .known_fields import CalledTool, wrong_arguments
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
    return [
        _problem(
            f'Node "{node.id}": {wrong.message}',
            node.written.at(*wrong.keys),
            Severity.ERROR if wrong.surely else Severity.WARNING,
            wrong.fix,
        )
        for wrong in wrong_arguments(node, as_mapping(tool.input_schema))
    ]


def _problem(message: str, position: Position | None, severity: Severity, fix: str | None = None) -> Problem:
    return Problem(message=message, position=position, severity=severity, fix=fix)
