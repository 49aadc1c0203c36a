"""What only programs on the same machine reach: the tools without key and envelope, and the figures."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ..envelope import Envelope, answer, tool_result
from ..metrics import CONTENT_TYPE
from ..models import MCPToolList, ToolCall, ToolResult
from ..routing import gateway_of, record_of, router
from .mcp import PREFIX, tool_list


def internal_router() -> APIRouter:
    """The endpoints of the internal listener."""
    group = APIRouter(tags=["internal"])
    listing = router(Envelope.PLAIN, scope=None, errors=(503,))
    calling = router(Envelope.INTERNAL, scope=None, errors=(400, 404, 408, 413, 415, 503))

    @listing.get(f"{PREFIX}/tools/internal", response_model=MCPToolList)
    async def list_internally(request: Request) -> Response:
        """List the tools."""
        return answer(tool_list(gateway_of(request).tools()))

    @calling.post(f"{PREFIX}/invoke/internal", response_model=ToolResult)
    async def invoke_internally(request: Request, body: ToolCall) -> Response:
        """Call a tool."""
        record = record_of(request)
        found = await gateway_of(request).call(body.name, body.arguments, record)
        return answer(tool_result(body.name, found, record))

    @listing.get("/metrics", response_class=Response)
    def metrics(request: Request) -> Response:
        """The figures, as Prometheus reads them."""
        gateway = gateway_of(request)
        text = gateway.metrics.exposed(healthy=gateway.problem() is None)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    group.include_router(listing)
    group.include_router(calling)
    return group
