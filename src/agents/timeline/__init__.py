"""The run of an agent as a page for a browser."""
