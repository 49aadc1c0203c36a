"""The parts of *MCP Tool Caller* that need no KNIME: arguments, calls in flight, the results table."""
