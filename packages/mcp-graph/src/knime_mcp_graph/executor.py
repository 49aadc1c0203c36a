"""Runs graphs: the nodes one after the other, and chains of nodes side by side.

Each run has its own state, so that any number of runs is possible at the same time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.client.protocol.tools import ABSENT
from knime_mcp.system import addresses_left
from knime_mcp.types.texts import ours

from .expressions import ExpressionError
from .expressions.engine import DEFAULT_SECONDS, Stopped
from .expressions.javascript import UNDEFINED, json_value
from .graph_model import compiled, nothing_found_by, with_defaults
from .run_control import FINAL, Hooks, RunError, RunStatus
from .run_state import NodeRecord, NodeSequence, RunMemory, RunState, Telemetry, now_ms, shorter, telemetry_of
from .server_calls import ResultCache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from knime_mcp.client.validation.schemas import CompiledSchema

    from .graph_model import GraphDocument, GraphTool
    from .graph_spans import GraphSpans
    from .nodes import Node
    from .run_control import Controller
    from .server_calls import CallTool


_log = logging.getLogger(__name__)

_MOST_HELPERS: Final = 128
_NO_HOOKS: Final = Hooks()
_ROOM_OF_THREAD: Final = 192 << 20  # its stack, the part of the heap that it reserves, and what it works on


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


Chains = list[tuple["NodeSequence", str]]
"""Lines, and the first node of each."""


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One execution of a node, as the node sees it."""

    executor: GraphExecutor
    line: NodeSequence
    record: NodeRecord
    last: NodeRecord | None  # that of the node before it
    _chains: Callable[[NodeSequence, Chains, str | None, int], list[Any]]
    finish: Callable[[RunState, tuple[str, ...]], Any]
    """Runs a tool inside of this run, in branches of these names; returns its result."""

    def chains(self, chains: Chains, until: str | None, most: int) -> list[Any]:
        """Runs chains of nodes up to a node, `most` at a time; returns the outputs of their last nodes."""
        return self._chains(self.line, chains, until, most)


