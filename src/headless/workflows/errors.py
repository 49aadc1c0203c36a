"""Why a workflow, or a node in it, does not run."""

from ...types.errors import MCPError


class RunError(MCPError):
    """A workflow or one of its nodes cannot run here; the message names the node and says what to do."""


class NodeFailed(RunError):  # noqa: N818  # what happened, as KNIME calls it
    """A node ran and failed; the message is the node's own."""
