"""Runs a workflow: its nodes one after the other, each with what arrives from the others.

As in KNIME a node that fails stops only what is behind it; other branches go on. Nodes that depend on nothing
of each other run in a fixed order.
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
from .job import Done, Job
from .plan import label
from .variables import available, merged, workflow_stack

if TYPE_CHECKING:
    from ...knwf import NativeNode
    from .job import World
    from .plan import Plan, Step
    from .variables import Stack


_log = logging.getLogger(__name__)


class NodeStatus(StrEnum):
    """What became of a node."""

    EXECUTED = "executed"
    FAILED = "failed"
    CANCELED = "canceled"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutcome:
    """What became of a node.

    Attributes:
        step: The node in its place.
        status: What became of it.
        done: What it gave; nothing where it was not executed.
        message: Why it was not executed.
        stack: The flow variables behind it.
        seconds: How long it ran.
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
        """How people know the node."""
        return self.step.label


class Watcher(Protocol):
    """Is told how a run goes, in the thread that runs it or in a node's own."""

    def started(self, step: Step, position: int, total: int) -> None:
        """A node starts."""

    def progressed(self, step: Step, progress: float, message: str | None) -> None:
        """A node says how far it is."""

    def finished(self, outcome: NodeOutcome) -> None:
        """A node has run, or will not."""


class _Silent(Watcher):
    """Says nothing."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What became of a workflow.

    Attributes:
        plan: What was to run.
        outcomes: What became of each node, in the order of the plan.
    """

    plan: Plan
    outcomes: tuple[NodeOutcome, ...]

    @property
    def ok(self) -> bool:
        """Whether every node was executed."""
        return all(outcome.status is NodeStatus.EXECUTED for outcome in self.outcomes)

    @property
    def canceled(self) -> bool:
        """Whether the person stopped the run."""
        return any(outcome.status is NodeStatus.CANCELED for outcome in self.outcomes)

    def outcome(self, node_id: int) -> NodeOutcome:
        """What became of the node with an id; KeyError if there is none."""
        return {outcome.node.id: outcome for outcome in self.outcomes}[node_id]

    @property
    def ends(self) -> tuple[NodeOutcome, ...]:
        """The executed nodes whose data no other executed node took."""
        executed = [outcome for outcome in self.outcomes if outcome.status is NodeStatus.EXECUTED]
        taken = {s[0] for o in executed for s in o.step.sources[1:] if s is not None and s[1] > 0}
        return tuple(outcome for outcome in executed if outcome.node.id not in taken)


def run_plan(plan: Plan, world: World, watcher: Watcher | None = None) -> RunReport:
    """Runs a workflow.

    Args:
        plan: What to run, from `plan_run`.
        world: What all nodes share.
        watcher: Is told how it goes.

    Returns:
        What became of each node; failures are part of it.
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
        """Runs the next node, unless it has to wait for one that did not run."""
        outcome = self._blocked(step)
        if outcome is None:
            self._watcher.started(step, position, len(self._plan.steps))
            start = time.perf_counter()
            outcome = replace(self._tried(step), seconds=time.perf_counter() - start)
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

    def _tried(self, step: Step) -> NodeOutcome:
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
        except Exception as error:  # whatever goes wrong with one node, the other branches go on
            _log.debug("%s", label(step.node), exc_info=True)
            message = f"Unexpected {type(error).__name__}: {error}"
            return NodeOutcome(step=step, status=NodeStatus.FAILED, message=message, stack=incoming)
        # The first exposed variable ends on top, what the node itself made above all of them.
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
