"""The two web applications: a public one, and an internal one for programs on this machine."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from ...version import VERSION
from .admission import KEY_HEADER, from_elsewhere
from .endpoints import INTERNAL, PUBLIC
from .envelope import Envelope, failure
from .errors import invalid_request
from .middleware import REQUEST_ID, Observed, record_of
from .page.rendering import error_page, wants_html
from .page.routes import page_router
from .routing import noted
from .settings import is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ..tool_definitions import ToolDefinition
    from .gateway import Gateway
    from .tool_registry import ToolRegistry


def public_app(gateway: Gateway) -> FastAPI:
    """The application for other machines: every endpoint except public health needs a key."""
    app = _app(gateway, "public", "Node knowledge", "The node knowledge and its tools over HTTP.")
    for part in (*PUBLIC, page_router(with_keys=True)):
        app.include_router(part)
    if gateway.settings.gateway_cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[origin.rstrip("/") for origin in gateway.settings.gateway_cors_origins],
            allow_methods=["GET", "POST"],
            allow_headers=[KEY_HEADER, "Content-Type", REQUEST_ID],
            expose_headers=[REQUEST_ID, "Retry-After"],
        )
    app.add_middleware(Observed)
    return app


def internal_app(gateway: Gateway) -> FastAPI:
    """The application for programs on this machine: no keys, no envelope."""
    app = _app(
        gateway, "internal", "Node knowledge, internal", "The same tools for programs on this machine."
    )
    for part in (*INTERNAL, page_router(with_keys=False)):
        app.include_router(part)
    app.add_middleware(ThisMachineOnly)
    app.add_middleware(Observed)
    return app


class ThisMachineOnly:
    """ASGI middleware that refuses requests of foreign pages, even if their host name is this machine's.

    Such pages could use local servers: https://github.com/advisories/GHSA-9h52-p55h-vw2f. A link from another
    page is allowed, as that page cannot read the answer.

    Args:
        app: The application that answers the other requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "http":
            request = Request(scope)
            link = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
            foreign = from_elsewhere(request) and not link
            if foreign or not is_loopback(_host_of(request)):
                error = noted(
                    request, invalid_request("This listener is for programs on this machine.", status=403)
                )
                await failure(error, Envelope.PLAIN, record_of(request))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _host_of(request: Request) -> str:
    """The host in the request's header. For an invalid header, Starlette returns the server's own host."""
    try:
        return urlsplit(f"//{request.headers.get('host', 'localhost')}").hostname or ""
    except ValueError:
        return ""


def _app(gateway: Gateway, listener: str, title: str, description: str) -> FastAPI:
    app = FastAPI(
        title=title,
        description=description,
        version=VERSION,
        docs_url="/docs" if gateway.settings.debug else None,
        redoc_url=None,
        redirect_slashes=False,
        # `Observed` makes spans and metrics; with FastAPI's own, each request would have two.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.gateway, app.state.listener = gateway, listener
    app.openapi = cache(partial(_document, app, gateway.registry))  # see FastAPI's "Extending OpenAPI"
    app.add_exception_handler(HTTPException, _no_such_endpoint)
    return app


async def _no_such_endpoint(request: Request, error: Exception) -> Response:
    """Answers requests that match no endpoint: an unknown path, or another method."""
    assert isinstance(error, HTTPException)
    what = {404: "There is no such endpoint.", 405: "This endpoint does not take this method."}
    mcp_error = noted(
        request,
        invalid_request(
            what.get(error.status_code, str(error.detail)),
            status=error.status_code,
            headers=dict(error.headers or {}),
        ),
    )
    return (
        error_page(request, mcp_error)
        if wants_html(request)
        else failure(mcp_error, Envelope.PLAIN, record_of(request))
    )


def _document(app: FastAPI, registry: ToolRegistry) -> dict[str, Any]:
    """The OpenAPI document, in which calls have the schema of each tool."""
    # Not `app.openapi`, which calls this function.
    document = FastAPI.openapi(app)
    schemas = document["components"]["schemas"]
    for path in document["paths"].values():
        for operation in path.values():
            # This gateway answers invalid requests with 400, not with FastAPI's 422.
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    tools = registry.get_available_tools()
    for model, name, arguments in (
        ("ToolCall", "name", "arguments"),
        ("RPCParams", "name", "arguments"),
        ("MCPInvokeRequest", "tool_name", "params"),
    ):
        if model in schemas:
            found = schemas[model]
            more = {key: value for key, value in found["properties"].items() if key not in (name, arguments)}
            schemas[model] = {
                "title": model,
                "description": found["description"],
                "oneOf": [_call(tool, name, arguments, more) for tool in tools],
            }
    return document


def _call(tool: ToolDefinition, name: str, arguments: str, more: dict[str, Any]) -> dict[str, Any]:
    wanted = [name, arguments] if tool.parameters.get("required") else [name]
    return {
        "title": tool.name,
        "type": "object",
        "properties": {
            name: {"const": tool.name},
            arguments: {**tool.parameters, "description": tool.description},
            **more,
        },
        "required": wanted,
        "additionalProperties": False,
        "examples": [{name: tool.name, arguments: dict(example)} for example in tool.usage_examples],
    }
