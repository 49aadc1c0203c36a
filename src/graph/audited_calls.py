"""Records the calls of a graph in a journal, from which they can be replayed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from ..client.mcp_client import SessionPool
from ..runs.definitions import Definitions, pinned_tool
from ..runs.engine import Run
from ..runs.one_call import CallInProgress, PlannedCall, ToolAnswer
from ..types.errors import MCPError, ToolNotFound
from ..types.routing import ServerRoute
from .graph_model import StdioConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..audit.journal import Journal
    from ..audit.secrets import SecretMarker
    from ..client.mcp_client import MCPClient
    from ..client.protocol.tools import CallToolResult
    from .graph_model import ServerConfig
    from .server_calls import CallOptions


class AuditedCalls:
    """Makes calls and writes a record of each to a journal. Safe to use from several threads."""

    def __init__(
        self,
        journal: Journal,
        client: Callable[[str], MCPClient],
        servers: Mapping[str, ServerConfig],
        secrets: SecretMarker,
    ) -> None:
        self._journal = journal
        self._client = client
        self._servers = servers
        self._names: dict[str, str] = {}
        pool = SessionPool(lambda asked: client(self._names[asked.url]))
        self._run = Run(id=journal.run, pool=pool, definitions=Definitions(pool), secrets=secrets)

    def __call__(
        self, server: str, tool: str, arguments: dict[str, Any], **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Makes a call (see `CallTool`) and records it, also if it fails."""
        route = _route(self._servers[server])
        self._names[route.url] = server
        call = CallInProgress(PlannedCall(tool=None, name=tool, arguments=arguments), self._run)
        call.begin()
        try:
            # The server answers a call of an unknown tool with its own error.
            with suppress(ToolNotFound):
                found = self._run.definitions.find(route, tool, is_canceled=options["is_canceled"])
                call.tool = pinned_tool(found, replace(route, tool=tool), shown_name=tool)
            result = self._client(server).call_tool(tool, arguments, on_attempt=call.sent, **options)
        except MCPError as error:
            call.end()
            self._journal.append(call.failed(error).record)
            raise
        call.end()
        self._journal.append(call.answered(call.scrubbed(ToolAnswer.of(result))).record)
        return result


def _route(config: ServerConfig) -> ServerRoute:
    """The server's name in records: its URL without possible secrets, or ``stdio:<name>``."""
    if isinstance(config, StdioConfig):
        return ServerRoute(url=f"stdio:{config.name}")
    return ServerRoute(url=config.url.partition("?")[0])
