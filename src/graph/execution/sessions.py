"""The clients of a graph: one for each server, made when it is first needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from ...client.limits import Timeouts
from ...types.errors import ConnectError, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from ...audit.journal import Journal
    from ...client.mcp_client import MCPClient
    from ...client.protocol.results import CallToolResult
    from ..server_config import ServerConfig
    from .calls import CallOptions, CallTool

# Each call has its own timeout. Connecting may take long, as some programs are downloaded before they start.
_CLOCKS: Final = Timeouts(connect=60, idle=86_400, total=86_400)


class GraphSessions:
    """The clients, by the names of the document's servers. Safe to use from several threads.

    A server that has died is started or connected again by the next call.

    Args:
        servers: The document's servers, by name.
        journal: Records each call; None: calls are not recorded.
    """

    def __init__(self, servers: Mapping[str, ServerConfig], *, journal: Journal | None = None) -> None:
        self._servers = dict(servers)
        self._clients: dict[str, MCPClient] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._audited: CallTool | None = None
        if journal is not None:
            from .audited import AuditedCalls

            self._audited = AuditedCalls(journal, self.client, self._servers)

    def client(self, server: str) -> MCPClient:
        """The client of a server; it connects when it is first used.

        Raises:
            SettingInvalid: The document has no such server, or the server's settings are invalid.
            ConnectError: The sessions are closed.
        """
        with self._lock:
            client = self._clients.get(server)
            if client is not None:
                return client
            if self._closed:
                raise ConnectError("The graph is closed", phase="process")
            config = self._servers.get(server)
            if config is None:
                raise SettingInvalid(f"There is no server '{server}' in the document", setting="mcpServers")
            from .connections import client_for  # imported late, so that servers start faster

            made = self._clients[server] = client_for(config, check_results=False, timeouts=_CLOCKS)
            return made

    def call(
        self, server: str, tool: str, arguments: dict[str, Any], **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Calls a tool; see `CallTool`."""
        if self._audited is not None:
            return self._audited(server, tool, arguments, **options)
        return self.client(server).call_tool(tool, arguments, **options)

    def close(self) -> None:
        """Closes all connections and ends all processes; running calls fail."""
        with self._lock:
            self._closed = True
            clients, self._clients = list(self._clients.values()), {}
        threads = [threading.Thread(target=client.close, daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
