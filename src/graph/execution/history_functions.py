"""``$previousNode``, ``$executionCount``, ``$nodeExecution`` and ``$nodeExecutions`` for JSONata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..expressions.jsonata import function
from ..expressions.nulls import NULL

if TYPE_CHECKING:
    from .history import NodeRecord, View


def history_functions(view: View) -> dict[str, Any]:
    """Makes the functions of one line of a run; each call reads the current records.

    Args:
        view: The view of the line.

    Returns:
        The functions by name, for the bindings of an evaluation.
    """

    def previous_node(steps: float | None = None, *_: Any) -> Any:
        return _output(view.at(len(view) - _whole(1 if steps is None else steps)))

    def execution_count(node_id: str, *_: Any) -> int:
        return view.count(node_id)

    def node_execution(node_id: str, index: float | None, *_: Any) -> Any:
        return NULL if index is None else _output(view.of(node_id, _whole(index)))

    def node_executions(node_id: str, *_: Any) -> list[Any]:
        return [_output(record) for record in view.all_of(node_id)]

    return {
        "previousNode": function("previousNode", "<n?:o>", previous_node),
        "executionCount": function("executionCount", "<s:n>", execution_count),
        "nodeExecution": function("nodeExecution", "<s-n:o>", node_execution),
        "nodeExecutions": function("nodeExecutions", "<s:a>", node_executions),
    }


def _whole(number: float) -> int:
    # There is no execution with a fractional number; JavaScript finds none either.
    return int(number) if number == int(number) else -(1 << 62)


def _output(record: NodeRecord | None) -> Any:
    return NULL if record is None else record.marked
