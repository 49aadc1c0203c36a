"""``knime-mcp demo``: two MCP servers on this machine, and the nodes that use them."""
