"""``/mcp``: the same tools with the plainest bodies."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from ..envelope import Envelope, answer
from ..keys import Scope
from ..models import MCPInvokeRequest, MCPInvokeResponse, MCPToolSchema, MCPToolsResponse
from ..routing import gateway_of, record_of, router


def simple_router() -> APIRouter:
    """The endpoints of this group."""
    group = APIRouter(tags=["simple"])
    listing = router(Envelope.PLAIN, scope=Scope.TOOLS_READ, errors=(503,))
    calling = router(Envelope.PLAIN, scope=Scope.TOOLS_EXECUTE, errors=(400, 404, 408, 413, 415, 503))

    @listing.get("/mcp/tools", response_model=MCPToolsResponse)
    async def list_simply(request: Request) -> Response:
        """List the tools."""
        tools = gateway_of(request).tools().get_available_tools()
        return answer(
            MCPToolsResponse(
                tools=[
                    MCPToolSchema(
                        name=tool.name, description=tool.description, parameters=dict(tool.parameters)
                    )
                    for tool in tools
                ]
            )
        )

    @calling.post("/mcp/invoke", response_model=MCPInvokeResponse)
    async def invoke_simply(request: Request, body: MCPInvokeRequest) -> Response:
        """Call a tool."""
        record = record_of(request)
        found = await gateway_of(request).call(body.tool_name, body.params, record)
        return answer(
            MCPInvokeResponse(
                success=True,
                tool_name=body.tool_name,
                result=found,
                execution_time_ms=record.tool_ms or 0.0,
                timestamp=datetime.now(UTC),
            )
        )

    group.include_router(listing)
    group.include_router(calling)
    return group
