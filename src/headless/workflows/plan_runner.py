"""Runs a workflow: its nodes one after another, each with the outputs of connected nodes.

As in KNIME, the failure of a node stops only the nodes after it, and other branches continue. Independent
nodes run in a fixed order.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from ...knwf import KnwfError
from ...types.errors import MCPError
from ..errors import HeadlessError
from .control import controlled
from .errors import RunError
from .node_kinds.node_kind import Done, Job
from .plan import label
from .variables import available, merged, workflow_stack

if TYPE_CHECKING:
    from ...knwf import NativeNode
    from .node_kinds.node_kind import World
    from .plan import Plan, Step
    from .variables import Stack


_log = logging.getLogger(__name__)


class NodeStatus(StrEnum):
    """The status of a node after a run."""

    EXECUTED = "executed"
    FAILED = "failed"
    CANCELED = "canceled"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutcome:
    """The outcome of a node.

    Attributes:
        step: The step of the node.
        status: The status after the run.
        done: The result; empty if the node was not executed.
        message: The reason why the node was not executed.
        stack: The flow variables after the node.
        seconds: The duration.
    """

    step: Step
    status: NodeStatus
    done: Done = field(default_factory=Done)
    message: str = ""
    stack: Stack = ()
    seconds: float = 0.0

    @property
    def node(self) -> NativeNode:
        """The node."""
        return self.step.node

    @property
    def label(self) -> str:
        """The name of the node in messages."""
        return self.step.label


class Watcher(Protocol):
    """Receives the progress of a run, in the thread of the run or of a node."""

    def started(self, step: Step, position: int, total: int) -> None:
        """Called when a node starts."""

    def progressed(self, step: Step, progress: float, message: str | None) -> None:
        """Called when a node reports progress."""

    def finished(self, outcome: NodeOutcome) -> None:
        """Called when a node has run, or when it is certain that the node will not run."""


class _Silent(Watcher):
    """A watcher that does nothing."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report of a workflow's run.

    Attributes:
        plan: The plan of the run.
        outcomes: The outcomes of the nodes, in the order of the plan.
    """

    plan: Plan
    outcomes: tuple[NodeOutcome, ...]

    @property
    def ok(self) -> bool:
        """True if every node was executed."""
        return all(outcome.status is NodeStatus.EXECUTED for outcome in self.outcomes)

    @property
    def canceled(self) -> bool:
        """True if the run was canceled."""
        return any(outcome.status is NodeStatus.CANCELED for outcome in self.outcomes)

    def outcome(self, node_id: int) -> NodeOutcome:
        """The outcome of the node with an id; KeyError for an unknown id."""
        return {outcome.node.id: outcome for outcome in self.outcomes}[node_id]

    @property
    def ends(self) -> tuple[NodeOutcome, ...]:
        """The executed nodes whose data no other executed node uses."""
        executed = [outcome for outcome in self.outcomes if outcome.status is NodeStatus.EXECUTED]
        taken = {s[0] for o in executed for s in o.step.sources[1:] if s is not None and s[1] > 0}
        return tuple(outcome for outcome in executed if outcome.node.id not in taken)


def run_plan(plan: Plan, world: World, watcher: Watcher | None = None) -> RunReport:
    """Runs a workflow.

    Args:
        plan: The plan from `plan_run`.
        world: The surroundings of the run.
        watcher: Receives the progress.

    Returns:
        The outcome of each node, including failures.
    """
    run = _Run(plan, world, watcher or _Silent())
    for position, step in enumerate(plan.steps):
        run.advance(step, position)
    return RunReport(plan, tuple(run.outcomes.values()))


class _Run:
    def __init__(self, plan: Plan, world: World, watcher: Watcher) -> None:
        self._plan = plan
        self._world = world
        self._watcher = watcher
        self._variables = workflow_stack(plan.workflow.variables)
        self.outcomes: dict[int, NodeOutcome] = {}

    def advance(self, step: Step, position: int) -> None:
        """Runs the next node, unless the run is canceled or a node before it was not executed."""
        outcome = self._blocked(step)
        if outcome is None:
            self._watcher.started(step, position, len(self._plan.steps))
            start = time.perf_counter()
            outcome = replace(self._run_step(step), seconds=time.perf_counter() - start)
        self.outcomes[step.node.id] = outcome
        self._watcher.finished(outcome)

    def _blocked(self, step: Step) -> NodeOutcome | None:
        if self._world.is_canceled():
            return NodeOutcome(step=step, status=NodeStatus.CANCELED, message="Canceled")
        for source in filter(None, step.sources):
            before = self.outcomes[source[0]]
            if before.status is not NodeStatus.EXECUTED:
                why = f"{before.label} was not executed"
                return NodeOutcome(step=step, status=NodeStatus.NOT_RUN, message=why)
        return None

    def _run_step(self, step: Step) -> NodeOutcome:
        incoming: Stack = ()
        try:
            incoming = self._incoming(step)
            model, exposed = step.ready.model or step.node.model, ()
            if step.node.variables:
                if model is None:
                    raise RunError("Flow variables control its settings, but the file has none of them")
                model, exposed = controlled(model, step.node.variables, available(incoming))
            done = step.kind.run(
                Job(
                    node=replace(step.node, model=model),
                    inputs=tuple(self._value(source) for source in step.sources[1:]),
                    stack=incoming,
                    world=self._world,
                    on_progress=lambda progress, text: self._watcher.progressed(step, progress, text),
                )
            )
        except (MCPError, KnwfError, HeadlessError) as error:
            canceled = self._world.is_canceled()
            status = NodeStatus.CANCELED if canceled else NodeStatus.FAILED
            return NodeOutcome(step=step, status=status, message=str(error), stack=incoming)
        except Exception as error:  # other branches continue after any error
            _log.debug("%s", label(step.node), exc_info=True)
            message = f"Unexpected {type(error).__name__}: {error}"
            return NodeOutcome(step=step, status=NodeStatus.FAILED, message=message, stack=incoming)
        # The first exposed variable is on top of the others, and the node's own variables are above these.
        stack = (*incoming, *reversed(exposed), *done.variables)
        return NodeOutcome(step=step, status=NodeStatus.EXECUTED, done=done, stack=stack)

    def _incoming(self, step: Step) -> Stack:
        if step.is_source:
            return self._variables
        return merged([self.outcomes[source[0]].stack for source in step.sources if source is not None])

    def _value(self, source: tuple[int, int] | None) -> Any:
        if source is None:
            return None
        node_id, port = source
        outputs = self.outcomes[node_id].done.outputs
        return outputs[port - 1] if 0 < port <= len(outputs) else None
