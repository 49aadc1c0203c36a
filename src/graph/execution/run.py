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
    """One run.

    Attributes:
        executor: What runs it.
        tool: The tool that runs.
        arguments: Its arguments.
        limits: What it may use.
        hooks: Who is told.
        controller: Who steers it; None: nobody.
        is_canceled: Whether the caller wants it to end.
        history: What ran.
        depth: How many tools of the document called each other to get here.
        started: When it began, as `time.monotonic` counts.
        span: What observes the run, or None.
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
        """Returns whether somebody wants the run to end."""
        if self.controller is not None and self.controller.is_stopped:
            return True
        return self.is_canceled is not None and self.is_canceled()

    def stopped(self) -> RunError:
        """The error of a run that somebody ended."""
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
        """Tells the controller how the run ended."""
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
    """Nodes of a run that run one after the other: the whole run, a branch, or one entry of a loop.

    Args:
        run: The run.
        view: What its nodes see.
        branch: Names of the branches that it is in, outermost first.
        outer: The line that it came from, or None.
    """

    __slots__ = ("_broken", "_made", "_outer", "branch", "run", "view")

    def __init__(self, run: Run, view: View, branch: tuple[str, ...] = (), outer: Line | None = None) -> None:
        self.run = run
        self.view = view
        self.branch = branch
        self._outer = outer
        self._broken = threading.Event()
        self._made: dict[str, Any] | None = None

    def branch_of(self, record: NodeRecord, name: str) -> tuple[str, ...]:
        """Names of the branches around what a node runs: those of this line, and the node's own."""
        return (*self.branch, f"{record.node_id}#{record.index}[{name}]")

    def break_off(self) -> None:
        """Ends the line: a branch beside it has failed."""
        self._broken.set()

    def is_stopped(self) -> bool:
        """Returns whether the line has to end."""
        if self._broken.is_set() or self.run.is_stopped():
            return True
        return self._outer is not None and self._outer.is_stopped()

    def evaluate(self, expression: str, bindings: Mapping[str, Any] | None = None) -> Any:
        """Evaluates JSONata against what the line sees.

        Raises:
            ExpressionError: It fails.
            Stopped: The line has to end.
        """
        seconds = min(self.run.executor.expression_seconds, max(self.run.left, 0.001))
        bounds = Bounds(seconds=seconds, is_stopped=self.is_stopped)
        known = None
        if "$" in expression:  # no name of a binding can be in it otherwise
            known = self._functions if not bindings else {**self._functions, **marked(dict(bindings))}
        return evaluate(expression, self.view.marked, known, bounds=bounds, is_marked=True)

    @property
    def _functions(self) -> dict[str, Any]:
        if self._made is None:
            self._made = history_functions(self.view)
        return self._made

    def sleep(self, seconds: float) -> None:
        """Waits, but not longer than the run may take.

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
