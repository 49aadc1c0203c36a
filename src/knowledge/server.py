"""The MCP server of a catalogue, on the official SDK: any transport, every revision of the protocol."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError as ProtocolFailure

from ..types.errors import MCPError, ToolNotFound
from ..version import VERSION
from .answers.tool_definitions import INSTRUCTIONS, TOOLS_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

    from .answers.tool_definitions import ToolDefinition
    from .service import NodeKnowledgeMCPService

_log = logging.getLogger(__name__)

SERVER_NAME: Final = "knime-mcp-nodes"
META_PREFIX: Final = "org.knime-mcp/"
"""Before keys in ``_meta``: https://modelcontextprotocol.io/specification/2025-11-25/basic#_meta."""

_FRESH: Final = CacheHint(ttl_ms=3_600_000, scope="public")
"""The list of tools is the same until this program is another version."""

_READ_ONLY: Final = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_MOST_AT_ONCE: Final = 16


class NodeKnowledgeServer:
    """Serves the tools of node knowledge.

    Args:
        service: What answers.

    Attributes:
        server: The SDK's server, to be run over a transport.
    """

    def __init__(self, service: NodeKnowledgeMCPService) -> None:
        self._service = service
        self._listed = [described(tool) for tool in service.get_available_tools()]
        self._threads = anyio.CapacityLimiter(_MOST_AT_ONCE)
        self.server: Server[Any] = Server(
            SERVER_NAME,
            version=VERSION,
            title="Node knowledge",
            instructions=INSTRUCTIONS,
            cache_hints={"tools/list": _FRESH},
            get_tool_input_schema=_input_schema,
            on_list_tools=self._on_list_tools,
            on_call_tool=self._on_call_tool,
        )

    async def _on_list_tools(
        self, _ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        if params is not None and params.cursor:  # some clients send an empty one at first
            raise ProtocolFailure(
                types.INVALID_PARAMS, "All tools are on the first page; leave out the cursor."
            )
        return types.ListToolsResult(tools=self._listed)

    async def _on_call_tool(
        self, _ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        def work() -> types.CallToolResult:
            return self._call(params.name, params.arguments)

        if self._service.is_brief(params.arguments):
            return work()
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)

    def _call(self, name: str, arguments: Mapping[str, Any] | None) -> types.CallToolResult:
        try:
            found = self._service.invoke_tool(name, arguments)
        except ToolNotFound as error:
            raise ProtocolFailure(types.INVALID_PARAMS, str(error)) from None
        except MCPError as error:
            return _failed(str(error))
        except Exception as error:
            # Its text could hold anything; what went wrong is in the log.
            _log.exception("the tool %s failed unexpectedly", name)
            return _failed(f"Unexpected {type(error).__name__}. The server's log says more.")
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], structured_content=found
        )


def described(tool: ToolDefinition) -> types.Tool:
    """A tool as MCP lists it; what MCP has no field for is in ``_meta``."""
    extras = {
        "category": tool.category,
        "tags": list(tool.tags),
        "version": tool.version,
        "workflow_guidance": tool.workflow_guidance,
        "usage_examples": [dict(example) for example in tool.usage_examples],
    }
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.parameters),
        output_schema=dict(tool.output_schema),
        annotations=_READ_ONLY,
        _meta={f"{META_PREFIX}{key}": value for key, value in extras.items()},
    )


def _input_schema(name: str) -> Mapping[str, Any] | None:
    tool = TOOLS_BY_NAME.get(name)
    return None if tool is None else tool.parameters


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
