"""Runs graphs. Each run has its own state, so that any number of runs is possible at the same time."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..expressions.bounds import DEFAULT_SECONDS
from ..expressions.values import json_value
from .calls import ResultCache
from .control import Hooks, RunStatus
from .failures import RunError
from .run import Line, Run, shorter
from .run_nodes import run_line
from .telemetry import Telemetry, telemetry_of
from .tool_schemas import ToolSchemas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..model import GraphDocument, ToolDefinition
    from .calls import CallTool
    from .control import Controller
    from .history import NodeRecord
    from .spans import Spans

_DEEPEST_TOOL: Final = 32
_NO_HOOKS: Final = Hooks()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The outcome of a run that reached its exit.

    Attributes:
        result: The result of the tool, JSON.
        history: The executions, in the order in which nodes began.
        duration: Milliseconds from beginning to end.
    """

    result: Any
    history: tuple[NodeRecord, ...]
    duration: float

    @property
    def telemetry(self) -> Telemetry:
        """The costs of the run; added up on each access."""
        return telemetry_of(self.history, self.duration)


class GraphExecutor:
    """Runs the tools of one document. Safe to use from several threads.

    Args:
        document: The document.
        call: Makes calls of tools on other servers.
        expression_seconds: Maximum time of one expression.
        check_schemas: Whether arguments and results are validated by the schemas in the document.
        spans: Makes a span for each run and node; None: no spans.
    """

    def __init__(
        self,
        document: GraphDocument,
        call: CallTool,
        *,
        expression_seconds: float = DEFAULT_SECONDS,
        check_schemas: bool = True,
        spans: Spans | None = None,
    ) -> None:
        self.document = document
        self.call = call
        self.cache = ResultCache()
        self.spans = spans
        self.expression_seconds = expression_seconds
        self._schemas = {tool.name: ToolSchemas(tool) for tool in document.tools} if check_schemas else {}

    def run(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        hooks: Hooks | None = None,
        controller: Controller | None = None,
        is_canceled: Callable[[], bool] | None = None,
        most_milliseconds: int | None = None,
    ) -> RunResult:
        """Runs a tool and waits for its result.

        Args:
            tool: Name of the tool.
            arguments: Its arguments, JSON.
            hooks: Functions that are called during the run.
            controller: Controls the run; for one run only.
            is_canceled: Called repeatedly; True ends the run.
            most_milliseconds: Maximum time, if it is less than the document's.

        Returns:
            The result and the history.

        Raises:
            RunError: The run failed; its `history` has the executions before the failure.
        """
        definition = self.document.tool(tool)
        if definition is None:
            known = ", ".join(other.name for other in self.document.tools) or "none"
            raise RunError(f"Tool not found: {tool}", kind="arguments", fix=f"There are: {known}")
        run = self._begin(definition, dict(arguments or {}), hooks or _NO_HOOKS, controller, is_canceled)
        if most_milliseconds is not None:
            run.limits = shorter(run.limits, most_milliseconds)
        if controller is not None:
            controller.become(RunStatus.RUNNING)
        try:
            with nullcontext() if self.spans is None else self.spans.run(run):
                result = self._finish(run)
        except BaseException as error:
            if isinstance(error, RunError):
                error.placed(tool).history = run.history.records()
            run.end(error)
            raise
        run.end(None)
        duration = (time.monotonic() - run.started) * 1000
        return RunResult(result=result, history=run.history.records(), duration=duration)

    def run_inside(
        self,
        tool: ToolDefinition,
        arguments: dict[str, Any],
        line: Line,
        record: NodeRecord,
        seconds: float,
    ) -> Any:
        """Runs a tool of the document for a node of another tool.

        Args:
            tool: The tool.
            arguments: Its arguments.
            line: The line that the node runs in.
            record: The node's record.
            seconds: Maximum time.

        Returns:
            The tool's result.

        Raises:
            RunError: The tool failed.
        """
        outer = line.run
        if outer.depth >= _DEEPEST_TOOL:
            raise RunError(f"Tools call each other more than {_DEEPEST_TOOL} levels deep", kind="limit")
        inner = self._begin(tool, arguments, outer.hooks, outer.controller, line.is_stopped)
        inner.depth = outer.depth + 1
        inner.history = outer.history.nested()
        inner.limits = shorter(outer.limits, max(1, round(min(seconds, outer.left) * 1000)))
        inner.span = outer.span
        return self._finish(inner, line.branch_of(record, tool.name))

    def _begin(
        self,
        tool: ToolDefinition,
        arguments: dict[str, Any],
        hooks: Hooks,
        controller: Controller | None,
        is_canceled: Callable[[], bool] | None,
    ) -> Run:
        return Run(
            executor=self,
            tool=tool,
            arguments=arguments,
            limits=self.document.limits,
            hooks=hooks,
            controller=controller,
            is_canceled=is_canceled,
        )

    def _finish(self, run: Run, branch: tuple[str, ...] = ()) -> Any:
        schemas = self._schemas.get(run.tool.name)
        if schemas is not None:
            schemas.check_arguments(run.arguments)
        line = Line(run, run.history.view, branch)
        last = run_line(line, run.tool.entry.id)
        result = json_value(None if last is None else last.output)
        if schemas is not None:
            schemas.check_result(result)
        return result
