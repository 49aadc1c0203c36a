"""The state of one run of one tool, and of the lines in it. Nothing is shared between runs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..expressions import Bounds, evaluate
from ..expressions.nulls import marked
from .control import Controller, Hooks, RunStatus
from .failures import RunError
from .history import History, View
from .history_functions import history_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..model import ExecutionLimits, ToolDefinition
    from .executor import GraphExecutor
    from .history import NodeRecord


@dataclass(slots=True, kw_only=True)
class Run:
    """A run of a tool.

    Attributes:
        executor: The executor.
        tool: The tool that runs.
        arguments: Its arguments.
        limits: The limits of the run.
        hooks: Functions that are called during the run.
        controller: Controls the run, or None.
        is_canceled: Returns whether the caller wants the run to end.
        history: The records of the nodes.
        depth: Number of the document's tools that called each other before this run.
        started: Time of the beginning, from `time.monotonic`.
        span: OpenTelemetry's span of the run, or None.
    """

    executor: GraphExecutor
    tool: ToolDefinition
    arguments: dict[str, Any]
    limits: ExecutionLimits
    hooks: Hooks
    controller: Controller | None
    is_canceled: Callable[[], bool] | None
    depth: int = 0
    history: History = field(default_factory=History)
    started: float = field(default_factory=time.monotonic)
    span: Any = None

    @property
    def left(self) -> float:
        """Seconds until the run's time is over; negative afterwards."""
        return self.started + self.limits.max_execution_time_ms / 1000 - time.monotonic()

    def is_stopped(self) -> bool:
        """Returns whether the caller or the controller wants the run to end."""
        if self.controller is not None and self.controller.is_stopped:
            return True
        return self.is_canceled is not None and self.is_canceled()

    def stopped(self) -> RunError:
        """The error of a run that was stopped."""
        return RunError("Execution was stopped", tool=self.tool.name, kind="stopped")

    def out_of_time(self) -> RunError:
        """The error of a run whose time is over."""
        most = self.limits.max_execution_time_ms
        elapsed = round((time.monotonic() - self.started) * 1000)
        return RunError(
            f"Execution limit exceeded: maximum execution time ({most}ms) reached. Elapsed time: {elapsed}ms",
            tool=self.tool.name,
            kind="limit",
            fix="Raise executionLimits.maxExecutionTimeMs if it may take that long",
        )

    def out_of_nodes(self) -> RunError:
        """The error of a run that ran too many nodes."""
        most = self.limits.max_node_executions
        return RunError(
            f"Execution limit exceeded: maximum node executions ({most}) reached."
            f" Current execution count: {len(self.history)}",
            tool=self.tool.name,
            kind="limit",
            fix="See why the graph does not come to its exit, or raise executionLimits.maxNodeExecutions",
        )

    def end(self, error: BaseException | None) -> None:
        """Sets the controller's final state."""
        if self.controller is None:
            return
        if error is None:
            self.controller.become(RunStatus.FINISHED)
        elif isinstance(error, RunError) and error.kind == "stopped":
            self.controller.become(RunStatus.STOPPED)
        else:
            self.controller.become(RunStatus.ERROR)


def shorter(limits: ExecutionLimits, milliseconds: int) -> ExecutionLimits:
    """The same limits with a shorter time."""
    return replace(limits, max_execution_time_ms=min(limits.max_execution_time_ms, milliseconds))


class Line:
    """A sequence of nodes that run one after the other: the whole run, a branch, or one entry of a loop.

    Args:
        run: The run.
        view: The records that its nodes see.
        branch: Names of the branches around it, outermost first.
        outer: The line around it, or None.
    """

    __slots__ = ("_broken", "_history_functions", "_outer", "branch", "run", "view")

    def __init__(self, run: Run, view: View, branch: tuple[str, ...] = (), outer: Line | None = None) -> None:
        self.run = run
        self.view = view
        self.branch = branch
        self._outer = outer
        self._broken = threading.Event()
        self._history_functions: dict[str, Any] | None = None

    def branch_of(self, record: NodeRecord, name: str) -> tuple[str, ...]:
        """Names of the branches around the nodes that a node of this line runs; `name` is the innermost."""
        return (*self.branch, f"{record.node_id}#{record.index}[{name}]")

    def break_off(self) -> None:
        """Ends the line, because a parallel branch has failed."""
        self._broken.set()

    def is_stopped(self) -> bool:
        """Returns whether the line has to end."""
        if self._broken.is_set() or self.run.is_stopped():
            return True
        return self._outer is not None and self._outer.is_stopped()

    def evaluate(self, expression: str, bindings: Mapping[str, Any] | None = None) -> Any:
        """Evaluates JSONata on the context of the line.

        Raises:
            ExpressionError: The evaluation failed.
            Stopped: The line has to end.
        """
        seconds = min(self.run.executor.expression_seconds, max(self.run.left, 0.001))
        bounds = Bounds(seconds=seconds, is_stopped=self.is_stopped)
        known = None
        if "$" in expression:  # names of bindings begin with it
            known = self._functions if not bindings else {**self._functions, **marked(dict(bindings))}
        return evaluate(expression, self.view.marked, known, bounds=bounds, is_marked=True)

    @property
    def _functions(self) -> dict[str, Any]:
        if self._history_functions is None:
            self._history_functions = history_functions(self.view)
        return self._history_functions

    def sleep(self, seconds: float) -> None:
        """Waits, but not beyond the time of the run.

        Raises:
            RunError: The line has to end, or the time is over.
        """
        until = time.monotonic() + seconds
        while True:
            if self.is_stopped():
                raise self.run.stopped()
            if self.run.left <= 0:
                raise self.run.out_of_time()
            left = min(until - time.monotonic(), self.run.left, 0.1)
            if until <= time.monotonic():
                return
            self._broken.wait(max(left, 0))
