"""``/mcp``: the MCP server of node knowledge behind keys, logins, scopes, limits and observation.

Clients send a key as ``X-API-Key`` or, as most of them can, as a bearer token, or the token of a login.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from knime_mcp.types.errors import MCPError as BaseError
from knime_mcp.web.tool_server import PATH
from knime_mcp.yaml_text import as_mapping

from ..mcp_server import tool_server
from ..node_service import NodeKnowledgeMCPService
from ..tool_definitions import TOOLS, TOOLS_BY_NAME
from .access_tokens import METADATA_PATH
from .api_keys import Scope as KeyScope
from .gateway_errors import Envelope, MCPError, as_mcp_error, failure, invalid_request, unavailable
from .observing import LEFT, record_of
from .request_guard import admit_caller, caller_of, from_elsewhere, noted, replayed, require, with_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

    from .gateway import Gateway
    from .observing import RequestRecord

_record: ContextVar[RequestRecord] = ContextVar("record of the request")


class MCPEndpoint:
    """The ASGI application of the endpoint; it answers only within `running`."""

    path = PATH  # for logs and metrics, like that of FastAPI's routes

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        # The SDK's own check allows no names of hosts but this machine's, even behind a proxy.
        self._app = tool_server(_ObservedService(gateway)).http_app(checks_host=False)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self._app.router.lifespan_context(self._app):
            yield

    def add_to(self, app: FastAPI) -> None:
        """Adds the endpoint, and where its clients can log in (RFC 9728), also where some look for that."""
        for path in (PATH, f"{PATH}/"):
            app.router.routes.append(Route(path, self, methods=["POST"]))
        if (tokens := self._gateway.tokens) is not None:

            async def metadata(_: Request) -> Response:
                return JSONResponse(tokens.metadata(), headers={"Access-Control-Allow-Origin": "*"})

            for path in (METADATA_PATH + PATH, METADATA_PATH):
                app.router.routes.append(Route(path, metadata))

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
        if not self._gateway.settings.mcp_enabled:
            raise unavailable("MCP_ENABLED is false", "The tools are switched off on this gateway.")
        origin = request.headers.get("origin", "")
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning:
        # against DNS rebinding.
        if from_elsewhere(request) and origin not in self._gateway.settings.cors_origins:
            raise invalid_request("Web pages of other origins may not call this server.", status=403)
        caller = await caller_of(request)
        admit_caller(request, caller)
        request = await with_body(request)
        body = await request.body()
        # The scope depends on what is asked for, which only the body says.
        called = _called(body)
        require(request, caller, KeyScope.TOOLS_READ if called is None else KeyScope.TOOLS_EXECUTE)
        if called is not None and called in TOOLS_BY_NAME:
            record_of(request).tool = called
        # The SDK reads the body itself, and it can be read from the connection once only.
        return replayed(request, body)


def _called(body: bytes) -> str | None:
    """The tool that a body calls, if any. The SDK says what is wrong with a body that is no request."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(message, list):
        return ""  # several at once, as in revision 2025-03-26, may call some
    found = as_mapping(message)
    if found.get("method") != "tools/call":
        return None
    params = found.get("params")
    return str(cast("dict[str, Any]", params).get("name")) if isinstance(params, dict) else ""


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
                return self._gateway.noted(name, super().invoke_tool(name, arguments))
        except MCPError as error:
            raise BaseError(error.user_message) from None
