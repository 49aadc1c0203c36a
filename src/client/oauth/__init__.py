"""OAuth 2.1 for the MCP client: discovery, registration, grants, tokens and their storage."""
