"""Runs the nodes at the boundary of a workflow: Workflow Input, Workflow Output, Tool Message Output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....knwf import read_boundary
from ..errors import RunError
from .node_kind import Done, Ports, Ready
from .tables import arriving_table, given_table

if TYPE_CHECKING:
    from ....knwf import NativeNode
    from .node_kind import Job


class BoundaryNode:
    """Runs Workflow Inputs, which output the caller's table or their default, and the output nodes."""

    def ready(self, node: NativeNode) -> Ready:
        """See `NodeKind`."""
        boundary = read_boundary(node)
        if not boundary.is_table:
            raise RunError("It carries something else than a table, which is not run here")
        match boundary.kind:
            case "input":
                return Ready(Ports(("Default Input",), (False,), ("Workflow Input",)))
            case "output":
                return Ready(Ports((boundary.parameter,), (True,)))
            case "message":
                return Ready(Ports(("Tool message",), (True,)))

    def run(self, job: Job) -> Done:
        """See `NodeKind`."""
        boundary, (arriving,) = read_boundary(job.node), job.inputs
        given = job.world.values.get(job.node.id)
        if given is not None:
            return Done(outputs=(given_table(job.world.host, given),))
        if arriving is None:
            raise RunError(
                f"Nobody gave the workflow its input '{boundary.parameter}', and it has no default",
                fix="Give it a table, or connect a default to the node's own input",
            )
        table = arriving_table(arriving)
        return Done(outputs=(table,) if boundary.kind == "input" else ())
