"""Runs a workflow: applies the callers' settings, servers and inputs, and runs the nodes one after another.

As in KNIME, the failure of a node stops only the nodes after it, and other branches continue. Independent
nodes run in a fixed order.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ...knwf import (
    BOUNDARY_FACTORIES,
    COMPONENT_INPUT_FACTORY,
    CONFIGURATION_FACTORIES,
    KnwfError,
    NativeNode,
    read_boundary,
    read_configuration,
)
from ...knwf.json_parameters import to_model
from ...runs.replay_decision import ReplayOptions
from ...types.errors import MCPError, SettingInvalid
from ...types.routing import ServerRoute
from ..node_results import CredentialValue, HeadlessError
from .flow_variables import available, controlled, merged, parsed, workflow_stack
from .native_kinds import from_text
from .node_kind import Done, Job, WorkflowError, World
from .workflow_plan import label, opened, plan_opened

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from ...knwf import Node, Workflow
    from ..host import ExtensionHost
    from ..node_run import ToolHandler
    from .flow_variables import Stack
    from .workflow_plan import NodeStep, Plan


_DATA_AREA = "data/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    workflow_dir: Path  # the folder of the workflow, in which ``data`` is the data area
    beside: Path | None = None  # the folder that contains the workflow's file, for paths such as ``../other``
    #: New servers for the servers in settings of nodes, see `with_servers`.
    servers: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Texts for Configuration nodes (by flow variable, or by parameter) and workflow variables.
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Returns user name and password by name. For unknown names it returns None, or raises an `MCPError` that
    #: says where credentials can be stored.
    find_credential: Callable[[str], CredentialValue | None] = lambda _: None
    is_canceled: Callable[[], bool] = bool  # returns whether the person canceled the run
    #: Runs workflow tools for nodes; by default, tools of `make_workflow_tool`.
    tool_handler: ToolHandler | None = None
    #: Tables for Workflow Input nodes, by the name of the input.
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    watcher: Watcher | None = None  # receives the progress of the run


class OptionInvalid(WorkflowError):  # noqa: N818
    """What a caller wants to set, give or replace is not in the workflow, or does not fit."""

    CODE = "KMCP-WORKFLOW-OPTION"


@contextmanager
def _of_options() -> Generator[None]:
    try:
        yield
    except (WorkflowError, SettingInvalid) as error:
        raise OptionInvalid(error.what, fix=error.fix) from None


def run_workflow(workflow: Workflow, host: ExtensionHost, options: RunOptions) -> RunReport:
    """Plans and runs a workflow; the report has the outcome of each node, including failures.

    NotRunnable, or OptionInvalid for a server, setting or input that the workflow does not have or that does
    not fit: nothing was run, and no file was made.
    """
    found = opened(workflow, host)
    with _of_options():
        found = replace(found, workflow=with_servers(found.workflow, options.servers, host.id))
    plan = plan_opened(found, workflow, host)
    with _of_options():
        changed, values = with_settings(plan.workflow, options.settings)
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
        or host.workflow_tools().ToolRunner(
            host, find_credential=options.find_credential, is_canceled=options.is_canceled
        ),
        values=values,
    )
    return run_plan(replace(plan, workflow=changed), world, options.watcher)


def settable(workflow: Workflow) -> list[str]:
    """The names for `with_settings`: flow variables of Configuration nodes, and workflow variables."""
    nodes = [n for n in workflow.nodes if isinstance(n, NativeNode) and n.factory in CONFIGURATION_FACTORIES]
    own = [read_configuration(node) for node in nodes]
    names = [c.variable for c in own if c.kind != "credentials"]
    return list(dict.fromkeys([*names, *(variable.name for variable in workflow.variables)]))


def with_settings(workflow: Workflow, settings: Mapping[str, str]) -> tuple[Workflow, dict[int, Any]]:
    """Applies texts by name to Configuration nodes (by flow variable or parameter) and workflow variables.

    Returns the workflow with changed variables, and the values by id of Configuration nodes. WorkflowError
    for a name that is unknown or that several nodes have, and for a value that does not fit. Settings of
    components are those of the Configuration nodes in them, see `opened`.
    """
    values: dict[int, Any] = {}
    variables = {own.name: own for own in workflow.variables}
    for name, text in settings.items():
        nodes = _configuration_nodes(workflow, name)
        if len(nodes) > 1:
            ids = ", ".join(f"#{node.id}" for node in nodes)
            raise WorkflowError(
                f"'{name}' could be any of the Configuration nodes {ids}", fix="Rename one in KNIME"
            )
        if nodes:
            values[nodes[0].id] = from_text(read_configuration(nodes[0]), text)
        elif name in variables:
            own = variables[name]
            variables[name] = replace(own, value=parsed(name, own.type, text))
        else:
            known = ", ".join(settable(workflow)) or "nothing"
            raise WorkflowError(f"The workflow has nothing called '{name}' to set; it has: {known}")
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
    """The callers' tables by id of their Workflow Input nodes; `WorkflowError` for an unknown name."""
    nodes = {
        read_boundary(node).parameter: node.id
        for node in workflow.nodes
        if isinstance(node, NativeNode) and BOUNDARY_FACTORIES.get(node.factory) == "input"
    }
    for name in inputs:
        if name not in nodes:
            known = ", ".join(nodes) or "none"
            raise WorkflowError(f"The workflow has no input called '{name}'; it has: {known}")
    return {nodes[name]: table for name, table in inputs.items()}


