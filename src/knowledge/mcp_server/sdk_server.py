"""The MCP server of a catalogue with the official SDK, for all transports and revisions of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError as ProtocolFailure

from ...stdio.session import Refused
from ..answers.tool_definitions import TOOLS_BY_NAME

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from .tools import ServedTools

    _Context = ServerRequestContext[Any, Any]

_FRESH: Final = CacheHint(ttl_ms=3_600_000, scope="public")
"""The cache hint of the list of tools, which only changes with the version of this program."""

_MOST_AT_ONCE: Final = 16


def sdk_server(tools: ServedTools) -> Server[Any]:
    """Makes an SDK server with the tools, which can be run over any transport."""
    listed = types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools.tools()])
    threads = anyio.CapacityLimiter(_MOST_AT_ONCE)

    async def list_tools(_: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params is not None and params.cursor:  # some clients send an empty cursor first
            raise ProtocolFailure(
                types.INVALID_PARAMS, "All tools are on the first page; leave out the cursor."
            )
        return listed

    async def call_tool(_: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        def work() -> types.CallToolResult:
            return types.CallToolResult.model_validate(tools.answer(params.name, params.arguments))

        try:
            if tools.is_brief(params.arguments):
                return work()
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=threads)
        except Refused as refused:
            raise ProtocolFailure(refused.code, str(refused)) from None

    info = tools.info
    return Server(
        info.name,
        version=info.version,
        title=info.title,
        instructions=info.instructions,
        cache_hints={"tools/list": _FRESH},
        get_tool_input_schema=lambda name: tool.parameters if (tool := TOOLS_BY_NAME.get(name)) else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
