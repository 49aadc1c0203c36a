"""The public face of the MCP client: connect to a server, list its tools, call them.

The client itself is `knime_mcp.client`.
"""

from ..client.authorization import BasicAuth, BearerAuth, HeaderAuth
from ..client.conversation import Progress
from ..client.limits import Limits, Timeouts
from ..client.mcp_client import MCPClient, SessionPool
from ..client.network import NetworkSettings
from ..client.protocol.negotiation import ServerInfo
from ..client.protocol.tools import ABSENT, CallToolResult, ToolDefinition
from ..client.transports.base import Step
from ..client.transports.mock import MockTransport
from ..client.transports.stdio_server import StdioServer

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
