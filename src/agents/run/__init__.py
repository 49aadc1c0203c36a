"""The agent's loop: ask the model, run the tools that it asks for, until it answers."""
