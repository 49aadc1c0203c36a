"""What KNIME imports: the category in the node repository and the nodes, nothing else."""

import knime.extension as knext

knext.category(
    path="/community",
    level_id="mcp",
    name="Model Context Protocol",
    description="Tools of MCP servers: list them, call them, give them to agents",
    icon="icons/category.png",
)

# After the category, because nodes register themselves in it when they are imported.
from knime_mcp.agents import base, chat_model_connector, replayer  # noqa: E402
from knime_mcp.agents.model import ai_extension_ports  # noqa: E402
from knime_mcp.tools import mcp_caller, mcp_provider  # noqa: E402

__all__ = ["ai_extension_ports", "base", "chat_model_connector", "mcp_caller", "mcp_provider", "replayer"]
