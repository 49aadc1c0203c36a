"""The command ``knime-nodes``, a module for each kind of commands."""
