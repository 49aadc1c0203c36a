"""The parts of *MCP Tool Provider* that need no KNIME: list, name, scan and describe tools."""
