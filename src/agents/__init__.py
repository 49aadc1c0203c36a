"""Agents: models that call workflow tools and MCP tools from one column."""
