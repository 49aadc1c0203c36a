"""Nodes that run other nodes: branches at the same time, and a chain for each entry of a list."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ..expressions.values import UNDEFINED
from .failures import RunError
from .history import View
from .run import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..nodes import ForEachNode, ParallelNode
    from .executor import GraphExecutor
    from .history import NodeRecord

_MOST_THREADS: Final = 32


class _RunLine(Protocol):
    def __call__(
        self, executor: GraphExecutor, line: Line, start: str, *, until: str | None
    ) -> NodeRecord | None: ...


def run_parallel(
    executor: GraphExecutor, line: Line, node: ParallelNode, record: NodeRecord, run_line: _RunLine
) -> dict[str, Any]:
    """Runs the branches of a node.

    Returns:
        First node of each branch to the output of its last node; undefined ones are left out.

    Raises:
        RunError: The first branch that failed; the others were ended.
    """
    lines = [_inner(line, record, first) for first in node.branches]

    def job(index: int) -> Any:
        return _last_output(run_line(executor, lines[index], node.branches[index], until=node.next))

    outputs = _all(lines, job, node.max_concurrency or len(lines))
    for inner in lines:
        line.view.join(inner.view)
    found = zip(node.branches, outputs, strict=True)
    return {first: output for first, output in found if output is not UNDEFINED}


def run_each(
    executor: GraphExecutor, line: Line, node: ForEachNode, record: NodeRecord, run_line: _RunLine
) -> list[Any]:
    """Runs the chain of a node for each entry of its list.

    Returns:
        The outputs of the chain's last nodes, in the order of the entries; null where one is undefined.

    Raises:
        RunError: The list is too long, or an entry failed; the others were ended.
    """
    items = _items(line.evaluate(node.items.text))
    record.input = items
    if len(items) > node.max_items:
        raise RunError(
            f"The list has {len(items)} entries, more than maxItems ({node.max_items})",
            kind="limit",
            fix="Raise maxItems of the node, or give it a shorter list",
        )
    lines = [
        _inner(line, record, str(index), {node.id: {"item": item, "index": index}})
        for index, item in enumerate(items)
    ]

    def job(index: int) -> Any:
        return _last_output(run_line(executor, lines[index], node.body, until=node.next))

    outputs = _all(lines, job, node.max_concurrency)
    for inner in lines:
        line.view.join(inner.view)
    return [None if output is UNDEFINED else output for output in outputs]


def _items(found: Any) -> list[Any]:
    if found is UNDEFINED:
        return []
    return cast("list[Any]", found) if isinstance(found, list) else [found]


def _inner(line: Line, record: NodeRecord, name: str, given: dict[str, Any] | None = None) -> Line:
    return Line(line.run, View(line.view, given), line.branch_of(record, name), line)


def _last_output(record: NodeRecord | None) -> Any:
    return UNDEFINED if record is None else record.output


def _all(lines: list[Line], job: Callable[[int], Any], most: int) -> list[Any]:
    """Does a job for each line, `most` at a time, and ends the others as soon as one fails."""
    most = min(most, len(lines), _MOST_THREADS)
    if most <= 1:
        return [job(index) for index in range(len(lines))]
    with ThreadPoolExecutor(most, thread_name_prefix="graph-branch") as pool:
        futures: list[Future[Any]] = [pool.submit(job, index) for index in range(len(lines))]
        wait(futures, return_when=FIRST_EXCEPTION)
        failed = [future for future in futures if future.done() and future.exception() is not None]
        if failed:
            for future, line in zip(futures, lines, strict=True):
                future.cancel()
                line.break_off()
    if failed:
        raise failed[0].exception() or AssertionError("unreachable")
    return [future.result() for future in futures]
