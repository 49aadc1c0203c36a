"""The MCP server of a document: lists its tools and runs them, for any number of clients at once."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import serve_loop
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...types.canonical import without_surrogates
from ..execution.brief import BriefRuns
from ..execution.control import Hooks
from ..execution.failures import RunError
from ..execution.spans import is_traced
from .pipes import Incoming

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions

    from ..api import McpGraphApi
    from ..execution.executor import RunResult
    from ..model import ToolDefinition
    from ..nodes import Node

_log = logging.getLogger(__name__)

HISTORY_KEY: Final = "knime-mcp/history"
"""In a call's ``_meta``: true asks for the history, which comes in the result's ``_meta`` under this name."""

_MOST_RUNS: Final = 256
_END_SECONDS: Final = 5.0
_to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Server(Server[Any]):
    """Says over every transport that its list of tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *args, **more)


class GraphServer:
    """Serves a document, which may be replaced while it is served.

    Args:
        api: The document and what runs it; closed when it is replaced, or with the server.
        output_schemas: Whether the list of tools has the output schemas.

    Attributes:
        server: The SDK's server, to be run over a transport.
    """

    def __init__(self, api: McpGraphApi, *, output_schemas: bool = True) -> None:
        self._output_schemas = output_schemas
        self._used_changed = threading.Condition()
        self._used_by: Counter[McpGraphApi] = Counter()
        self._api = api
        self._brief = BriefRuns(api.executor)
        self._listed = self._list(api)
        self._closing = threading.Event()
        self._connections: WeakSet[Any] = WeakSet()
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus)
        self._runs = anyio.CapacityLimiter(_MOST_RUNS)
        info = api.server_info
        self.server: Server[Any] = _Server(
            info.name,
            version=info.version,
            title=info.title,
            instructions=info.instructions,
            on_list_tools=self._on_list_tools,
            on_call_tool=self._on_call_tool,
            on_subscriptions_listen=self._listeners,
        )
        if api.executor.spans is None and not is_traced():
            self.server.middleware.clear()  # all that it does is a span per message

    async def run(self, reader: Any, writer: Any) -> None:
        """Serves one client over a pair of the SDK's streams, in the era that it opens with."""
        options = self.server.create_initialization_options()
        if isinstance(reader, Incoming) and await reader.begins_with("initialize"):
            # As `Server.run` does then, but it passes each message on through one more task.
            async with self.server.lifespan(self.server) as state:
                await serve_loop(self.server, reader, writer, lifespan_state=state, init_options=options)
        else:
            await self.server.run(reader, writer, options)

    async def replace(self, api: McpGraphApi) -> None:
        """Serves another document from now on. Runs that go on end with the old one.

        Args:
            api: The other document.
        """
        with self._used_changed:
            old, self._api = self._api, api
            self._brief = BriefRuns(api.executor)
            self._listed = self._list(api)
            unused = old not in self._used_by
        info = api.server_info
        self.server.name, self.server.version = info.name, info.version
        self.server.title, self.server.instructions = info.title, info.instructions
        if unused:
            await anyio.to_thread.run_sync(old.close)
        await self._bus.publish(ToolsListChanged())
        for connection in list(self._connections):
            try:
                await connection.send_tool_list_changed()
            except Exception as error:
                _log.debug("a client was not told of the change: %s", type(error).__name__)

    def end_streams(self) -> None:
        """Tells clients that listen for changes that there will be none."""
        self._listeners.close()

    def end_runs(self) -> None:
        """Ends all runs; their clients are told."""
        self._closing.set()

    def close(self) -> None:
        """Ends all runs and closes all connections, also those of documents that were replaced."""
        self.end_runs()
        with self._used_changed:
            apis = {self._api, *self._used_by}
        for api in apis:
            api.close()
        with self._used_changed:  # the last calls are on record then
            self._used_changed.wait_for(lambda: not self._used_by, _END_SECONDS)

    async def _on_list_tools(
        self, ctx: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(ctx)
        return self._listed

    async def _on_call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self._remember(ctx)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        meta = cast("dict[str, Any]", ctx.meta or {})
        wants_history = meta.get(HISTORY_KEY) is True
        if meta.get("progress_token", meta.get("progressToken")) is None:
            found = self._brief.run(params.name, params.arguments)
            if found is not None:
                return _answer(params.name, found, modern, wants_history)
            return await self._call(params, modern, wants_history, None)
        async with anyio.create_task_group() as group:
            report = _Reporter()
            group.start_soon(report.send, ctx.session.report_progress)
            result = await self._call(params, modern, wants_history, report)
            report.close()
            return result
        raise AssertionError("unreachable")

    async def _call(
        self, params: types.CallToolRequestParams, modern: bool, wants_history: bool, report: _Reporter | None
    ) -> types.CallToolResult:
        canceled = threading.Event()

        def is_canceled() -> bool:
            return canceled.is_set() or self._closing.is_set()

        def work() -> types.CallToolResult:
            with self._used() as api:
                try:
                    hooks = (
                        None if report is None else Hooks(on_progress=report.tool, on_node_start=report.node)
                    )
                    found = api.executor.run(
                        params.name, params.arguments, hooks=hooks, is_canceled=is_canceled
                    )
                    return _answer(params.name, found, modern, wants_history)
                except RunError as error:
                    return _failure(error, wants_history)
                except Exception as error:
                    # Its text could hold anything; what went wrong is in the log, without values.
                    _log.exception("the tool %s failed unexpectedly", params.name)
                    what = f"Unexpected {type(error).__name__}; the server's log says more"
                    return _failure(RunError(what, tool=params.name, kind="graph"), False)

        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._runs)
        except anyio.get_cancelled_exc_class():
            canceled.set()
            raise

    @contextmanager
    def _used(self) -> Generator[McpGraphApi]:
        """The document that is served now, which stays open while inside."""
        with self._used_changed:
            api = self._api
            self._used_by[api] += 1
        try:
            yield api
        finally:
            with self._used_changed:
                self._used_by[api] -= 1
                unused = not self._used_by[api]
                if unused:
                    del self._used_by[api]
                    self._used_changed.notify_all()
                retired = unused and api is not self._api
            if retired:
                api.close()

    def _remember(self, ctx: ServerRequestContext[Any, Any]) -> None:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            if types.PROTOCOL_VERSION_META_KEY in (ctx.meta or {}):
                what = "This connection began with a handshake; requests of 2026-07-28 are not accepted on it"
                raise MCPError(code=types.INVALID_REQUEST, message=what)
            # A session is made for each request; what lives as long as the client is its connection.
            self._connections.add(cast("Any", ctx.session)._connection)

    def _list(self, api: McpGraphApi) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_described(tool, output_schema=self._output_schemas) for tool in api.list_tools()]
        )


