"""What KNIME imports: the category in the node repository and the nodes, nothing else."""

import logging
import sys

import knime.extension as knext

# KNIME takes what any logger says into its own log, down to DEBUG: that would be every prompt and the headers
# of every reply, and a call to Java for each of these messages. httpx, which uses httpcore, speaks to models;
# the MCP client uses neither to send.
for _library in ("asyncio", "httpcore", "httpx"):
    logging.getLogger(_library).setLevel(logging.WARNING)

# Where click is installed, httpx imports its own command line, which takes as long as all else in it.
sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType] - as import reads it

knext.category(
    path="/community",
    level_id="mcp",
    name="Model Context Protocol",
    description="Tools of MCP servers: list them, call them, give them to agents",
    icon="icons/category.png",
)

# After the category, because nodes register themselves in it when they are imported.
from knime_mcp.agents import agent_chat, base, chat_model_connector, mcp_prompt, replayer  # noqa: E402
from knime_mcp.tools import mcp_caller, mcp_provider, mcp_resource_reader, mcp_segment_tool  # noqa: E402

__all__ = [
    "agent_chat",
    "base",
    "chat_model_connector",
    "mcp_caller",
    "mcp_prompt",
    "mcp_provider",
    "mcp_resource_reader",
    "mcp_segment_tool",
    "replayer",
]
