"""Runs a workflow completely: applies the callers' settings, unpacks the data area, and runs the nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...knwf import (
    BOUNDARY_FACTORIES,
    CONFIGURATION_FACTORIES,
    NativeNode,
    read_boundary,
    read_configuration,
)
from .errors import RunError
from .node_kinds.configuration import from_text
from .node_kinds.node_kind import World
from .plan import plan_run
from .plan_runner import run_plan
from .servers import with_servers
from .variables import CredentialValue, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ...knwf import Workflow
    from ..host import ExtensionHost
    from ..services import ToolHandler
    from .plan_runner import RunReport, Watcher

_DATA_AREA = "data/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run.

    Attributes:
        workflow_dir: The folder of the workflow, in which ``data`` is the data area.
        beside: The folder that contains the workflow's file, for paths such as ``../other``.
        servers: New servers for the servers in settings of nodes, see `with_servers`.
        settings: Texts for Configuration nodes (by flow variable, or by parameter) and workflow variables.
        find_credential: Returns user name and password by name. For unknown names it returns None, or raises
            an `MCPError` that says where credentials can be stored.
        is_canceled: Returns whether the person canceled the run.
        tool_handler: Runs workflow tools for nodes; by default, tools of `make_workflow_tool`.
        inputs: Tables for Workflow Input nodes, by the name of the input.
        watcher: Receives the progress of the run.
    """

    workflow_dir: Path
    beside: Path | None = None
    servers: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    find_credential: Callable[[str], CredentialValue | None] = lambda _: None
    is_canceled: Callable[[], bool] = bool
    tool_handler: ToolHandler | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    watcher: Watcher | None = None


def run_workflow(workflow: Workflow, host: ExtensionHost, options: RunOptions) -> RunReport:
    """Runs a workflow.

    Args:
        workflow: The workflow.
        host: The host of the extension whose nodes can run.
        options: The options of the run.

    Returns:
        The outcome of each node, including failures.

    Raises:
        NotRunnable: The workflow cannot run here; nothing was run.
        RunError: The workflow does not have a setting, or a value does not fit; nothing was run.
    """
    from .tool_runner import ToolRunner

    workflow = with_servers(workflow, options.servers, host.id)
    plan = plan_run(workflow, host)
    workflow, values = with_settings(workflow, options.settings)
    values |= with_inputs(workflow, options.inputs)
    unpack_data_area(workflow, options.workflow_dir)
    world = World(
        host=host,
        workflow_dir=options.workflow_dir,
        beside=options.beside,
        find_credential=options.find_credential,
        credential_names=tuple(own.name for own in workflow.credentials),
        is_canceled=options.is_canceled,
        tool_handler=options.tool_handler
        or ToolRunner(host, find_credential=options.find_credential, is_canceled=options.is_canceled),
        values=values,
    )
    return run_plan(replace(plan, workflow=workflow), world, options.watcher)


def settable(workflow: Workflow) -> list[str]:
    """The names for `with_settings`: flow variables of Configuration nodes, and workflow variables."""
    nodes = [n for n in workflow.nodes if isinstance(n, NativeNode) and n.factory in CONFIGURATION_FACTORIES]
    own = [read_configuration(node) for node in nodes]
    names = [c.variable for c in own if c.kind != "credentials"]
    return list(dict.fromkeys([*names, *(variable.name for variable in workflow.variables)]))


def with_settings(workflow: Workflow, settings: Mapping[str, str]) -> tuple[Workflow, dict[int, Any]]:
    """Applies the settings from the command line.

    Args:
        workflow: The workflow.
        settings: Texts by name: of a Configuration node's flow variable or parameter, or of a workflow
            variable.

    Returns:
        The workflow with changed variables, and the values by id of Configuration nodes.

    Raises:
        RunError: A name is unknown, or several nodes have it, or a value does not fit.
    """
    values: dict[int, Any] = {}
    variables = {own.name: own for own in workflow.variables}
    for name, text in settings.items():
        nodes = _configuration_nodes(workflow, name)
        if len(nodes) > 1:
            ids = ", ".join(f"#{node.id}" for node in nodes)
            raise RunError(
                f"'{name}' could be any of the Configuration nodes {ids}", fix="Rename one in KNIME"
            )
        if nodes:
            values[nodes[0].id] = from_text(read_configuration(nodes[0]), text)
        elif name in variables:
            own = variables[name]
            variables[name] = replace(own, value=parsed(name, own.type, text))
        else:
            known = ", ".join(settable(workflow)) or "nothing"
            raise RunError(f"The workflow has nothing called '{name}' to set; it has: {known}")
    return replace(workflow, variables=tuple(variables.values())), values


def _configuration_nodes(workflow: Workflow, name: str) -> list[NativeNode]:
    own = {
        node.id: (node, read_configuration(node))
        for node in workflow.nodes
        if isinstance(node, NativeNode) and node.factory in CONFIGURATION_FACTORIES
    }
    by_variable = [node for node, says in own.values() if says.variable == name]
    by_parameter = [
        node for node, says in own.values() if name in (says.parameter, f"{says.parameter}-{node.id}")
    ]
    return by_variable or by_parameter


def with_inputs(workflow: Workflow, inputs: Mapping[str, Any]) -> dict[int, Any]:
    """Finds the Workflow Input nodes for the caller's tables.

    Returns:
        The tables by node id.

    Raises:
        RunError: The workflow has no such input.
    """
    nodes = {
        read_boundary(node).parameter: node.id
        for node in workflow.nodes
        if isinstance(node, NativeNode) and BOUNDARY_FACTORIES.get(node.factory) == "input"
    }
    for name in inputs:
        if name not in nodes:
            known = ", ".join(nodes) or "none"
            raise RunError(f"The workflow has no input called '{name}'; it has: {known}")
    return {nodes[name]: table for name, table in inputs.items()}


def unpack_data_area(workflow: Workflow, folder: Path) -> None:
    """Writes the files of the workflow's data area into its folder; existing files are kept.

    Raises:
        RunError: A file cannot be written.
    """
    for path, content in workflow.files.items():
        target = folder / path
        try:
            if path.startswith(_DATA_AREA) and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        except OSError as error:
            raise RunError(
                f"The workflow's file '{path[:200]}' cannot be unpacked: {error.strerror}"
            ) from None
