"""The node knowledge over plain HTTP for programs that do not speak MCP."""