def unpack_data_area(workflow: Workflow, folder: Path) -> None:
    """Writes the data area's files into the folder, or raises `WorkflowError`; existing files are kept."""
    for path, content in workflow.files.items():
        target = folder / path
        try:
            # An existing file may be one that an earlier run has changed.
            if path.startswith(_DATA_AREA) and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        except OSError as error:
            raise WorkflowError(
                f"The workflow's file '{path[:200]}' cannot be unpacked: {error.strerror}"
            ) from None


_log = logging.getLogger(__name__)


class NodeStatus(StrEnum):
    EXECUTED = "executed"
    FAILED = "failed"
    CANCELED = "canceled"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutcome:
    step: NodeStep
    status: NodeStatus  # the status after the run
    done: Done = field(default_factory=Done)  # the result; empty if the node was not executed
    message: str = ""  # the reason why the node was not executed
    stack: Stack = ()  # the flow variables after the node
    seconds: float = 0.0  # the duration

    @property
    def node(self) -> NativeNode:
        return self.step.node

    @property
    def label(self) -> str:
        return self.step.label


class Watcher(Protocol):
    """Receives the progress of a run, in the thread of the run or of a node."""

    def started(self, step: NodeStep, position: int, total: int) -> None:
        """Called when a node starts."""

    def progressed(self, step: NodeStep, progress: float, message: str | None) -> None:
        """Called when a node reports progress."""

    def finished(self, outcome: NodeOutcome) -> None:
        """Called when a node has run, or when it is certain that the node will not run."""


class _Silent(Watcher):
    pass


@dataclass(frozen=True, slots=True)
class RunReport:
    """The outcomes of the nodes, in the order of the plan."""

    plan: Plan
    outcomes: tuple[NodeOutcome, ...]  # the outcomes of the nodes, in the order of the plan

    @property
    def ok(self) -> bool:
        return all(outcome.status is NodeStatus.EXECUTED for outcome in self.outcomes)

    @property
    def canceled(self) -> bool:
        return any(outcome.status is NodeStatus.CANCELED for outcome in self.outcomes)

    def outcome(self, node_id: int) -> NodeOutcome:
        """The outcome of the node with an id; KeyError for an unknown id."""
        return {outcome.node.id: outcome for outcome in self.outcomes}[node_id]

    @property
    def ends(self) -> tuple[NodeOutcome, ...]:
        """The executed nodes whose data no other executed node uses."""
        executed = [outcome for outcome in self.outcomes if outcome.status is NodeStatus.EXECUTED]
        # A connection to the flow variable port, which is number 0, takes no data.
        taken = {s[0] for o in executed for s in o.step.sources[1:] if s is not None and s[1] > 0}
        return tuple(outcome for outcome in executed if outcome.node.id not in taken)


def run_plan(plan: Plan, world: World, watcher: Watcher | None = None) -> RunReport:
    """The report of running a planned workflow."""
    run = _WorkflowRun(plan, world, watcher or _Silent())
    for position, step in enumerate(plan.steps):
        run.advance(step, position)
    return RunReport(plan, tuple(run.outcomes.values()))


