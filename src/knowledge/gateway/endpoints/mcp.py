"""``/api/v1/mcp``: the tools for clients with a key."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response
from pydantic import Discriminator, Tag

from ..envelope import Envelope, answer, tool_result
from ..keys import Scope
from ..models import (
    MCPTool,
    MCPToolDetails,
    MCPToolList,
    RPCToolCall,
    RPCToolList,
    RPCToolResult,
    ToolCall,
)
from ..routing import gateway_of, record_of, router
from ..tools import ToolRegistry  # noqa: TC001 - the signature of a public function

PREFIX: Final = "/api/v1/mcp"


def tool_list(tools: ToolRegistry) -> MCPToolList:
    """The tools, as they are listed."""
    return MCPToolList(
        tools=[
            MCPTool(
                name=tool.name,
                description=tool.description,
                parameters=dict(tool.parameters),
                category=tool.category,
                tags=list(tool.tags),
            )
            for tool in tools.get_available_tools()
        ]
    )


def _kind(body: Any) -> str:
    if isinstance(body, dict):
        return "rpc" if "method" in body or "jsonrpc" in body else "bare"
    return "rpc" if isinstance(body, RPCToolCall) else "bare"


AnyCall = Annotated[
    Annotated[ToolCall, Tag("bare")] | Annotated[RPCToolCall, Tag("rpc")], Discriminator(_kind)
]


def mcp_router() -> APIRouter:
    """The endpoints of this group."""
    group = APIRouter(tags=["mcp"])
    listing = router(Envelope.JSON_RPC, scope=Scope.TOOLS_READ, errors=(503,))
    details = router(Envelope.PLAIN, scope=Scope.TOOLS_READ, errors=(404, 503))
    calling = router(Envelope.JSON_RPC, scope=Scope.TOOLS_EXECUTE, errors=(400, 404, 408, 413, 415, 503))

    @listing.get(f"{PREFIX}/tools", response_model=RPCToolList)
    async def list_tools(request: Request) -> Response:
        """List the tools."""
        tools = tool_list(gateway_of(request).tools())
        return answer(RPCToolList(id=record_of(request).request_id, result=tools))

    @details.get(f"{PREFIX}/tools/{{tool_name}}", response_model=MCPToolDetails)
    async def describe_tool(request: Request, tool_name: str) -> Response:
        """Describe a tool: guidance, and arguments that work."""
        record = record_of(request)
        registry = gateway_of(request).tools()
        tool = registry.find(tool_name)
        record.tool = tool.name
        return answer(
            MCPToolDetails(
                name=tool.name,
                description=tool.description,
                version=tool.version,
                available=registry.available(tool.name),
                category=tool.category,
                workflow_guidance=tool.workflow_guidance,
                usage_examples=[dict(example) for example in tool.usage_examples],
                processing_time_ms=record.elapsed_ms,
                request_id=record.request_id,
            )
        )

    @calling.post(f"{PREFIX}/invoke", response_model=RPCToolResult)
    async def invoke_tool(request: Request, body: Annotated[AnyCall, Body()]) -> Response:
        """Call a tool: name and arguments, or the JSON-RPC request that MCP clients write."""
        record = record_of(request)
        call: ToolCall
        if isinstance(body, RPCToolCall):
            record.rpc_id, call = body.id, body.params
        else:
            call = body
        found = await gateway_of(request).call(call.name, call.arguments, record)
        rpc_id = record.request_id if record.rpc_id is None else record.rpc_id
        return answer(RPCToolResult(id=rpc_id, result=tool_result(call.name, found, record)))

    for part in (listing, details, calling):
        group.include_router(part)
    return group
