"""The endpoints: ``/api/v1/mcp`` with JSON-RPC envelopes, ``/mcp`` with plain bodies, health, internal."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Body, Request, Response
from pydantic import Discriminator, Tag

from knime_mcp.version import VERSION

from .api_keys import Scope
from .gateway_bodies import (
    MCPHealth,
    MCPInvokeRequest,
    MCPInvokeResponse,
    MCPTool,
    MCPToolDetails,
    MCPToolList,
    MCPToolSchema,
    MCPToolsResponse,
    PublicHealth,
    RPCToolCall,
    RPCToolList,
    RPCToolResult,
    TextContent,
    ToolCall,
    ToolResult,
)
from .gateway_errors import UNAVAILABLE, Envelope, answer
from .observing import CONTENT_TYPE, gateway_of, record_of
from .request_guard import CALLING, LISTING, router

PREFIX: Final = "/api/v1/mcp"
_UNHEALTHY: Final = "Something that the tools need cannot be read; the gateway's log says what."

_health = router(Envelope.PLAIN, "health", scope=Scope.HEALTH_CHECK)
PUBLIC_HEALTH: Final = router(Envelope.PLAIN, "health", scope=None)
_listing = router(Envelope.JSON_RPC, "mcp", scope=Scope.TOOLS_READ, errors=LISTING)
_details = router(Envelope.PLAIN, "mcp", scope=Scope.TOOLS_READ, errors=(404, *LISTING))
_calling = router(Envelope.JSON_RPC, "mcp", scope=Scope.TOOLS_EXECUTE, errors=CALLING)
_simple_listing = router(Envelope.PLAIN, "simple", scope=Scope.TOOLS_READ, errors=LISTING)
_simple_calling = router(Envelope.PLAIN, "simple", scope=Scope.TOOLS_EXECUTE, errors=CALLING)
METRICS: Final = router(Envelope.PLAIN, "internal", scope=None)
_internal_listing = router(Envelope.PLAIN, "internal", scope=None, errors=LISTING)
_internal_calling = router(Envelope.INTERNAL, "internal", scope=None, errors=CALLING)

PUBLIC: Final = (_health, PUBLIC_HEALTH, _listing, _details, _calling, _simple_listing, _simple_calling)
"""The endpoints of the public listener, in the order in which their paths are matched."""

INTERNAL: Final = (PUBLIC_HEALTH, METRICS, _internal_listing, _internal_calling)
"""The endpoints for programs on this machine: without keys and envelopes, and with the metrics."""


@_health.get(
    f"{PREFIX}/health",
    response_model=MCPHealth,
    responses={UNAVAILABLE: {"model": MCPHealth, "description": "The tools do not work."}},
)
async def health(request: Request) -> Response:
    """Report whether the tools work."""
    record, gateway = record_of(request), gateway_of(request)
    record.error = problem = gateway.problem()
    tools = gateway.registry.get_available_tools() if gateway.settings.mcp_enabled else []
    body = MCPHealth(
        healthy=problem is None,
        version=VERSION,
        available_tools=[tool.name for tool in tools],
        timestamp=int(time.time()),
        error=None if problem is None else _UNHEALTHY,
        request_id=record.request_id,
        processing_time_ms=record.elapsed_ms,
    )
    return answer(body, status=200 if problem is None else UNAVAILABLE)


@PUBLIC_HEALTH.get(
    "/api/v1/public/health",
    response_model=PublicHealth,
    responses={UNAVAILABLE: {"model": PublicHealth, "description": "The gateway does not work."}},
)
async def public_health(request: Request) -> Response:
    """Report whether the gateway works."""
    record_of(request).error = problem = gateway_of(request).problem()
    body = PublicHealth(
        status="healthy" if problem is None else "unhealthy", version=VERSION, timestamp=int(time.time())
    )
    return answer(body, status=200 if problem is None else UNAVAILABLE)


@_listing.get(f"{PREFIX}/tools", response_model=RPCToolList)
async def list_tools(request: Request) -> Response:
    """List the tools."""
    return answer(RPCToolList(id=record_of(request).request_id, result=_tool_list(request)))


@_details.get(f"{PREFIX}/tools/{{tool_name}}", response_model=MCPToolDetails)
async def describe_tool(request: Request, tool_name: str) -> Response:
    """Describe a tool, with guidance and example arguments."""
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


def _kind(body: Any) -> str:
    if isinstance(body, dict):
        # Also of a request with mistakes, so that its errors are told for the form that was meant.
        return "rpc" if "method" in body or "jsonrpc" in body else "bare"
    return "rpc" if isinstance(body, RPCToolCall) else "bare"


AnyCall = Annotated[
    Annotated[ToolCall, Tag("bare")] | Annotated[RPCToolCall, Tag("rpc")], Discriminator(_kind)
]


@_calling.post(f"{PREFIX}/invoke", response_model=RPCToolResult)
async def invoke_tool(request: Request, body: Annotated[AnyCall, Body()]) -> Response:
    """Call a tool, with its name and arguments or with a JSON-RPC request like those of MCP clients."""
    record = record_of(request)
    if isinstance(body, RPCToolCall):
        record.rpc_id, body = body.id, body.params
    result = await _call_tool(request, body)
    return answer(RPCToolResult(id=record.answered_id, result=result))


@_simple_listing.get("/mcp/tools", response_model=MCPToolsResponse)
async def list_simply(request: Request) -> Response:
    """List the tools."""
    tools = gateway_of(request).tools().get_available_tools()
    return answer(MCPToolsResponse(tools=[MCPToolSchema.model_validate(tool) for tool in tools]))


@_simple_calling.post("/mcp/invoke", response_model=MCPInvokeResponse)
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


@_internal_listing.get(f"{PREFIX}/tools/internal", response_model=MCPToolList)
async def list_internally(request: Request) -> Response:
    """List the tools."""
    return answer(_tool_list(request))


@_internal_calling.post(f"{PREFIX}/invoke/internal", response_model=ToolResult)
async def invoke_internally(request: Request, body: ToolCall) -> Response:
    """Call a tool."""
    return answer(await _call_tool(request, body))


@METRICS.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus' format."""
    gateway = gateway_of(request)
    text = gateway.metrics.exposed(healthy=gateway.problem() is None)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


def _tool_list(request: Request) -> MCPToolList:
    tools = gateway_of(request).tools().get_available_tools()
    return MCPToolList(tools=[MCPTool.model_validate(tool) for tool in tools])


async def _call_tool(request: Request, call: ToolCall) -> ToolResult:
    record = record_of(request)
    found = await gateway_of(request).call(call.name, call.arguments, record)
    return ToolResult(
        content=[TextContent(text=f"Tool '{call.name}' executed successfully")],
        isError=False,
        structuredContent=found,
        _tool_name=call.name,
        _execution_time_ms=record.tool_ms or 0.0,
        _request_id=record.request_id,
    )
