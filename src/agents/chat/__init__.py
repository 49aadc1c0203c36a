"""A conversation in which a person talks to an agent from a page: the view of the node *MCP Agent Chat*."""
