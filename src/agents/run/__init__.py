"""The agent's loop: asks the model and runs the tools that it calls, until it answers."""
