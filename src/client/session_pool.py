"""Keeps one live client per server and credential, shared by all callers of its tools."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ..types.errors import ConnectError
from ..types.routing import ServerRoute
from .mcp_client import MCPClient

_Key = tuple[object, ...]


class SessionPool:
    """Clients by route. Safe for use by many threads at once.

    A session's state on the server lives as long as the pool: for a whole run of an agent or a batch.

    Args:
        connect: Makes the client of a route, with its credential. Called once per server and caller, and
            again after an exception.
    """

    def __init__(self, connect: Callable[[ServerRoute], MCPClient]) -> None:
        self._connect = connect
        self._clients: dict[_Key, MCPClient] = {}
        self._making: dict[_Key, threading.Lock] = {}
        self._lock = threading.Lock()
        self._closed = False

    def client(self, route: ServerRoute) -> MCPClient:
        """The client of a route; the route's tool and pin do not matter.

        Raises:
            MCPError: `connect` failed, or the pool is closed (`ConnectError`).
        """
        key = _key(route)
        client = self._clients.get(key)
        if client is not None:
            return client
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:  # a lock per server, so that servers do not wait for each other
            client = self._clients.get(key)
            if client is None:
                client = self._connect(route)
                with self._lock:
                    closed = self._closed
                    if not closed:
                        self._clients[key] = client
                if closed:
                    client.close()
                    raise ConnectError("The session pool is closed", phase="protocol", server=route.url)
        return client

    def close(self) -> None:
        """Closes all clients; calls under way fail."""
        with self._lock:
            self._closed = True
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _key(route: ServerRoute) -> _Key:
    return (
        route.url,
        route.credential,
        route.send_credentials_as,
        route.header_name,
        route.issuer,
        route.scope,
        route.headers,
        route.transport,
    )
