"""Checking and running a workflow tool, which the host can do: in KNIME, ``ctx._execute_tool``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..types.errors import MCPError
from ..types.texts import counted
from .call_values import ToolAnswer

if TYPE_CHECKING:
    from ..types.tool import WorkflowTool
    from .engine import CallInProgress

_NO_WORKFLOWS: Final = (
    "Use the MCP Agent Prompter or KNIME's Agent Prompter node for workflow tools, in KNIME Analytics"
    " Platform 5.8 or later"
)
_WANTS_TABLES: Final = "Use the MCP Agent Prompter node: its data inputs feed such tools"


def check_workflow(tool: WorkflowTool, call: CallInProgress) -> None:
    run, data = call.run, call.plan.data
    if run.run_workflow is None:
        raise MCPError("Workflow tools cannot be run here", tool=tool.name, fix=_NO_WORKFLOWS)
    if len(data) != len(tool.input_ports):
        raise MCPError(
            f"The workflow wants {counted(len(tool.input_ports), 'input table')}, but has {len(data)}",
            tool=tool.name,
            fix=_WANTS_TABLES,
        )
    if run.workflow_digest is not None:
        call.digest = run.workflow_digest(tool)


def run_workflow(tool: WorkflowTool, call: CallInProgress) -> ToolAnswer:
    assert call.run.run_workflow is not None
    call.attempts = 1
    try:
        message, outputs = call.run.run_workflow(
            tool, call.arguments, tuple(given.table for given in call.plan.data)
        )
    except MCPError:
        raise
    except Exception as error:
        # KNIME raises an exception where an MCP tool would return a result with isError. The text of one from
        # its Java side is a whole stack trace.
        java: Any = getattr(error, "java_exception", None)
        text = str(error) if java is None else str(java.getMessage() or java.getClass().getName())
        return ToolAnswer(text=text or type(error).__name__, is_error=True)
    return ToolAnswer(text=message, outputs=outputs)
