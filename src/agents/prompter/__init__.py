"""The parts of the node *MCP Agent Prompter*: prompts in, conversations and calls out."""
