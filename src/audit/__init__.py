"""What happened in a call of a tool: run it, record it, keep the records."""
