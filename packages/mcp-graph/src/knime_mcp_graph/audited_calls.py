"""Records the calls of a graph in a journal, from which they can be replayed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from knime_mcp.runs.call_values import PlannedCall, ToolAnswer
from knime_mcp.runs.checked_calls import answer_of, key_meta, make_here, pinned_tool
from knime_mcp.runs.server_configs import StdioConfig
from knime_mcp.types.errors import ToolNotFound
from knime_mcp.types.routing import ServerRoute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from knime_mcp.audit.secrets import SecretMarker
    from knime_mcp.client.mcp_client import MCPClient
    from knime_mcp.client.protocol.tools import CallToolResult
    from knime_mcp.runs.engine import CallInProgress, Run
    from knime_mcp.runs.server_configs import ServerConfig

    from .server_calls import ServerCall


class AuditedCalls:
    """Makes calls and writes a record of each to the journal of a run. Safe to use from several threads."""

    def __init__(
        self,
        run: Run,
        client: Callable[[str], MCPClient],
        servers: Mapping[str, ServerConfig],
        secrets: SecretMarker,
    ) -> None:
        self._servers = servers
        self._names: dict[str, str] = {}
        self._run = run.part(lambda asked: client(self._names[asked.url]), secrets)

    def __call__(self, asked: ServerCall, send: Callable[..., CallToolResult]) -> CallToolResult:
        """Makes a call with `send` (see `GraphSessions.call`), and records it, also if it fails."""
        tool = asked.tool
        route = route_of(self._servers[asked.server])
        self._names[route.url] = asked.server
        results: list[CallToolResult] = []

        def check(call: CallInProgress) -> None:
            # As in the reference the server judges what a node sends, and names an unknown tool.
            with suppress(ToolNotFound):
                found = call.run.definitions.find(route, tool, is_canceled=asked.is_canceled)
                call.tool = pinned_tool(found, replace(route, tool=tool), shown_name=tool)

        def make(call: CallInProgress) -> ToolAnswer:
            result = send(on_attempt=call.sent, meta=key_meta(call))
            results.append(result)
            return answer_of(result)

        secrets = asked.run.secrets(self._run.secrets)
        recorded = replace(self._run, check=check, make=partial(make_here, send=make), secrets=secrets)
        outcome = recorded.call(PlannedCall(tool=None, name=tool, arguments=asked.arguments))
        if not results:
            assert outcome.error is not None
            raise outcome.error
        return results[0]


def route_of(config: ServerConfig) -> ServerRoute:
    """The server's name in records: its URL without possible secrets, or ``stdio:<name>``."""
    if isinstance(config, StdioConfig):
        return ServerRoute(url=f"stdio:{config.name}")
    # Keys of services often stand in the query.
    return ServerRoute(url=config.url.partition("?")[0])
