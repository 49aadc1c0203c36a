"""The MCP server of node knowledge: its tools in MCP's form, over stdio or streamable HTTP.

The SDK is imported inside functions, only where it is needed: loading it takes longer than the rest of the
start.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from ..stdio.pipes import serve_one
from ..stdio.session import INVALID_PARAMS, Info, Refused, Report, RequestedCall, StdioSession
from ..types.errors import MCPError, ToolNotFound
from ..version import VERSION
from .tool_definitions import INSTRUCTIONS, TOOLS_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams
    from starlette.applications import Starlette

    from ..stdio.pipes import Incoming, OutputPipe
    from .node_service import NodeKnowledgeMCPService
    from .tool_definitions import KnowledgeTool

    _Context = ServerRequestContext[Any, Any]

_log = logging.getLogger(__name__)

PATH: Final = "/mcp"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
META_PREFIX: Final = "org.knime-mcp/"
"""The prefix of keys in ``_meta``: https://modelcontextprotocol.io/specification/2025-11-25/basic#_meta."""

_READ_ONLY: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_FRESH_MS: Final = 3_600_000
"""The list of tools only changes with the version of this program."""

_MOST_AT_ONCE: Final = 16
_STOP_SECONDS: Final = 5
_PATIENCE: Final = 30.0


async def serve_stdio(tools: ServedTools) -> bool:
    """Serves one client over standard input and output; returns whether a signal ended the session."""

    async def serve_client(lines: tuple[Incoming, OutputPipe] | None) -> None:
        if lines is not None:
            await StdioSession(tools, *lines).run()
            return
        from mcp.server.stdio import stdio_server

        server = sdk_server(tools)
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    return await serve_one(serve_client)


async def serve_http(
    tools: ServedTools, port: int, *, host: str = "127.0.0.1", on_ready: Callable[[str], None] | None = None
) -> None:
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal arrives.

    The server keeps no state between requests, so clients can continue after a restart.
    """
    from ..web.listening import Listener, WholeRequests, serve

    app = mcp_app(tools, checks_host=host in LOOPBACK)
    listener = Listener(WholeRequests(app), host, port, patience=_PATIENCE, grace=_STOP_SECONDS)
    await serve([listener], on_ready=lambda urls: on_ready(f"{urls[0]}{PATH}") if on_ready else None)


def mcp_app(tools: ServedTools, *, checks_host: bool) -> Starlette:
    """The server as a web application.

    `checks_host` refuses requests to other hosts than this machine, which pages of foreign sites could send.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return sdk_server(tools).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=None if checks_host else unchecked,  # None: as the host, by default this machine
    )


class ServedTools:
    def __init__(self, service: NodeKnowledgeMCPService) -> None:
        self.is_brief = service.is_brief
        self._service = service
        self.listed = [_described(tool) for tool in service.get_available_tools()]

    @property
    def info(self) -> Info:
        return Info(
            name="knime-mcp-nodes", title="Node knowledge", version=VERSION, instructions=INSTRUCTIONS
        )

    async def tools(self, *, any_json: bool = False) -> list[dict[str, Any]]:
        """The tools in MCP's form. All results are objects, so `any_json` has no effect."""
        del any_json
        return self.listed

    async def call(self, asked: RequestedCall, report: Report | None = None) -> dict[str, Any]:
        """Runs a tool on the event loop: over pipes there is only one client, so no other request waits."""
        del report
        return self.answer(asked.tool, asked.arguments)

    def answer(self, name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Runs a tool, and returns the result in MCP's form; for a failed call, with the reason.

        Raises `Refused` if there is no such tool.
        """
        try:
            found = self._service.invoke_tool(name, arguments)
        except ToolNotFound as error:
            raise Refused(INVALID_PARAMS, error.sentence) from None
        except MCPError as error:
            return _failed(error.sentence)
        except Exception as error:
            # The client gets only the type, as the message could contain anything; the log has the rest.
            _log.exception("the tool %s failed unexpectedly", name)
            return _failed(f"Unexpected {type(error).__name__}. The server's log says more.")
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        return {"content": [{"type": "text", "text": text}], "structuredContent": found}


def _described(tool: KnowledgeTool) -> dict[str, Any]:
    """A tool in MCP's form, with the fields that MCP does not have in ``_meta``."""
    extras = {
        "category": tool.category,
        "tags": list(tool.tags),
        "version": tool.version,
        "workflow_guidance": tool.workflow_guidance,
        "usage_examples": [dict(example) for example in tool.usage_examples],
    }
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": dict(tool.parameters),
        "outputSchema": dict(tool.output_schema),
        "annotations": _READ_ONLY,
        "_meta": {f"{META_PREFIX}{key}": value for key, value in extras.items()},
    }


def _failed(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def sdk_server(tools: ServedTools) -> Server[Any]:
    """A server of the official SDK with the tools, for any transport and revision of the protocol."""
    import anyio
    import mcp_types as types
    from mcp.server.caching import CacheHint
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError as ProtocolFailure

    listed = types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools.listed])
    threads = anyio.CapacityLimiter(_MOST_AT_ONCE)

    async def list_tools(_: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        if params is not None and params.cursor:  # some clients send an empty cursor first
            raise ProtocolFailure(
                types.INVALID_PARAMS, "All tools are on the first page; leave out the cursor."
            )
        return listed

    async def call_tool(_: _Context, params: CallToolRequestParams) -> CallToolResult:
        def work() -> CallToolResult:
            return types.CallToolResult.model_validate(tools.answer(params.name, params.arguments))

        try:
            if tools.is_brief(params.arguments):
                return work()
            # A thread cannot be cancelled; the request ends at once, and the thread when it is done.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=threads)
        except Refused as refused:
            raise ProtocolFailure(refused.code, str(refused)) from None

    return Server(
        tools.info.name,
        version=tools.info.version,
        title=tools.info.title,
        instructions=tools.info.instructions,
        cache_hints={"tools/list": CacheHint(ttl_ms=_FRESH_MS, scope="public")},
        get_tool_input_schema=lambda name: tool.parameters if (tool := TOOLS_BY_NAME.get(name)) else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
