"""What the node *MCP Tool Caller* does, without KNIME: arguments, calls in flight, the results table."""
