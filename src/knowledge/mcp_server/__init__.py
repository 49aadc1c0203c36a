"""The MCP server of the node knowledge."""
