"""``POST /mcp``: the MCP server of node knowledge behind the gateway's keys, scopes, limits and observation.

It is the one of ``nodes serve --http``, which has none of these. Clients send the key as ``X-API-Key`` or, as
most of them can, as a bearer token.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ...types.errors import MCPError as BaseError
from ...web.listening import WholeRequests
from ..mcp_server import ServedTools, mcp_app
from ..node_service import NodeKnowledgeMCPService
from ..tool_definitions import TOOLS, TOOLS_BY_NAME
from .api_keys import Scope as KeyScope
from .gateway_errors import Envelope, MCPError, as_mcp_error, failure, invalid_request
from .observing import LEFT, record_of
from .request_guard import KEY_HEADER, admit_key, from_elsewhere, noted, presented_key, require, with_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from starlette.types import Receive, Scope, Send

    from .gateway import Gateway
    from .observing import RequestRecord

PATH: Final = "/mcp"
_record: ContextVar[RequestRecord] = ContextVar("record of the request")


class MCPEndpoint:
    """The ASGI application of the endpoint; it answers only within `running`."""

    path = PATH  # for logs and metrics, like that of FastAPI's routes

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        # The SDK's own check allows no names of hosts but this machine's, even behind a proxy.
        self._sdk = mcp_app(ServedTools(_ObservedService(gateway)), checks_host=False)
        self._app = WholeRequests(self._sdk)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self._sdk.router.lifespan_context(self._sdk):
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        try:
            request = await self._admitted(request)
        except ClientDisconnect:
            await Response(status_code=LEFT)(scope, receive, send)  # for the log only, as the client is gone
        except Exception as error:
            refused = noted(request, as_mcp_error(error))
            await failure(refused, Envelope.PLAIN, record_of(request))(scope, receive, send)
        else:
            _record.set(record_of(request))
            await self._app({**scope}, request.receive, send)  # a copy, as the SDK puts itself into it

    async def _admitted(self, request: Request) -> Request:
        """The request with its body; everything else is checked before the body is read."""
        self._gateway.tools()
        origin = request.headers.get("origin", "")
        if from_elsewhere(request) and origin not in self._gateway.settings.cors_origins:
            raise invalid_request("Web pages of other origins may not call this server.", status=403)
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        sent = request.headers.getlist(KEY_HEADER)
        if not sent and kind.lower() == "bearer":
            sent = [token.strip()]
        key = presented_key(request, sent)
        admit_key(request, key)
        request = await with_body(request, kind="application/json")
        require(request, key, KeyScope.TOOLS_EXECUTE if _calls(await request.body()) else KeyScope.TOOLS_READ)
        return request


def _calls(body: bytes) -> bool:
    """Returns whether a body may call a tool; the SDK says what is wrong with one that is no request."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, dict):
        return isinstance(message, list)  # several at once, as in revision 2025-03-26
    return cast("dict[str, Any]", message).get("method") == "tools/call"


class _ObservedService(NodeKnowledgeMCPService):
    """Counts calls, and gives them spans; the definitions have the gateway's limits."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.catalogue, [gateway.registry.find(tool.name) for tool in TOOLS])
        self._gateway = gateway

    def invoke_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if name not in TOOLS_BY_NAME:
            return super().invoke_tool(name, arguments)  # which says what there is
        try:
            with self._gateway.observed(name, arguments or {}, _record.get()):
                return super().invoke_tool(name, arguments)
        except MCPError as error:
            raise BaseError(error.user_message) from None
