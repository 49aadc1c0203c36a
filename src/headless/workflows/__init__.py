"""Runs KNIME workflows without KNIME: nodes of this extension, and a few native nodes.

`run_workflow` runs a workflow in two steps: ``workflow_plan`` finds all problems before a node runs, and
``workflow_run`` runs the plan. Each kind of node that runs here is a class with ``ready`` and ``run`` (see
``node_kind``). `make_workflow_tool` makes a tool from a workflow, and `ToolRunner` runs such tools.
"""

from ..node_results import CredentialValue
from .node_kind import WorkflowError
from .workflow_plan import NodeStep, NotRunnable, label
from .workflow_run import NodeOutcome, NodeStatus, OptionInvalid, RunOptions, RunReport, Watcher, run_workflow
from .workflow_tools import ToolRunner, make_workflow_tool, tools_table

__all__ = [
    "CredentialValue",
    "NodeOutcome",
    "NodeStatus",
    "NodeStep",
    "NotRunnable",
    "OptionInvalid",
    "RunOptions",
    "RunReport",
    "ToolRunner",
    "Watcher",
    "WorkflowError",
    "label",
    "make_workflow_tool",
    "run_workflow",
    "tools_table",
]
