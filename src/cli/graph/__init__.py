"""The commands of ``knime-mcp graph``, one module each."""
