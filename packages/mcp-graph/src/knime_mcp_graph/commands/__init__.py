"""The command ``mcpgraph``."""
