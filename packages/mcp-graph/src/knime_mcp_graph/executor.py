"""Runs graphs: the nodes one after the other, and the work of each type of node.

Each run has its own state, so that any number of runs is possible at the same time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from knime_mcp.client.protocol.tools import ABSENT
from knime_mcp.system import addresses_left
from knime_mcp.types.texts import ours
from knime_mcp.yaml_text import as_mapping

from .expressions import ExpressionError, holds
from .expressions.engine import DEFAULT_SECONDS, Stopped
from .expressions.javascript import UNDEFINED, json_value, truthy
from .graph_model import (
    EntryNode,
    ExitNode,
    ForEachNode,
    McpNode,
    ParallelNode,
    SwitchNode,
    ToolNode,
    TransformNode,
    compiled,
    evaluated,
    nothing_found_by,
    type_name,
    with_defaults,
)
from .run_control import Hooks, RunError, RunStatus
from .run_state import NodeRecord, NodeSequence, RunMemory, RunState, Telemetry, now_ms, shorter, telemetry_of
from .server_calls import ResultCache, arguments_of, call_node, retried

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from knime_mcp.client.validation.schemas import CompiledSchema

    from .graph_model import GraphDocument, GraphTool, Node
    from .graph_spans import GraphSpans
    from .run_control import Controller
    from .server_calls import CallTool


_log = logging.getLogger(__name__)

_DEEPEST_TOOL: Final = 32
_MOST_HELPERS: Final = 128
_BLOCKS: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})
_FINAL: Final = frozenset({"limit", "stopped", "unknown"})
"""Kinds of errors that end a run, whatever its nodes have for errors."""
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
        self._told: set[tuple[str, str]] = set()
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
            node_type=type_name(node),
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
                following = _following(node, output)
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
            return self._output(line, node, record, last)
        except Stopped:
            raise line.run.stopped() from None
        except ExpressionError as error:
            # The run had no more time, which is what the author has to know, not that of the expression.
            if error.code == "D1012" and line.run.left <= 0:
                raise line.run.out_of_time() from None
            raise RunError(error.what, kind="expression", code=error.code) from None

    def _output(  # @NodeTypeDispatch
        self, line: NodeSequence, node: Node, record: NodeRecord, last: NodeRecord | None
    ) -> Any:
        match node:
            case EntryNode():
                return line.run.arguments
            case ExitNode():
                # The output of the node before, or an empty object if that is undefined.
                is_there = last is not None and last.output is not UNDEFINED and truthy(last.output)
                return last.output if is_there and last is not None else {}
            case TransformNode():
                return line.evaluate(node.expression.text)
            case SwitchNode():
                return _switch(line, node)
            case McpNode():
                return self._call(line, node, record)
            case ToolNode():
                return self._call_tool(line, node, record)
            case ParallelNode():
                return self._run_parallel(line, node, record)
            case ForEachNode():
                return self._run_each(line, node, record)
            case _:
                assert_never(node)

    def _call(self, line: NodeSequence, node: McpNode, record: NodeRecord) -> Any:
        record.input = arguments_of(node.args, line)
        if node.cache is not None:
            kept = self.cache.get(node, record)
            if kept is not ABSENT:
                return kept
        output = retried(node.retry, line, record, lambda: call_node(node, record, line, self.call))
        if node.cache is not None:
            self.cache.put(node, record, output)
        if record.lost:
            self._tell_of_lost_blocks(line.run.tool, record)
        return output

    def _tell_of_lost_blocks(self, tool: GraphTool, record: NodeRecord) -> None:
        """Warns once of a node whose output lacks blocks of the result, unless the tool asks for them."""
        place = (tool.name, record.node_id)
        if place in self._told or any("$nodeContent" in str(evaluated(node)) for node in tool.nodes):
            return
        self._told.add(place)
        kinds = {str(as_mapping(block).get("type")) for block in record.lost}
        _log.warning(
            "Tool '%s', node '%s': its output lacks %d of the %d blocks of the result (%s)."
            " $nodeContent('%s') gives all of them.",
            *place,
            len(record.lost),
            len(record.content),
            ", ".join(sorted(kinds & _BLOCKS) or ["unknown"]),
            record.node_id,
        )

    def _call_tool(self, line: NodeSequence, node: ToolNode, record: NodeRecord) -> Any:
        arguments = record.input = arguments_of(node.args, line)
        tool = record.called = self.document.tool(node.tool)
        if tool is None:
            raise RunError(f"Tool not found: {node.tool}", kind="graph")

        def attempt() -> Any:
            try:
                return self._run_inside(tool, arguments, line, record, node.timeout or line.run.left)
            except RunError as error:
                # A limit of the inner tool is an error of this call, which may be caught; one of the whole
                # run is not.
                if error.kind in _FINAL - {"limit"} or (error.kind == "limit" and line.run.left <= 0):
                    raise
                kind = "arguments" if error.kind == "arguments" else "call"
                raise RunError(error.sentence, kind=kind, code=error.code, details=error.details) from None

        return retried(node.retry, line, record, attempt)

    def _run_inside(
        self,
        tool: GraphTool,
        arguments: dict[str, Any],
        line: NodeSequence,
        record: NodeRecord,
        seconds: float,
    ) -> Any:
        outer = line.run
        if outer.depth >= _DEEPEST_TOOL:
            raise RunError(f"Tools call each other more than {_DEEPEST_TOOL} levels deep", kind="limit")
        inner = replace(
            outer,
            tool=tool,
            arguments=with_defaults(tool.input_schema, arguments),
            limits=shorter(outer.limits, max(1, round(min(seconds, outer.left) * 1000))),
            is_canceled=line.is_stopped,
            depth=outer.depth + 1,
            caller=outer,
            history=outer.history.nested(),
        )
        return self._finish(inner, line.branch_of(record, tool.name))

    def _run_parallel(self, line: NodeSequence, node: ParallelNode, record: NodeRecord) -> dict[str, Any]:
        """Runs the branches; returns their outputs, without undefined ones, by their first nodes."""
        chains = [(line.inner(record, first), first) for first in node.branches]
        outputs = self._run_chains(line, chains, node.next, node.max_concurrency or len(chains))
        by_branch = zip(node.branches, outputs, strict=True)
        return {first: output for first, output in by_branch if output is not UNDEFINED}

    def _run_each(self, line: NodeSequence, node: ForEachNode, record: NodeRecord) -> list[Any]:
        """Runs the chain for each entry of the list; returns the outputs, null for undefined ones."""
        value = line.evaluate(node.items.text)
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        # An empty list is null in some languages, Go for one.
        items = record.input = [] if value is UNDEFINED or value is None else items
        if len(items) > node.max_items:
            raise RunError(
                f"The list has {len(items)} entries, more than maxItems ({node.max_items})",
                kind="limit",
                fix="Raise maxItems of the node, or give it a shorter list",
            )
        chains = [
            (line.inner(record, str(index), {node.id: {"item": item, "index": index}}), node.body)
            for index, item in enumerate(items)
        ]
        outputs = self._run_chains(line, chains, node.next, node.max_concurrency)
        return [None if output is UNDEFINED else output for output in outputs]

    def _run_chains(
        self, line: NodeSequence, chains: list[tuple[NodeSequence, str]], until: str, most: int
    ) -> list[Any]:
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


def _following(node: Node, output: Any) -> str | None:
    match node:
        case ExitNode():
            return None
        case SwitchNode():
            return output
        case _:
            return node.next


def _failed(line: NodeSequence, node: Node, record: NodeRecord, error: RunError) -> str:
    """Records a failure; returns the target of the node's ``onError`` edge, or raises the error."""
    run = line.run
    error.placed(run.tool.name, node.id)
    record.end_time, record.error = now_ms(), error.sentence
    target: str | None = getattr(node, "on_error", None)
    caught = target is not None and error.kind not in _FINAL
    record.output = {"error": error.to_json()} if caught else None
    line.view.add(record)
    if run.hooks.on_node_error is not None:
        run.hooks.on_node_error(record, node, error)
    if not caught or target is None:
        raise error
    return target


def _switch(line: NodeSequence, node: SwitchNode) -> str:
    for condition in node.conditions:
        if condition.always:
            return condition.next
        if holds(
            condition.rule,
            line.view.context,
            standard=node.standard,
            bounds=line.bounds(),
            answers=line.view.answer,
        ):
            return condition.next
    if node.default is None:
        raise RunError(
            f"Switch node {node.id}: No conditions matched and no default case provided",
            kind="graph",
            fix="Add a condition without a rule",
        )
    return node.default
