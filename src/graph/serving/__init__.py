"""Serves graphs as tools of an MCP server."""
