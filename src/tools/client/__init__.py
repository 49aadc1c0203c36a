"""The parts of `MCPClient`: connecting, conversations, calls, listings, error messages."""
