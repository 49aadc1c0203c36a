"""Tools on MCP servers: the client that reaches them and the nodes that list and call them.

Names are loaded when they are used, so that a node module that imports a neighbour does not pay for the
HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .auth import BasicAuth, BearerAuth, HeaderAuth
    from .limits import Limits, Timeouts
    from .mcp_client import MCPClient, Progress, ServerInfo, Step
    from .network import NetworkSettings
    from .protocol.results import ABSENT, CallToolResult
    from .protocol.tools import ToolDefinition
    from .session_pool import SessionPool
    from .transports.stdio_server import StdioServer

__all__ = [
    "ABSENT",
    "BasicAuth",
    "BearerAuth",
    "CallToolResult",
    "HeaderAuth",
    "Limits",
    "MCPClient",
    "NetworkSettings",
    "Progress",
    "ServerInfo",
    "SessionPool",
    "StdioServer",
    "Step",
    "Timeouts",
    "ToolDefinition",
]

_HOMES = {
    "ABSENT": ".protocol.results",
    "BasicAuth": ".auth",
    "BearerAuth": ".auth",
    "CallToolResult": ".protocol.results",
    "HeaderAuth": ".auth",
    "Limits": ".limits",
    "MCPClient": ".mcp_client",
    "NetworkSettings": ".network",
    "Progress": ".mcp_client",
    "ServerInfo": ".mcp_client",
    "SessionPool": ".session_pool",
    "Step": ".mcp_client",
    "StdioServer": ".transports.stdio_server",
    "Timeouts": ".limits",
    "ToolDefinition": ".protocol.tools",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)
