"""The MCP server of node knowledge: its tools in MCP's form, over stdio or streamable HTTP."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from knime_mcp.types.errors import MCPError, ToolNotFound
from knime_mcp.version import VERSION
from knime_mcp.web.listening import Listener, serve
from knime_mcp.web.tool_server import LOOPBACK, PATH, Info, Refused, ToolServer

from .tool_definitions import INSTRUCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from knime_mcp.web.tool_server import Report, RequestedCall

    from .node_service import NodeKnowledgeMCPService
    from .tool_definitions import KnowledgeTool

_log = logging.getLogger(__name__)

META_PREFIX: Final = "org.knime-mcp/"
"""The prefix of keys in ``_meta``: https://modelcontextprotocol.io/specification/2025-11-25/basic#_meta."""

_READ_ONLY: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_MOST_AT_ONCE: Final = 16
_STOP_SECONDS: Final = 5


async def serve_http(
    service: NodeKnowledgeMCPService,
    port: int,
    *,
    host: str = "127.0.0.1",
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serves any number of clients over streamable HTTP, at ``/mcp``, until a signal arrives.

    The server keeps no state between requests, so clients can continue after a restart.
    """
    app = tool_server(service).http_app(checks_host=host in LOOPBACK)
    listener = Listener(app, host, port, grace=_STOP_SECONDS)
    await serve([listener], on_ready=lambda urls: on_ready(f"{urls[0]}{PATH}") if on_ready else None)


def tool_server(service: NodeKnowledgeMCPService) -> ToolServer:
    return ToolServer(_ServedTools(service))


class _ServedTools:
    def __init__(self, service: NodeKnowledgeMCPService) -> None:
        self._service = service
        self._listed = [_described(tool) for tool in service.get_available_tools()]
        self._threads = anyio.CapacityLimiter(_MOST_AT_ONCE)

    @property
    def info(self) -> Info:
        return Info(
            name="knime-mcp-nodes", title="Node knowledge", version=VERSION, instructions=INSTRUCTIONS
        )

    async def tools(self, *, any_json: bool = False) -> list[dict[str, Any]]:
        """The tools in MCP's form. All results are objects, so `any_json` has no effect."""
        del any_json
        return self._listed

    async def call(self, asked: RequestedCall, report: Report | None = None) -> dict[str, Any]:
        del report
        work = partial(self._answer, asked.tool, asked.arguments)
        if self._service.is_brief(asked.arguments):
            return work()
        # A thread cannot be cancelled; the request ends at once, and the thread when it is done.
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)

    def _answer(self, name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Runs a tool, and returns the result in MCP's form; for a failed call, with the reason.

        Raises `Refused` if there is no such tool.
        """
        try:
            found = self._service.invoke_tool(name, arguments)
        except ToolNotFound as error:
            raise Refused(error.sentence) from None
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
