"""What `MCPClient` is made of: negotiation carried out, conversations, calls, failures in words."""
