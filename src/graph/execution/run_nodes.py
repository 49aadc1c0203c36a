"""Runs nodes one after the other; contains the work of each type of node."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, assert_never

from ...client.protocol.results import ABSENT
from ..expressions import UNDEFINED, ExpressionError, holds
from ..expressions.coercion import truthy
from ..expressions.errors import Stopped
from ..nodes import (
    EntryNode,
    ExitNode,
    ForEachNode,
    McpNode,
    ParallelNode,
    SwitchNode,
    ToolNode,
    TransformNode,
    type_name,
)
from .calls import arguments_of, call_node, retried
from .containers import run_each, run_parallel
from .control import now_ms
from .failures import RunError
from .history import NodeRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..nodes import Node
    from .run import Line


def run_line(line: Line, start: str, *, until: str | None = None) -> NodeRecord | None:
    """Runs nodes from one to another.

    Args:
        line: The line.
        start: The first node.
        until: The node before which the line ends; None: the line ends with the exit.

    Returns:
        The record of the last node, or None if no node ran.

    Raises:
        RunError: A node without an ``onError`` edge failed.
    """
    current: str | None = start
    last: NodeRecord | None = None
    by_id = line.run.tool.by_id
    while current is not None and current != until:
        last, current = _run_node(line, by_id[current], last)
    return last


def _run_node(line: Line, node: Node, last: NodeRecord | None) -> tuple[NodeRecord, str | None]:
    """Runs one node; returns its record and the id of the next node, or None."""
    run, spans = line.run, line.run.executor.spans
    record = NodeRecord(
        index=-1, node_id=node.id, node_type=type_name(node), branch=line.branch, start_time=now_ms()
    )
    if not run.history.begin(record, line.view, run.limits.max_node_executions):
        raise run.out_of_nodes().placed(run.tool.name, node.id)
    try:
        _before(line, node, record)
        with nullcontext() if spans is None else spans.node(run, node, record):
            output, following = _execute(line, node, record, last)
    except RunError as error:
        return record, _failed(line, node, record, error)
    except BaseException:
        record.end_time, record.error = now_ms(), "The run was ended"
        raise
    record.output, record.end_time = output, now_ms()
    hook = run.hooks.on_node_complete
    seen = line.view.context if hook is None else dict(line.view.context)
    line.view.add(record)
    if hook is not None:
        hook(record, node, seen)
    return record, following


def _before(line: Line, node: Node, record: NodeRecord) -> None:
    """Checks the limits, pauses the run if the controller or a hook wants it, and calls the start hook."""
    run = line.run
    if run.left <= 0:
        raise run.out_of_time()
    if line.is_stopped():
        raise run.stopped()
    if run.controller is not None:
        run.controller.before(record.index, node, run.hooks)
        if run.controller.is_stopped:
            raise run.stopped()
    hook = run.hooks.on_node_start
    if hook is not None and hook(record.index, node, line.view.context) is False:
        if run.controller is None:
            raise RunError("A hook asked for a pause, but the run has no controller", kind="graph")
        run.controller.before(record.index, node, run.hooks, wants_pause=True)
        if run.controller.is_stopped:
            raise run.stopped()
    record.start_time = now_ms()


def _failed(line: Line, node: Node, record: NodeRecord, error: RunError) -> str:
    """Records a failure; returns the target of the node's ``onError`` edge, or raises the error."""
    run = line.run
    error.placed(run.tool.name, node.id)
    record.end_time, record.error = now_ms(), str(error)
    target: str | None = getattr(node, "on_error", None)
    caught = target is not None and error.kind not in {"limit", "stopped"}
    record.output = {"error": error.to_json()} if caught else None
    line.view.add(record)
    if run.hooks.on_node_error is not None:
        run.hooks.on_node_error(record, node, error)
    if not caught or target is None:
        raise error
    return target


def _execute(line: Line, node: Node, record: NodeRecord, last: NodeRecord | None) -> tuple[Any, str | None]:
    """Executes a node; returns its output and the id of the next node, None for the exit."""
    try:
        output = _output(line, node, record, last)
    except Stopped:
        raise line.run.stopped() from None
    except ExpressionError as error:
        if error.code == "D1012" and line.run.left <= 0:
            raise line.run.out_of_time() from None
        raise RunError(error.what, kind="expression", code=error.code) from None
    match node:
        case ExitNode():
            return output, None
        case SwitchNode():
            return output, output
        case _:
            return output, node.next


def _output(line: Line, node: Node, record: NodeRecord, last: NodeRecord | None) -> Any:  # @NodeTypeDispatch
    match node:
        case EntryNode():
            return line.run.arguments
        case ExitNode():
            return _exit_output(last)
        case TransformNode():
            return line.evaluate(node.expression.text)
        case SwitchNode():
            return _route(line, node)
        case McpNode():
            return _call(line, node, record)
        case ToolNode():
            return _call_tool(line, node, record)
        case ParallelNode():
            return run_parallel(line, node, record, _chain(node.next))
        case ForEachNode():
            return run_each(line, node, record, _chain(node.next))
        case _:
            assert_never(node)


def _chain(until: str) -> Callable[[Line, str], Any]:
    """A function that runs the nodes before `until` and returns the output of the last node."""

    def run(line: Line, start: str) -> Any:
        last = run_line(line, start, until=until)
        return UNDEFINED if last is None else last.output

    return run


def _exit_output(last: NodeRecord | None) -> Any:
    """The output of the node before, or an empty object if that is undefined."""
    if last is None or last.output is UNDEFINED or not truthy(last.output):
        return {}
    return last.output


def _route(line: Line, node: SwitchNode) -> str:
    for condition in node.conditions:
        if condition.always or holds(condition.rule, line.view.context, line.evaluate):
            return condition.next
    if node.default is None:
        raise RunError(
            f"Switch node {node.id}: No conditions matched and no default case provided",
            kind="graph",
            fix="Add a condition without a rule",
        )
    return node.default


def _call(line: Line, node: McpNode, record: NodeRecord) -> Any:
    executor = line.run.executor
    arguments = record.input = arguments_of(node.args, line)
    if node.cache is not None:
        kept = executor.cache.get(node, arguments)
        if kept is not ABSENT:
            return kept

    output = retried(node.retry, line, record, lambda: call_node(node, arguments, line, executor.call))
    if node.cache is not None:
        executor.cache.put(node, arguments, output)
    return output


def _call_tool(line: Line, node: ToolNode, record: NodeRecord) -> Any:
    executor = line.run.executor
    arguments = record.input = arguments_of(node.args, line)
    tool = executor.document.tool(node.tool)
    if tool is None:
        raise RunError(f"Tool not found: {node.tool}", kind="graph")

    def attempt() -> Any:
        try:
            return executor.run_inside(tool, arguments, line, record, node.timeout or line.run.left)
        except RunError as error:
            if error.kind == "stopped" or (error.kind == "limit" and line.run.left <= 0):
                raise
            kind = "arguments" if error.kind == "arguments" else "call"
            raise RunError(str(error), kind=kind, code=error.code, details=error.details) from None

    return retried(node.retry, line, record, attempt)
