"""Serves the tools of a document through the official SDK: over HTTP, and over its message streams."""

from __future__ import annotations

import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self, cast
from weakref import WeakSet

import mcp_types as types
from anyio.abc import AsyncResource
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..stdio.session import TOOLS_CHANGED, Refused, RequestedCall, Service

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions

    from ..stdio.pipes import Incoming, OutputPipe

    OnResult = Callable[[str, str, float], None]
    """Told of each call: its tool, ``ok`` or the kind of error, and its seconds."""

_log = logging.getLogger(__name__)


# The SDK makes a session per request and names nothing public that lives as long as the client. Its
# connection does; held weakly, it tells when the client is gone.
_CONNECTION = "_connection"
_reads = cast("Any", ServerSession.client_params).fget.__code__.co_names
if _CONNECTION not in _reads:
    raise ImportError(
        "The installed mcp keeps connections in another place, and clients could not be told of a changed"
        " document. Install a version that fits: pip install 'mcp>=2.3,<3'."
    )


class _Server(Server[Any]):
    """Announces over every transport that the list of tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *args, **more)


class Served(Service, Protocol):
    """Tools that may change while they are served.

    Attributes:
        on_change: Called after the list has changed; set by the server.
    """

    on_change: Callable[[], Coroutine[Any, Any, None]] | None

    @property
    def is_observed(self) -> bool:
        """Whether messages are to have spans."""
        ...

    def close(self) -> None: ...


class GraphServer:
    """Serves a document; its `server` is the SDK's, to be run over a transport."""

    def __init__(self, service: Served, *, on_result: OnResult | None = None) -> None:
        self._service = service
        self._on_result = on_result
        self._connections: WeakSet[Any] = WeakSet()
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus)
        info = service.info
        self.server: Server[Any] = _Server(
            info.name,
            version=info.version,
            title=info.title,
            instructions=info.instructions,
            on_list_tools=self._on_list_tools,
            on_call_tool=self._on_call_tool,
            on_subscriptions_listen=self._listeners,
        )
        self._names: set[str] = set()
        if not service.is_observed:
            self.server.middleware.clear()  # it only makes a span per message
        service.on_change = self._tell_of_change

    async def run(self, reader: Any, writer: Any) -> None:
        """Serves one client over a pair of the SDK's streams, in the protocol era of its first message."""
        await self.server.run(reader, writer, self.server.create_initialization_options())

    def tool_names(self) -> set[str]:
        """The tools that clients have been told of or have called."""
        return self._names

    def end_streams(self) -> None:
        self._listeners.close()

    async def _tell_of_change(self) -> None:
        info = self._service.info
        self.server.name, self.server.version = info.name, info.version
        self.server.title, self.server.instructions = info.title, info.instructions
        await self._bus.publish(ToolsListChanged())
        for connection in list(self._connections):
            try:
                await connection.notify(TOOLS_CHANGED, None)
            # One client that is gone must not keep the others from being told.
            except Exception as error:
                _log.debug("a client was not told of the change: %s", type(error).__name__)

    async def _on_list_tools(
        self, ctx: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(ctx)
        tools = await self._service.tools(any_json=_takes_any_json(ctx))
        self._names = {tool["name"] for tool in tools}
        return types.ListToolsResult.model_validate({"tools": tools})

    async def _on_call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self._remember(ctx)
        meta = cast("dict[str, Any]", ctx.meta or {})
        asked = RequestedCall(
            tool=params.name, arguments=params.arguments, meta=meta, any_json=_takes_any_json(ctx)
        )
        wants_progress = meta.get("progress_token", meta.get("progressToken")) is not None
        report = ctx.session.report_progress if wants_progress else None
        started = time.perf_counter()
        try:
            result = await self._service.call(asked, report)
        except Refused as refused:
            raise MCPError(refused.code, str(refused), refused.data or None) from None
        if self._on_result is not None:
            failed = "SERVICE_ERROR" if result.get("isError") else "ok"
            self._on_result(params.name, failed, time.perf_counter() - started)
        return types.CallToolResult.model_validate(result)

    def _remember(self, ctx: ServerRequestContext[Any, Any]) -> None:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._connections.add(getattr(ctx.session, _CONNECTION))


def _takes_any_json(ctx: ServerRequestContext[Any, Any]) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


@asynccontextmanager
async def sdk_streams(lines: tuple[Incoming, OutputPipe] | None) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams that the SDK's server reads from and writes to; without lines, the SDK's own.

    The SDK's own use a thread for each line, and an additional stream and task for each message.
    """
    if lines is None:
        async with stdio_server() as streams:
            yield streams
    else:
        yield _Reader(lines[0]), _Writer(lines[1])


class _Stream(AsyncResource):
    """The methods that the SDK needs from its streams."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines

    async def aclose(self) -> None:
        self._lines.close()


class _Reader(_Stream):
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        line: bytes = await anext(self._lines)
        try:
            return SessionMessage(
                jsonrpc_message_adapter.validate_json(line.decode("utf-8", "replace"), by_name=False)
            )
        except ValueError as error:
            return error


class _Writer(_Stream):
    async def send(self, item: SessionMessage, /) -> None:
        await self._lines.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))
