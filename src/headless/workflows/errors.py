"""Errors of workflows and their nodes."""

from ...types.errors import MCPError


class RunError(MCPError):
    """A workflow or one of its nodes cannot run here. The message says why and what to do."""


class NodeFailed(RunError):  # noqa: N818  # an event, as in KNIME's messages
    """A node ran and failed. The message is the node's own."""
