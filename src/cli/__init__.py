"""The command line ``knime-mcp``: one module per command, over the same cores as the nodes."""
