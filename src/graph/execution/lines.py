"""Runs nodes one after the other, and what each type of node does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from ...tools.protocol.results import ABSENT
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
)
from .calls import arguments_of, call_node, retried
from .containers import run_each, run_parallel
from .control import now_ms
from .failures import RunError
from .history import NodeRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..nodes import Node
    from .executor import GraphExecutor
    from .run import Line


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a node gave.

    Attributes:
        output: Its output, or `UNDEFINED`.
        next: The node that follows; None at the exit.
    """

    output: Any
    next: str | None


def run_line(
    executor: GraphExecutor, line: Line, start: str, *, until: str | None = None, arguments: Any = None
) -> NodeRecord | None:
    """Runs nodes from one to another.

    Args:
        executor: Makes calls.
        line: What the nodes see.
        start: The first node.
        until: The node before which the line ends; None: it ends with the exit.
        arguments: The tool's arguments, for the entry.

    Returns:
        The record of the last node, or None if there was none.

    Raises:
        RunError: A node failed, and nothing catches it.
    """
    current: str | None = start
    last: NodeRecord | None = None
    by_id = line.run.tool.by_id
    while current is not None and current != until:
        last, current = _run_node(executor, line, by_id[current], last, arguments)
    return last


def _run_node(
    executor: GraphExecutor, line: Line, node: Node, last: NodeRecord | None, arguments: Any
) -> tuple[NodeRecord, str | None]:
    """Runs one node; gives its record and the node that follows."""
    run = line.run
    record = NodeRecord(
        index=-1, node_id=node.id, node_type=type_name(node), branch=line.branch, start_time=now_ms()
    )
    if not run.history.begin(record, line.view, run.limits.max_node_executions):
        raise run.out_of_nodes().placed(run.tool.name, node.id)
    try:
        _before(line, node, record)
        if executor.spans is None:
            outcome = _outcome(executor, line, node, record, last, arguments)
        else:
            with executor.spans.node(run, node, record):
                outcome = _outcome(executor, line, node, record, last, arguments)
    except RunError as error:
        return record, _failed(line, node, record, error)
    except BaseException:
        record.end_time, record.error = now_ms(), "The run was ended"
        raise
    record.output, record.end_time = outcome.output, now_ms()
    hook = run.hooks.on_node_complete
    seen = line.view.context if hook is None else dict(line.view.context)
    line.view.add(record)
    if hook is not None:
        hook(record, node, seen)
    return record, outcome.next


def _before(line: Line, node: Node, record: NodeRecord) -> None:
    """Looks at limits and at who steers the run; tells who watches it."""
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
            raise RunError("A hook wants the run to pause, but nothing steers it", kind="graph")
        run.controller.before(record.index, node, run.hooks, wants_pause=True)
        if run.controller.is_stopped:
            raise run.stopped()
    record.start_time = now_ms()


def _failed(line: Line, node: Node, record: NodeRecord, error: RunError) -> str:
    """Records a failure; gives the node that follows, if the node says which."""
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


def _outcome(
    executor: GraphExecutor,
    line: Line,
    node: Node,
    record: NodeRecord,
    last: NodeRecord | None,
    arguments: Any,
) -> Outcome:
    try:
        return _execute(executor, line, node, record, last, arguments)
    except Stopped:
        raise line.run.stopped() from None
    except ExpressionError as error:
        if error.code == "D1012" and line.run.left <= 0:
            raise line.run.out_of_time() from None
        raise RunError(error.what, kind="expression", code=error.code) from None


def _execute(
    executor: GraphExecutor,
    line: Line,
    node: Node,
    record: NodeRecord,
    last: NodeRecord | None,
    arguments: Any,
) -> Outcome:  # @NodeTypeDispatch
    match node:
        case EntryNode():
            return Outcome(arguments, node.next)
        case ExitNode():
            return Outcome(_exit_output(last), None)
        case TransformNode():
            return Outcome(line.evaluate(node.expression.text), node.next)
        case SwitchNode():
            target = _route(line, node)
            return Outcome(target, target)
        case McpNode():
            return Outcome(_call(executor, line, node, record), node.next)
        case ToolNode():
            return Outcome(_call_tool(executor, line, node, record), node.next)
        case ParallelNode():
            return Outcome(run_parallel(line, node, record, _chain(executor, node.next)), node.next)
        case ForEachNode():
            return Outcome(run_each(line, node, record, _chain(executor, node.next)), node.next)
        case _:
            assert_never(node)


def _chain(executor: GraphExecutor, until: str) -> Callable[[Line, str], Any]:
    """Runs nodes up to one, and without it; gives the output of the last."""

    def run(line: Line, start: str) -> Any:
        last = run_line(executor, line, start, until=until)
        return UNDEFINED if last is None else last.output

    return run


def _exit_output(last: NodeRecord | None) -> Any:
    """The output of the node before, or an empty object where that is nothing."""
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


def _call(executor: GraphExecutor, line: Line, node: McpNode, record: NodeRecord) -> Any:
    arguments = arguments_of(node.args, line)
    record.input = arguments
    if node.cache is not None:
        kept = executor.cache.get(node, arguments)
        if kept is not ABSENT:
            return kept

    def count() -> None:
        record.attempts += 1

    output = retried(node.retry, line, lambda: call_node(node, arguments, line, executor.call), count)
    if node.cache is not None:
        executor.cache.put(node, arguments, output)
    return output


def _call_tool(executor: GraphExecutor, line: Line, node: ToolNode, record: NodeRecord) -> Any:
    arguments = arguments_of(node.args, line)
    record.input = arguments
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

    def count() -> None:
        record.attempts += 1

    return retried(node.retry, line, attempt, count)


def type_name(node: Node) -> str:
    """The type of a node as documents write it."""
    name = type(node).__name__.removesuffix("Node")
    return name[0].lower() + name[1:]
