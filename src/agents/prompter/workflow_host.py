"""How an agent's workflows run in KNIME: in the workflow that the agent is part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...types.columns import knime_value

if TYPE_CHECKING:
    from ...audit.dispatch import WorkflowRunner
    from ...types.tool import WorkflowTool


def workflow_runner(ctx: Any, *, debug: bool = False) -> WorkflowRunner | None:
    """Makes what runs workflow tools.

    Args:
        ctx: KNIME's execution context.
        debug: Whether each one shows as a metanode, and stays if it fails.

    Returns:
        The function, to be called in the node's thread; None where this KNIME has no workflow tools.
    """
    execute = getattr(ctx, "_execute_tool", None)  # KNIME 5.5 and later
    if execute is None:
        return None
    # The default mode, as KNIME's own agent: the tables that come out stay readable.
    hints = {"execution-mode": "DEBUG" if debug else "DEFAULT", "with-view-nodes": "False"}

    def run(
        tool: WorkflowTool, arguments: dict[str, Any], tables: tuple[Any, ...]
    ) -> tuple[str, tuple[Any, ...]]:
        # KNIME 5.5 gives two values, later ones three.
        message, outputs, *_ = execute(knime_value(tool), arguments, list(tables), dict(hints))
        return str(message or ""), tuple(outputs or ())

    return run
