"""What the node MCP Agent Prompter does: prompts in, conversations and calls out."""
