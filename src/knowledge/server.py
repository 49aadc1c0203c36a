"""The MCP server of a catalogue on the official SDK: any transport, every revision of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError as ProtocolFailure

from ..stdio.session import Refused
from .answers.tool_definitions import TOOLS_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

    from .served import ServedTools

_FRESH: Final = CacheHint(ttl_ms=3_600_000, scope="public")
"""The list of tools is the same until this program is another version."""

_MOST_AT_ONCE: Final = 16


class NodeKnowledgeServer:
    """Serves the tools of node knowledge.

    Args:
        tools: The tools.

    Attributes:
        server: The SDK's server, to be run over a transport.
    """

    def __init__(self, tools: ServedTools) -> None:
        self._tools = tools
        self._listed = [types.Tool.model_validate(tool) for tool in tools.tools()]
        self._threads = anyio.CapacityLimiter(_MOST_AT_ONCE)
        info = tools.info
        self.server: Server[Any] = Server(
            info.name,
            version=info.version,
            title=info.title,
            instructions=info.instructions,
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
            return types.CallToolResult.model_validate(self._tools.answer(params.name, params.arguments))

        try:
            if self._tools.is_brief(params.arguments):
                return work()
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)
        except Refused as refused:
            raise ProtocolFailure(refused.code, str(refused)) from None


def _input_schema(name: str) -> Mapping[str, Any] | None:
    tool = TOOLS_BY_NAME.get(name)
    return None if tool is None else tool.parameters
