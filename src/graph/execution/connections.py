"""Makes the client for a server of a document."""

from __future__ import annotations

import re
from typing import Any, Final

from ...client.mcp_client import MCPClient
from ...client.transports.stdio_server import StdioServer
from ..server_config import ServerConfig, StdioConfig, UrlConfig

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def client_for(config: ServerConfig, **settings: Any) -> MCPClient:
    """Makes a client; it connects when it is first used.

    Args:
        config: The document's settings of the server.
        **settings: Further settings of `MCPClient`.

    Returns:
        The client, which the caller has to close.

    Raises:
        SettingInvalid: A URL or header is invalid.
    """
    match config:
        case StdioConfig():
            # Names in documents may be any text; in messages and records they are part of a URL.
            name = _NO_NAME.sub("-", config.name).lstrip("._-") or "server"
            cwd = None if config.cwd is None else str(config.cwd)
            server = StdioServer(name, (config.command, *config.args), env=config.env, cwd=cwd)
            return MCPClient(stdio=server, **settings)
        case UrlConfig():
            return MCPClient(config.url, headers=config.headers, transport=config.transport, **settings)
