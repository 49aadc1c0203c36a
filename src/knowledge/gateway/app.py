"""The two web applications: the public one, and the one for this machine only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from ...version import VERSION
from .admission import KEY_HEADER
from .endpoints.health import health_router, public_health_router
from .endpoints.internal import internal_router
from .endpoints.mcp import mcp_router
from .endpoints.simple import simple_router
from .envelope import Envelope, failure
from .errors import invalid_request
from .middleware import REQUEST_ID, Observed
from .routing import gateway_of, record_of
from .settings import is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .gateway import Gateway


def public_app(gateway: Gateway) -> FastAPI:
    """What other machines may reach: every endpoint but public health asks for a key."""
    app = _app(gateway, "Node knowledge", "The node knowledge and its tools over HTTP.")
    # Before `/tools/{tool_name}` could take anything for a name of a tool.
    app.include_router(health_router())
    app.include_router(public_health_router())
    app.include_router(mcp_router())
    app.include_router(simple_router())
    if gateway.settings.gateway_cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(gateway.settings.gateway_cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=[KEY_HEADER, "Content-Type", REQUEST_ID],
            expose_headers=[REQUEST_ID, "Retry-After"],
        )
    app.add_middleware(Observed, gateway=gateway, listener="public")
    return app


def internal_app(gateway: Gateway) -> FastAPI:
    """What only programs on this machine may reach: no keys, no envelope."""
    app = _app(gateway, "Node knowledge, internal", "The same tools for programs on this machine.")
    app.include_router(public_health_router())
    app.include_router(internal_router())
    app.add_middleware(NotForBrowsers)
    app.add_middleware(Observed, gateway=gateway, listener="internal")
    return app


class NotForBrowsers:
    """ASGI middleware that lets in no web page, not even one whose name was made to point to this machine.

    https://github.com/advisories/GHSA-9h52-p55h-vw2f says what happens to local servers that do.

    Args:
        app: What answers all others.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "http":
            request = Request(scope)
            host = request.url.hostname or ""
            if "origin" in request.headers or not is_loopback(host):
                error = invalid_request("This listener is for programs on this machine.", status=403)
                record = record_of(request)
                record.error_type, record.error = error.error_type.value, error.message
                await failure(error, Envelope.PLAIN, record)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _app(gateway: Gateway, title: str, description: str) -> FastAPI:
    app = FastAPI(
        title=title,
        description=description,
        version=VERSION,
        docs_url="/docs" if gateway.settings.debug else None,
        redoc_url=None,
        redirect_slashes=False,
        # `Observed` makes spans and figures; FastAPI's own would come a second time.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.gateway = gateway
    app.openapi = lambda: _document(app)  # how FastAPI wants it: its "Extending OpenAPI"
    app.add_exception_handler(HTTPException, _no_such_endpoint)
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document without FastAPI's 422: what is wrong with a request is a 400 here."""
    if not app.openapi_schema:
        document = FastAPI.openapi(app)
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        app.openapi_schema = document
    return app.openapi_schema


async def _no_such_endpoint(request: Request, error: Exception) -> Response:
    """Answers what no endpoint took: an unknown path, or another method."""
    assert isinstance(error, HTTPException)
    what = {404: "There is no such endpoint.", 405: "This endpoint does not take this method."}
    told = invalid_request(
        what.get(error.status_code, str(error.detail)),
        status=error.status_code,
        headers=dict(error.headers or {}),
    )
    record = record_of(request)
    record.error_type, record.error = told.error_type.value, told.message
    gateway_of(request).metrics.error(told.error_type.value)
    return failure(told, Envelope.PLAIN, record)