class GraphExecutor:
    """Runs the tools of one document. Safe to use from several threads."""

    def __init__(
        self,
        document: GraphDocument,
        call: CallTool,
        *,
        expression_seconds: float = DEFAULT_SECONDS,
        check_schemas: bool = True,
        spans: GraphSpans | None = None,
    ) -> None:
        self.document = document
        self.call = call
        self.cache = ResultCache()
        self.spans = spans
        self.expression_seconds = expression_seconds
        self._memory: RunMemory | None = None
        self._helpers = _Helpers(_MOST_HELPERS)
        self.told: set[tuple[str, str]] = set()
        self._schemas = {tool.name: _schemas(tool) for tool in document.tools} if check_schemas else {}

    def hold_memory(self) -> None:
        """Ends the largest run when runs let the process grow beyond ``maxMemoryMb``.

        Not for a process that does something else, too: that would count as theirs.
        """
        self._memory = RunMemory(self.document.limits)

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
        """Runs a tool and waits for its result."""
        definition = self.document.tool(tool)
        if definition is None:
            known = ", ".join(other.name for other in self.document.tools) or "none"
            raise RunError(f"Tool not found: {tool}", kind="arguments", fix=f"There are: {known}")
        run = RunState(
            expression_seconds=self.expression_seconds,
            tool=definition,
            arguments=with_defaults(definition.input_schema, arguments or {}),
            limits=self.document.limits,
            hooks=hooks or _NO_HOOKS,
            controller=controller,
            is_canceled=is_canceled,
            memory=self._memory,
        )
        began = time.monotonic()
        if most_milliseconds is not None:
            run.limits = shorter(run.limits, most_milliseconds)
        if controller is not None:
            controller.become(RunStatus.RUNNING)
        if run.memory is not None:
            run.memory.begin(run.history)
        try:
            with nullcontext() if self.spans is None else self.spans.run(run):
                result = self._finish(run)
        except BaseException as error:
            if isinstance(error, RunError):
                error.placed(tool).history = run.history.records()
            run.end(error)
            raise
        finally:
            if run.memory is not None:
                run.memory.end(run.history)
        run.end(None)
        duration = (time.monotonic() - began) * 1000
        return RunResult(result=result, history=run.history.records(), duration=duration)

    def _finish(self, run: RunState, branch: tuple[str, ...] = ()) -> Any:
        schemas = self._schemas.get(run.tool.name)
        problem = violation(schemas[0], run.arguments, "the arguments") if schemas is not None else None
        if problem is not None:
            raise RunError(
                f"The arguments violate the tool's inputSchema: {problem}",
                tool=run.tool.name,
                kind="arguments",
                fix="Correct the arguments; nothing was run",
            )
        line = NodeSequence(run, run.history.view, branch)
        last = self._run_line(line, run.tool.entry.id)
        result = json_value(None if last is None else last.output)
        problem = violation(schemas[1], result, "the result") if schemas is not None else None
        if problem is not None:
            raise RunError(
                f"The result violates the tool's outputSchema: {problem}",
                tool=run.tool.name,
                node=run.tool.exit.id,
                kind="result",
                fix="Correct the node before the exit, or the outputSchema in the document",
            )
        return result

    def _run_line(self, line: NodeSequence, start: str, *, until: str | None = None) -> NodeRecord | None:
        """Runs nodes from one to another, or to the exit; returns the record of the last one, if any ran."""
        current: str | None = start
        last: NodeRecord | None = None
        by_id = line.run.tool.by_id
        while current is not None and current != until:
            last, current = self._run_node(line, by_id[current], last)
        return last

    def _run_node(
        self, line: NodeSequence, node: Node, last: NodeRecord | None
    ) -> tuple[NodeRecord, str | None]:
        run, spans = line.run, self.spans
        record = NodeRecord(
            index=-1,
            node_id=node.id,
            node_type=node.kind,
            branch=line.branch,
            start_time=now_ms(),
            tool=run.tool,
        )
        if not run.history.begin(record, line.view, run.limits.max_node_executions):
            raise run.out_of_nodes().placed(run.tool.name, node.id)
        try:
            _before(line, node, record)
            with nullcontext() if spans is None else spans.node(run, node, record):
                output = self._output_or_error(line, node, record, last)
                following = node.following(output)
        except RunError as error:
            return record, _failed(line, node, record, error)
        except BaseException:
            record.end_time, record.error = now_ms(), "The run was ended"
            raise
        record.output, record.end_time = output, now_ms()
        hook = run.hooks.on_node_complete
        # The context before this output, copied only for a hook: it is large, and changes in the next line.
        seen = line.view.context if hook is None else dict(line.view.context)
        record.nothing = nothing_found_by(node, seen)
        line.view.add(record)
        if hook is not None:
            hook(record, node, seen)
        return record, following

    def _output_or_error(
        self, line: NodeSequence, node: Node, record: NodeRecord, last: NodeRecord | None
    ) -> Any:
        given = line.run.hooks.output_for
        try:
            if given is not None and (output := given(record, node)) is not ABSENT:
                return output
            return node.run(NodeRun(self, line, record, last, self._chains, self._finish))
        except Stopped:
            raise line.run.stopped() from None
        except ExpressionError as error:
            # The run had no more time, which is what the author has to know, not that of the expression.
            if error.code == "D1012" and line.run.left <= 0:
                raise line.run.out_of_time() from None
            raise RunError(error.what, kind="expression", code=error.code) from None

    def _chains(self, line: NodeSequence, chains: Chains, until: str | None, most: int) -> list[Any]:
        """Runs chains of nodes, each in its own line from a first node on, `most` at a time.

        Returns the outputs of their last nodes. If a chain fails, the others are ended.
        """
        outputs: list[Any] = [UNDEFINED] * len(chains)
        failures: list[BaseException] = []
        waiting = deque(enumerate(chains))

        def run_chains() -> None:
            while waiting and not failures:
                try:
                    index, (inner, start) = waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                try:
                    last = self._run_line(inner, start, until=until)
                except BaseException as error:
                    failures.append(error)
                    # The others would work for a result that nobody gets.
                    for other, _ in chains:
                        other.break_off()
                    return
                outputs[index] = UNDEFINED if last is None else last.output

        # One less than at a time, as this thread works on the chains as well: with no free helper the run
        # goes on all the same.
        helpers = self._helpers.start(run_chains, min(most, len(chains)) - 1)
        run_chains()
        for helper in helpers:
            helper.join()
        if failures:
            raise failures[0]
        for inner, _ in chains:
            # In the document's order and not in that of time: the context after a join is always the same.
            line.view.join(inner.view)
        return outputs


