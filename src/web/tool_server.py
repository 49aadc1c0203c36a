"""Serves tools to MCP clients with the official SDK, over standard input and output or streamable HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import DEFAULT_SESSION_IDLE_TIMEOUT, StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route

from ..system import on_ending

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.session import ServerSession
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    _Context = ServerRequestContext[Any, Any]

_log = logging.getLogger(__name__)

PATH: Final = "/mcp"
#: The addresses at which only programs of this machine reach a server.
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_LOCAL_HOSTS: Final = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
_SESSION: Final = b"mcp-session-id"

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Receives progress: done, total, text."""


class Refused(Exception):  # noqa: N818 - the request is at fault
    """A call of a tool that there is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """See ``serverInfo``."""

    name: str
    title: str | None
    version: str
    instructions: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """A call that a client requests."""

    tool: str
    arguments: Mapping[str, Any] | None
    meta: Mapping[str, Any]  # the request's ``_meta``
    any_json: bool


class Service(Protocol):
    """A provider of tools."""

    @property
    def info(self) -> Info: ...

    async def tools(self, *, any_json: bool) -> list[dict[str, Any]]:
        """As MCP lists them; `any_json`: the client takes results that are not objects."""
        ...

    async def call(self, asked: RequestedCall, report: Report | None = None) -> dict[str, Any]:
        """Runs a tool; canceling the coroutine ends the run. The result may be that of a call that failed.

        Raises `Refused` if there is no such tool, and the server does not report that in a result.
        """
        ...


class ToolServer:
    """Serves the tools of a service. They are always the same ones, or `changing`, and then `tell_of_change`.

    Tools that are always the same may be kept by clients for an hour, and need no sessions over HTTP.
    """

    def __init__(self, service: Service, *, changing: bool = False) -> None:
        self._service = service
        self._changing = changing
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus)
        self._sessions = _Sessions()
        info = service.info
        kept = CacheHint(ttl_ms=3_600_000, scope="public")
        self._server: Server[Any] = (_ChangingServer if changing else Server)(
            info.name,
            version=info.version,
            title=info.title,
            instructions=info.instructions,
            cache_hints={} if changing else {"tools/list": kept, "server/discover": kept},
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listeners if changing else None,
        )

    def run_stdio(self, *beside: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Serves one client over standard input and output; returns whether a signal ended it.

        What is `beside` runs as long. After a signal a thread still waits for a line, for which the
        interpreter would wait at its end.
        """
        # Not `asyncio.run`, which would wait for that thread, too.
        loop = asyncio.new_event_loop()
        signaled = loop.run_until_complete(self._until_signal(*beside))
        if not signaled:
            loop.close()
        return signaled

    async def _until_signal(self, *beside: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        stop = asyncio.Event()
        ignore_signals = on_ending(asyncio.get_running_loop(), stop.set)
        serving = asyncio.create_task(self._serve_stdio())
        others = [asyncio.create_task(stop.wait()), *(asyncio.create_task(task()) for task in beside)]
        await asyncio.wait([serving, others[0]], return_when=asyncio.FIRST_COMPLETED)
        signaled = not serving.done()
        for task in others:
            task.cancel()
        await asyncio.wait(others)
        ignore_signals()
        if not signaled:
            serving.result()
        return signaled

    async def _serve_stdio(self) -> None:
        async with stdio_server() as (reader, writer):
            await self._server.run(reader, writer, self._server.create_initialization_options())

    def http_app(self, *, checks_host: bool, tokens: Iterable[str] | None = None) -> Starlette:
        """The server as a web application.

        `checks_host` refuses requests to other hosts than this machine, which pages of foreign sites could
        send. With `tokens`, one of them is wanted as a bearer token.
        """
        manager = StreamableHTTPSessionManager(
            self._server,
            json_response=not self._changing,
            stateless=not self._changing,
            security_settings=TransportSecuritySettings(
                enable_dns_rebinding_protection=checks_host,
                allowed_hosts=_LOCAL_HOSTS,
                allowed_origins=[f"http://{host}" for host in _LOCAL_HOSTS],
            ),
        )
        app: ASGIApp = WholeRequests(self._sessions.seen(manager.handle_request))
        middleware: list[Middleware] = []
        if tokens is not None:
            app = RequireAuthMiddleware(app, [])
            backend = BearerAuthBackend(_Tokens(tokens))
            middleware = [Middleware(AuthenticationMiddleware, backend=backend)]
        # A class, as a route takes a function for one that gets a request.
        routes = [Route(path, app) for path in (PATH, f"{PATH}/")]
        return Starlette(routes=routes, middleware=middleware, lifespan=lambda _: manager.run())

    def end_streams(self) -> None:
        """Ends the streams of those who listen for changes."""
        self._listeners.close()

    async def tell_of_change(self) -> None:
        """The list of tools has changed."""
        info = self._service.info
        self._server.name, self._server.version = info.name, info.version
        self._server.title, self._server.instructions = info.title, info.instructions
        await self._bus.publish(ToolsListChanged())
        for session in self._sessions.all():
            await session.send_tool_list_changed()

    async def _list_tools(
        self, ctx: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._sessions.remember(ctx)
        if params is not None and params.cursor:  # some clients send an empty cursor first
            raise MCPError(types.INVALID_PARAMS, "All tools are on the first page; leave out the cursor.")
        return types.ListToolsResult.model_validate(
            {"tools": await self._service.tools(any_json=_takes_any_json(ctx))}
        )

    async def _call_tool(self, ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self._sessions.remember(ctx)
        meta = cast("dict[str, Any]", ctx.meta or {})
        asked = RequestedCall(
            tool=params.name, arguments=params.arguments, meta=meta, any_json=_takes_any_json(ctx)
        )
        wants_progress = meta.get("progress_token", meta.get("progressToken")) is not None
        report = ctx.session.report_progress if wants_progress else None
        try:
            result = await self._service.call(asked, report)
        except Refused as refused:
            raise MCPError(types.INVALID_PARAMS, str(refused)) from None
        return types.CallToolResult.model_validate(result)


def _takes_any_json(ctx: _Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


class _ChangingServer(Server[Any]):
    """Announces over every transport that the list of tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *args, **more)


class _Sessions:
    """Through which clients that began with a handshake are told of changes; others subscribe.

    The SDK does not say when a session over HTTP ends: it is deleted, or nobody asks for half an hour.
    """

    def __init__(self) -> None:
        self._last: dict[str, ServerSession] = {}
        self._running: dict[str, int] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def all(self) -> list[ServerSession]:
        return list(self._last.values())

    def remember(self, ctx: _Context) -> None:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            name = "" if ctx.request is None else ctx.request.headers.get(_SESSION.decode())
            if name is not None:
                self._last[name] = ctx.session

    def seen(self, app: ASGIApp) -> ASGIApp:
        """The application, whose requests keep sessions alive."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            name = dict(scope["headers"]).get(_SESSION, b"").decode("latin-1")
            if not name:
                await app(scope, receive, send)
                return
            self._running[name] = self._running.get(name, 0) + 1
            if name in self._ends:
                self._ends.pop(name).cancel()
            try:
                await app(scope, receive, send)
            finally:
                self._running[name] -= 1
                if scope["method"] == "DELETE":
                    self._forget(name)
                if not self._running[name]:
                    del self._running[name]
                    if name in self._last:
                        loop = asyncio.get_running_loop()
                        self._ends[name] = loop.call_later(DEFAULT_SESSION_IDLE_TIMEOUT, self._forget, name)

        return watched

    def _forget(self, name: str) -> None:
        self._last.pop(name, None)
        self._ends.pop(name, None)


class _Tokens:
    """Knows bearer tokens; a session belongs to the token that began it."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._digests = {_digest(token) for token in tokens}

    async def verify_token(self, token: str) -> AccessToken | None:
        digest = _digest(token)
        return AccessToken(token="", client_id=digest, scopes=[]) if digest in self._digests else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


_MAYBE_NO_ID: Final = re.compile(rb'"id"\s*:\s*(?:[\[{ntf]|-?[0-9]+[.eE])')
_ERROR: Final = {"code": types.INVALID_REQUEST, "message": "An id is text or a whole number"}
_REFUSAL: Final = json.dumps({"jsonrpc": "2.0", "id": None, "error": _ERROR}).encode()


class WholeRequests:
    """ASGI middleware that passes on a request when its body is complete; clients may leave before.

    A request whose id is null, true or 1.5, for example, is refused: the SDK treats it as a notification. The
    application limits the size of bodies.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts: list[Message] = []
        size = 0
        while not parts or (parts[-1].get("more_body") and size <= DEFAULT_MAX_REQUEST_BODY_SIZE):
            parts.append(await receive())
            if parts[-1]["type"] == "http.disconnect":
                _log.info("A client left before its request was complete")
                return
            size += len(parts[-1].get("body", b""))
        if _has_no_id(b"".join(part.get("body", b"") for part in parts)):
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSAL})
            return
        begun = iter(parts)

        async def again() -> Message:
            return next(begun, None) or await receive()

        await self._app(scope, again, send)


def _has_no_id(body: bytes) -> bool:
    """Whether a body is a request whose id is invalid."""
    if _MAYBE_NO_ID.search(body) is None:
        return False
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return False  # the SDK reports it
    message = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    number = message.get("id", "")
    return "method" in message and (isinstance(number, bool) or not isinstance(number, str | int))