class _WorkflowRun:
    def __init__(self, plan: Plan, world: World, watcher: Watcher) -> None:
        self._plan = plan
        self._world = world
        self._watcher = watcher
        self._variables = workflow_stack(plan.workflow.variables)
        self.outcomes: dict[int, NodeOutcome] = {}

    def advance(self, step: NodeStep, position: int) -> None:
        """Runs the next node, unless the run is canceled or a node before it was not executed."""
        outcome = self._blocked(step)
        if outcome is None:
            self._watcher.started(step, position, len(self._plan.steps))
            start = time.perf_counter()
            outcome = replace(self._run_step(step), seconds=time.perf_counter() - start)
        self.outcomes[step.node.id] = outcome
        self._watcher.finished(outcome)

    def _blocked(self, step: NodeStep) -> NodeOutcome | None:
        if self._world.is_canceled():
            return NodeOutcome(step=step, status=NodeStatus.CANCELED, message="Canceled")
        # In the order of the ports, so that the message names the first input at fault.
        needed = dict.fromkeys(source[0] for source in step.sources if source is not None)
        for node_id in (*needed, *sorted(self._plan.after.get(step.node.id, ()))):
            before = self.outcomes[node_id]
            if before.status is not NodeStatus.EXECUTED:
                why = f"{before.label} was not executed"
                return NodeOutcome(step=step, status=NodeStatus.NOT_RUN, message=why)
        return None

    def _run_step(self, step: NodeStep) -> NodeOutcome:
        # A node that fails before has no stack, and the outcome needs one.
        incoming: Stack = ()
        try:
            incoming = self._incoming(step)
            model, exposed = step.ready.model or step.node.model, ()
            if step.node.variables:
                if model is None:
                    raise WorkflowError("Flow variables control its settings, but the file has none of them")
                model, exposed = controlled(model, step.node.variables, available(incoming))
            done = step.kind.run(
                Job(
                    node=replace(step.node, model=model),
                    inputs=tuple(self._value(source) for source in step.sources[1:]),
                    stack=incoming,
                    world=self._world,
                    on_progress=lambda progress, text: self._watcher.progressed(step, progress, text),
                    number=step.number,
                )
            )
        except (MCPError, KnwfError, HeadlessError) as error:
            # What a canceled node raises is up to its author.
            canceled = self._world.is_canceled()
            status = NodeStatus.CANCELED if canceled else NodeStatus.FAILED
            return NodeOutcome(step=step, status=status, message=str(error), stack=incoming)
        except Exception as error:  # other branches continue after any error
            _log.debug("%s", label(step.node), exc_info=True)
            message = f"Unexpected {type(error).__name__}: {error}"
            return NodeOutcome(step=step, status=NodeStatus.FAILED, message=message, stack=incoming)
        # The first exposed variable is on top of the others, and the node's own variables are above these.
        stack = (*self._before(step, incoming), *reversed(exposed), *done.variables)
        return NodeOutcome(step=step, status=NodeStatus.EXECUTED, done=done, stack=stack)

    def _before(self, step: NodeStep, incoming: Stack) -> Stack:
        """The variables below those of a node: what arrives, but not across the border of a component."""
        if step.node.factory == COMPONENT_INPUT_FACTORY:
            return ()
        entry = self._plan.entries.get(step.node.id)
        return incoming if entry is None else self._incoming(self.outcomes[entry].step)

    def _incoming(self, step: NodeStep) -> Stack:
        if step.is_source:
            # In a component, only the variables that its Component Input lets in are seen.
            return () if self._plan.after.get(step.node.id) else self._variables
        return merged([self.outcomes[source[0]].stack for source in step.sources if source is not None])

    def _value(self, source: tuple[int, int] | None) -> Any:
        if source is None:
            return None
        node_id, port = source
        outputs = self.outcomes[node_id].done.outputs
        # From port 0 come flow variables only.
        return outputs[port - 1] if 0 < port <= len(outputs) else None


_URL: Final = "server_url"


def with_servers(workflow: Workflow, servers: Mapping[str, str], extension_id: str) -> Workflow:
    """Replaces the servers in settings of the extension's nodes, by the rules of a replay.

    ``servers`` has new URLs by old URL or beginning of an old URL. A credential is meant for one server: if
    the new server has another origin, the node loses its credential, unless the new URL has
    ``#credential=NAME``. WorkflowError for a server that is in no node.
    """
    if not servers:
        return workflow
    used: set[str] = set()
    known: dict[str, None] = {}
    nodes: list[Node] = []
    for node in workflow.nodes:
        if isinstance(node, NativeNode) and node.extension_id == extension_id:
            model = cast("dict[str, Any]", node.parameters["model"])
            url = model.get(_URL)
            # The flow variable decides, and callers can set it: it may be the text of a Configuration node.
            is_set_elsewhere = any(own.path == (_URL,) and own.used for own in node.variables)
            if isinstance(url, str) and url.strip() and not is_set_elsewhere:
                known[url] = None
                used |= {old for old in servers if _is_of(url, old)}
                nodes.append(_mapped(node, model, servers))
                continue
        nodes.append(node)
    unknown = [old for old in servers if old not in used]
    if unknown:
        raise WorkflowError(
            f"No node of the workflow names the server {unknown[0]}; they name: {', '.join(known) or 'none'}",
            fix="A URL that a flow variable sets is changed with --set",
        )
    return replace(workflow, nodes=tuple(nodes))


def _is_of(url: str, old: str) -> bool:
    # With the slash, so that https://a.example/mcp is not taken for https://a.example/mcp2.
    return url == old or f"{url.rstrip('/')}/".startswith(f"{old.rstrip('/')}/")


def _mapped(node: NativeNode, model: dict[str, Any], servers: Mapping[str, str]) -> NativeNode:
    own = {old: new for old, new in servers.items() if _is_of(model[_URL], old)}
    if not own:
        return node
    route = ServerRoute.parse(model[_URL])
    mapped = ReplayOptions(servers=own).route(replace(route, credential=model.get("credentials")))
    changed = {**model, _URL: mapped.url}
    if "credentials" in model and mapped.credential != model["credentials"]:
        changed["credentials"] = mapped.credential or ""
    return replace(node, model=to_model({"model": changed}, node.parameters_version))
