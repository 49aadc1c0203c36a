"""What the node *MCP Tool Provider* does, without KNIME: list, name, scan and describe tools."""
