"""The commands of ``knime-mcp nodes``, one module each."""
