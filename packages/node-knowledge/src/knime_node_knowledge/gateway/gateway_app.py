"""Puts a gateway together: its tools and keys, the two web applications, and their listeners.

The public application is for other machines, the internal one for programs on this machine.
"""

from __future__ import annotations

import ssl
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from knime_mcp.types.errors import SettingInvalid
from knime_mcp.version import VERSION
from knime_mcp.web import listening

from ..node_service import NodeKnowledgeMCPService
from .api_keys import KeyStore
from .endpoints import INTERNAL, PUBLIC
from .gateway import Gateway, ToolRegistry
from .gateway_errors import Envelope, failure, invalid_request
from .gateway_settings import is_loopback
from .mcp_endpoint import MCPEndpoint
from .node_retriever import CatalogueKnowledge
from .observing import LOGGER, REQUEST_ID, GatewaySpans, Metrics, Observed, record_of, spans_from_environment
from .request_guard import from_elsewhere, noted

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from ..catalogue_reader import Catalogue
    from ..tool_definitions import KnowledgeTool
    from .access_tokens import TokenVerifier
    from .gateway import ToolSource
    from .gateway_settings import GatewaySettings


_NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False}
"""`Observed` makes spans and metrics; with FastAPI's own, each request would have two."""


@contextmanager
def opened_gateway(
    settings: GatewaySettings, catalogue: Catalogue, *, spans: GatewaySpans | None = None
) -> Generator[Gateway]:
    """Opens a gateway, and closes it, but not its catalogue. Without `spans`, ``OTEL_*`` counts."""
    with ExitStack() as stack:
        keys = stack.enter_context(KeyStore(settings.gateway_keys_file))
        watching = spans or spans_from_environment()
        stack.callback(watching.close)
        metrics = Metrics()
        sources: list[ToolSource] = [NodeKnowledgeMCPService(catalogue)]
        if settings.supabase() is None:
            threshold = settings.node_knowledge_default_threshold
            sources.append(CatalogueKnowledge(catalogue, threshold=threshold))
        else:
            # Imported here, as its HTTP client takes long to load.
            from .outside_services import SupabaseKnowledge

            supabase = SupabaseKnowledge(settings, on_lookup=metrics.lookups("supabase"))
            stack.callback(supabase.close)
            sources.append(supabase)
        if settings.elasticsearch_indices:
            from .elasticsearch_tool import ElasticsearchTool

            elasticsearch = ElasticsearchTool(settings)
            stack.callback(elasticsearch.close)
            sources.append(elasticsearch)
        yield Gateway(
            settings=settings,
            registry=ToolRegistry(sources, most_results=settings.mcp_max_results_per_tool),
            catalogue=catalogue,
            keys=keys,
            tokens=_tokens(settings),
            metrics=metrics,
            spans=watching,
        )


def _tokens(settings: GatewaySettings) -> TokenVerifier | None:
    if settings.gateway_oauth_issuer is None:
        return None
    from .access_tokens import TokenVerifier  # imported here, as cryptography takes long to load

    return TokenVerifier(settings)


def public_app(gateway: Gateway) -> FastAPI:
    """The application for other machines: every endpoint except public health needs a key."""
    app = _app(gateway, "public", "Node knowledge", "The node knowledge and its tools over HTTP.")
    for part in PUBLIC:
        app.include_router(part)
    app.state.mcp = MCPEndpoint(gateway)
    app.state.mcp.add_to(app)
    if gateway.settings.gateway_cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=gateway.settings.cors_origins,
            allow_methods=["GET", "POST"],
            # Any: MCP has headers of its own for each parameter (Mcp-Param-*), tracing has its own.
            allow_headers=["*"],
            expose_headers=[REQUEST_ID, "Retry-After", "WWW-Authenticate"],
        )
    # The one that is added last is outermost, and so also sees what the others refuse.
    app.add_middleware(Observed)
    return app


def internal_app(gateway: Gateway) -> FastAPI:
    """The application for programs on this machine: no keys, no envelope."""
    app = _app(
        gateway, "internal", "Node knowledge, internal", "The same tools for programs on this machine."
    )
    for part in INTERNAL:
        app.include_router(part)
    app.add_middleware(ThisMachineOnly)
    app.add_middleware(Observed)
    return app


class ThisMachineOnly:
    """ASGI middleware that refuses requests of foreign pages, even if their host name is this machine's.

    Such pages could use local servers: https://github.com/advisories/GHSA-9h52-p55h-vw2f.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            try:
                # Of a header that is no host, Starlette would make the server's own.
                host = urlsplit(f"//{request.headers.get('host', 'localhost')}").hostname or ""
            except ValueError:
                host = ""
            if from_elsewhere(request) or not is_loopback(host):
                error = noted(
                    request, invalid_request("This listener is for programs on this machine.", status=403)
                )
                await failure(error, Envelope.PLAIN, record_of(request))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _app(gateway: Gateway, listener: str, title: str, description: str) -> FastAPI:
    app = FastAPI(
        title=title,
        description=description,
        version=VERSION,
        docs_url="/docs" if gateway.settings.debug else None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
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
    return failure(mcp_error, Envelope.PLAIN, record_of(request))


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


def _call(tool: KnowledgeTool, name: str, arguments: str, more: dict[str, Any]) -> dict[str, Any]:
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


async def serve(
    gateway: Gateway, *, on_ready: Callable[[str, str | None], None], stop: asyncio.Event | None = None
) -> None:
    """Serves a gateway until SIGINT or SIGTERM, and until all running requests have been answered.

    The event `stop` ends it, too: threads receive no signals.
    """
    public, internal = public_app(gateway), internal_app(gateway)
    listeners = _listeners(gateway.settings, public, internal)
    async with public.state.mcp.running():
        await listening.serve(
            listeners,
            on_ready=lambda urls: on_ready(urls[0], urls[1] if len(urls) > 1 else None),
            stop=stop,
        )


def _listeners(settings: GatewaySettings, public: FastAPI, internal: FastAPI) -> list[listening.Listener]:
    if settings.needs_tls_warning:
        LOGGER.warning(
            "Keys travel unencrypted: this gateway listens beyond this machine on plain HTTP. Set"
            " GATEWAY_TLS_CERTIFICATE and GATEWAY_TLS_KEY, or GATEWAY_BEHIND_PROXY behind an HTTPS proxy."
        )
    listeners = [_listener(settings, public, settings.gateway_host, settings.gateway_port, **_tls(settings))]
    if settings.gateway_internal_port >= 0:
        host, port = settings.gateway_internal_host, settings.gateway_internal_port
        listeners.append(_listener(settings, internal, host, port))
    return listeners


def _listener(
    settings: GatewaySettings, app: FastAPI, host: str, port: int, **tls: Any
) -> listening.Listener:
    return listening.Listener(
        app,
        host,
        port,
        # At the end a call that runs is still answered.
        grace=int(settings.gateway_tool_timeout) + 1,
        lifespan="off",
        server_header=False,
        limit_concurrency=settings.gateway_max_connections,
        **tls,
    )


def _tls(settings: GatewaySettings) -> dict[str, Any]:
    chain, key = settings.gateway_tls_certificate, settings.gateway_tls_key
    if chain is None or key is None:
        return {}
    try:
        # Checked here, as the server's own errors do not name the files.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, password="")
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise SettingInvalid(
            f"The certificate {chain} cannot be used with the key {key}: {why}",
            setting="GATEWAY_TLS_CERTIFICATE",
            fix="Both are PEM files; the key is not encrypted.",
        ) from None
    return {"ssl_certfile": chain, "ssl_keyfile": key}