class _Reporter:
    """Carries progress from the threads of a run to its client."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()

    def node(self, _index: int, node: Node, _context: Any) -> None:
        """A node begins."""
        self._put(node.id)

    def tool(self, node: Node, text: str) -> None:
        """A tool says how far it is."""
        self._put(f"{node.id}: {text}")

    def close(self) -> None:
        """The run is over; for the loop's own thread."""
        self._queue.put_nowait(None)

    async def send(self, report: Callable[..., Any]) -> None:
        """Sends what was reported until the run is over."""
        count = 0
        while (text := await self._queue.get()) is not None:
            count += 1
            await report(float(count), None, text)

    def _put(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, text)


def _described(tool: ToolDefinition, *, output_schema: bool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        output_schema=dict(tool.output_schema) if output_schema else None,
        annotations=(
            None if tool.annotations is None else types.ToolAnnotations.model_validate(dict(tool.annotations))
        ),
    )


def _answer(tool: str, found: RunResult, modern: bool, wants_history: bool) -> types.CallToolResult:
    value: Any = found.result
    if not modern and type(value) is not dict:
        error = RunError(
            "The result is no object, and MCP before 2026-07-28 has no other results",
            tool=tool,
            kind="result",
            fix='Give the exit an object: a transform before it with { "result": ... }',
        )
        error.history = found.history
        return _failure(error, wants_history)
    said = _to_json(value)
    text = without_surrogates(said)
    if text is not said:  # half a character, as a broken escape gives it, cannot be sent
        value = json.loads(text)
    result = types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=value
    )
    return _with_history(result, found.history, wants_history)


def _failure(error: RunError, wants_history: bool) -> types.CallToolResult:
    text = without_surrogates(str(error))
    result = types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
    return _with_history(result, error.history, wants_history)


def _with_history(
    result: types.CallToolResult, history: tuple[Any, ...], wanted: bool
) -> types.CallToolResult:
    if wanted:
        records = json.dumps([record.to_json() for record in history], ensure_ascii=False)
        result.meta = {HISTORY_KEY: json.loads(without_surrogates(records))}
    return result
