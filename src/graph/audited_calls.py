"""Records the calls of a graph in a journal, from which they can be replayed."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from ..audit.record import status_of, utc_text
from ..client.mcp_client import SessionPool
from ..runs.definitions import Definitions, pinned_tool
from ..runs.one_call import (
    Answer,
    Call,
    Dispatcher,
    Ending,
    Trace,
    answered,
    error_text,
    marker_of,
    record_of,
    scrubbed,
    unknown_record,
)
from ..types.errors import MCPError, ToolNotFound
from ..types.routing import ServerRoute
from .graph_model import StdioConfig
from .server_calls import marker_of_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..audit.journal import Journal
    from ..audit.record import CallRecord
    from ..audit.secrets import SecretMarker
    from ..client.mcp_client import MCPClient
    from ..client.protocol.results import CallToolResult
    from .graph_model import ServerConfig
    from .server_calls import CallOptions


class AuditedCalls:
    """Makes calls and writes a record of each to a journal. Safe to use from several threads."""

    def __init__(
        self,
        journal: Journal,
        client: Callable[[str], MCPClient],
        servers: Mapping[str, ServerConfig],
    ) -> None:
        self._journal = journal
        self._client = client
        self._servers = servers
        self._names: dict[str, str] = {}
        pool = SessionPool(lambda asked: client(self._names[asked.url]))
        self._dispatcher = Dispatcher(
            run=journal.run, pool=pool, definitions=Definitions(pool), secrets=marker_of_servers(servers)
        )

    def __call__(
        self, server: str, tool: str, arguments: dict[str, Any], **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Makes a call (see `CallTool`) and records it, also if it fails."""
        started, clock = datetime.now(UTC), time.perf_counter()
        route = _route(self._servers[server])
        self._names[route.url] = server
        trace, error, result = None, None, None
        try:
            definition = self._dispatcher.definitions.find(route, tool, is_canceled=options["is_canceled"])
            trace = Trace(
                tool=pinned_tool(definition, replace(route, tool=tool), shown_name=tool), arguments=arguments
            )
        except ToolNotFound:
            pass  # the server answers the call with its own error
        except MCPError as caught:
            error = caught
        if error is None:
            try:
                result = self._client(server).call_tool(
                    tool, arguments, on_attempt=None if trace is None else trace.sent, **options
                )
            except MCPError as caught:
                error = caught
        record = self._record(Call(tool=None, name=tool, arguments=arguments), trace, result, error)
        duration = round(time.perf_counter() - clock, 6)
        self._journal.append(replace(record, started_at=utc_text(started), duration=duration))
        if result is None:
            raise error or AssertionError("unreachable")
        return result

    def _record(
        self, call: Call, trace: Trace | None, result: CallToolResult | None, error: MCPError | None
    ) -> CallRecord:
        dispatcher = self._dispatcher
        marker = dispatcher.secrets if trace is None else marker_of(trace, dispatcher)
        ending = self._ending(call, trace, marker, result, error)
        if trace is None:
            return unknown_record(call, dispatcher, **ending)
        return record_of(replace(call, tool=trace.tool), trace, marker, dispatcher, **ending)

    def _ending(
        self,
        call: Call,
        trace: Trace | None,
        marker: SecretMarker,
        result: CallToolResult | None,
        error: MCPError | None,
    ) -> Ending:
        if result is None:
            failure = error or MCPError("There is no result")
            tool = None if trace is None else trace.tool
            return Ending(status=status_of(failure), error=error_text(failure, call, tool, marker))
        answer = scrubbed(
            Answer(
                text=result.text,
                structured=result.structured_content,
                is_error=result.is_error,
                blocks=result.content,
            ),
            marker,
        )
        return answered(call, answer, marker, self._dispatcher)


def _route(config: ServerConfig) -> ServerRoute:
    """The server's name in records: its URL without possible secrets, or ``stdio:<name>``."""
    if isinstance(config, StdioConfig):
        return ServerRoute(url=f"stdio:{config.name}")
    return ServerRoute(url=config.url.partition("?")[0])