class _Helpers:
    """The threads that help those of runs with branches and entries, so many at most for all runs together.

    Where none is left, a run goes on in its own thread; nested runs would wait for one for ever.
    """

    def __init__(self, most: int) -> None:
        self._free = threading.Semaphore(most)

    def start(self, work: Callable[[], None], wanted: int) -> list[threading.Thread]:
        started: list[threading.Thread] = []
        while len(started) < wanted and _has_room() and self._free.acquire(blocking=False):
            helper = threading.Thread(target=self._help, args=(work,), name="graph-branch", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # the system has no memory for another one
                self._free.release()
                break
            started.append(helper)
        return started

    def _help(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._free.release()


def _has_room() -> bool:
    """Whether the limit of this process's addresses, if it has one, leaves some for another thread.

    A thread that dies of it while it begins would never tell the one that waits for its beginning.
    """
    return addresses_left() > _ROOM_OF_THREAD


def _schemas(tool: GraphTool) -> tuple[CompiledSchema, CompiledSchema]:
    schemas = compiled(tool.input_schema), compiled(tool.output_schema)
    for name, schema in zip(("inputSchema", "outputSchema"), schemas, strict=True):
        if schema.fault is not None:
            _log.warning("%s of the tool %s is not checked: %s", name, tool.name, schema.fault)
    return schemas


def violation(schema: CompiledSchema, value: Any, whole: str) -> str | None:
    try:
        if schema.is_valid(value):
            return None
    except ValueError as error:
        return str(error)
    from knime_mcp.client.validation.problems import (
        describe_problems,  # imported late, so that servers start faster
    )

    return ours(describe_problems(schema, schema.problems(value), whole=whole)[1])


def _before(line: NodeSequence, node: Node, record: NodeRecord) -> None:
    """Checks the limits, pauses the run if the controller or a hook wants it, and calls the start hook."""
    run = line.run
    if run.left <= 0:
        raise run.out_of_time()
    if line.is_stopped():
        raise run.stopped()
    if run.memory is not None and run.memory.is_over(run.history):
        raise run.out_of_memory()
    # Before the start hook, as in the reference: what a debugger shows is before the node.
    run.pause(record.index, node)
    hook = run.hooks.on_node_start
    if hook is not None and hook(record.index, node, line.view.context) is False:
        if run.controller is None:
            raise RunError("A hook asked for a pause, but the run has no controller", kind="graph")
        run.pause(record.index, node, wants_pause=True)
    record.start_time = now_ms()


def _failed(line: NodeSequence, node: Node, record: NodeRecord, error: RunError) -> str:
    """Records a failure; returns the target of the node's ``onError`` edge, or raises the error."""
    run = line.run
    error.placed(run.tool.name, node.id)
    record.end_time, record.error = now_ms(), error.sentence
    target = node.on_error
    caught = target is not None and error.kind not in FINAL
    record.output = {"error": error.to_json()} if caught else None
    line.view.add(record)
    if run.hooks.on_node_error is not None:
        run.hooks.on_node_error(record, node, error)
    if not caught or target is None:
        raise error
    return target
