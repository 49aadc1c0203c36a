"""Runs KNIME workflows without KNIME: nodes of this extension, and a few native nodes.

`run_workflow` runs a workflow in two steps: `plan_run`, which finds all problems before a node runs, and
`run_plan`. Each kind of node that runs here is a class with ``ready`` and ``run`` (see ``node_kind``).
`make_workflow_tool` makes a tool from a workflow, and `ToolRunner` runs such tools.
"""

from .flow_variables import CredentialValue, FlowVariable
from .node_kind import Done, NodeFailed, RunError, World
from .workflow_plan import NotRunnable, Plan, Step, label, plan_run
from .workflow_run import NodeOutcome, NodeStatus, RunOptions, RunReport, Watcher, run_plan, run_workflow
from .workflow_tools import ToolRunner, make_workflow_tool, tools_table

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
