"""Runs the nodes that contain others: parallel branches, and a chain for each entry of a list."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, cast

from ..expressions.values import UNDEFINED
from .failures import RunError
from .history import View
from .run import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..nodes import ForEachNode, ParallelNode
    from .history import NodeRecord

_MOST_THREADS: Final = 32


def run_parallel(
    line: Line, node: ParallelNode, record: NodeRecord, run_chain: Callable[[Line, str], Any]
) -> dict[str, Any]:
    """Runs the branches of a node.

    Args:
        line: The line that the node runs in.
        node: The node.
        record: Its record.
        run_chain: Runs the nodes of a branch in their own line, from a first node to the end of the branch;
            returns the output of the last node.

    Returns:
        The output of each branch's last node, by the id of its first node; undefined outputs are left out.

    Raises:
        RunError: The error of the first branch that failed; the other branches were ended.
    """
    chains = [(_inner(line, record, first), first) for first in node.branches]
    outputs = _all(line, chains, run_chain, node.max_concurrency or len(chains))
    by_branch = zip(node.branches, outputs, strict=True)
    return {first: output for first, output in by_branch if output is not UNDEFINED}


def run_each(
    line: Line, node: ForEachNode, record: NodeRecord, run_chain: Callable[[Line, str], Any]
) -> list[Any]:
    """Runs the chain of a node for each entry of its list; for the arguments see `run_parallel`.

    Returns:
        The outputs of the chain's last nodes, in the order of the entries; null for undefined outputs.

    Raises:
        RunError: The list is too long, or an entry failed; the other entries were ended.
    """
    items = _items(line.evaluate(node.items.text))
    record.input = items
    if len(items) > node.max_items:
        raise RunError(
            f"The list has {len(items)} entries, more than maxItems ({node.max_items})",
            kind="limit",
            fix="Raise maxItems of the node, or give it a shorter list",
        )
    chains = [
        (_inner(line, record, str(index), {node.id: {"item": item, "index": index}}), node.body)
        for index, item in enumerate(items)
    ]
    outputs = _all(line, chains, run_chain, node.max_concurrency)
    return [None if output is UNDEFINED else output for output in outputs]


def _items(value: Any) -> list[Any]:
    if value is UNDEFINED:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _inner(line: Line, record: NodeRecord, name: str, given: dict[str, Any] | None = None) -> Line:
    return Line(line.run, View(line.view, given), line.branch_of(record, name), line)


def _all(
    line: Line, chains: list[tuple[Line, str]], run_chain: Callable[[Line, str], Any], most: int
) -> list[Any]:
    """Runs chains, `most` at a time, and returns their outputs; if one fails, the others are ended."""
    most = min(most, len(chains), _MOST_THREADS)
    if most <= 1:
        outputs = [run_chain(*chain) for chain in chains]
    else:
        with ThreadPoolExecutor(most, thread_name_prefix="graph-branch") as pool:
            futures: list[Future[Any]] = [pool.submit(run_chain, *chain) for chain in chains]
            wait(futures, return_when=FIRST_EXCEPTION)
            failed = [future for future in futures if future.done() and future.exception() is not None]
            if failed:
                for future, (inner, _) in zip(futures, chains, strict=True):
                    future.cancel()
                    inner.break_off()
        if failed:
            raise failed[0].exception() or AssertionError("unreachable")
        outputs = [future.result() for future in futures]
    for inner, _ in chains:
        line.view.join(inner.view)
    return outputs
