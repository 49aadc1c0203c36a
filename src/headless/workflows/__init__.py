"""Runs KNIME workflows without KNIME: nodes of this extension, and a few native nodes.

`run_workflow` (``run``) runs a workflow in two steps: `plan_run` (``plan``), which finds all problems before
a node runs, and `run_plan` (``plan_runner``). Each kind of node that runs here is a class with ``ready`` and
``run`` (``node_kind``). `make_workflow_tool` makes a tool from a workflow, and `ToolRunner` runs such tools.
"""

from .errors import NodeFailed, RunError
from .node_kinds.node_kind import Done, World
from .plan import NotRunnable, Plan, Step, label, plan_run
from .plan_runner import NodeOutcome, NodeStatus, RunReport, Watcher, run_plan
from .run import RunOptions, run_workflow
from .tool_runner import ToolRunner
from .variables import CredentialValue, FlowVariable
from .workflow_tool import make_workflow_tool, tools_table

__all__ = [
    "CredentialValue",
    "Done",
    "FlowVariable",
    "NodeFailed",
    "NodeOutcome",
    "NodeStatus",
    "NotRunnable",
    "Plan",
    "RunError",
    "RunOptions",
    "RunReport",
    "Step",
    "ToolRunner",
    "Watcher",
    "World",
    "label",
    "make_workflow_tool",
    "plan_run",
    "run_plan",
    "run_workflow",
    "tools_table",
]
