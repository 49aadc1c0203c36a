"""Graphs as tools of an MCP server."""
