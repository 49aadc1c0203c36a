"""The kinds of nodes that the workflow runner runs: Python nodes of an extension, and a few native ones."""
