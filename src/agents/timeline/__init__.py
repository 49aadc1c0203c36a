"""The timeline of an agent's run, and its page for a browser."""
