"""Tools on MCP servers: the nodes that list and call them, and the client for programs.

The client's names are loaded on first use, so that a node module does not pay for HTTP.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .mcp_client import (
        ABSENT,
        BasicAuth,
        BearerAuth,
        CallToolResult,
        HeaderAuth,
        Limits,
        MCPClient,
        MockTransport,
        NetworkSettings,
        Progress,
        ServerInfo,
        SessionPool,
        StdioServer,
        Step,
        Timeouts,
        ToolDefinition,
    )

__all__ = [
    "ABSENT",
    "BasicAuth",
    "BearerAuth",
    "CallToolResult",
    "HeaderAuth",
    "Limits",
    "MCPClient",
    "MockTransport",
    "NetworkSettings",
    "Progress",
    "ServerInfo",
    "SessionPool",
    "StdioServer",
    "Step",
    "Timeouts",
    "ToolDefinition",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import mcp_client

    return getattr(mcp_client, name)
