"""The MCP client: protocol, transports, logins, validation, and the sessions that calls share."""
