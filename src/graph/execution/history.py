"""The records of a run, in order, from which the context and the history functions are made.

A run has one `History`. Each branch and each entry of a loop has its own view: the records from before it
began, and its own records. When branches join, their records become part of the outer view.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from ..expressions.nulls import marked
from ..expressions.values import UNDEFINED, json_value


@dataclass(slots=True, kw_only=True)
class NodeRecord:
    """An execution of a node.

    Attributes:
        index: Number of the execution in the run, from 0, in the order in which nodes began.
        node_id: The node.
        node_type: Its type, as in documents.
        branch: Names of the branches, loop entries and called tools around the node (``fan#3[left]``),
            outermost first; empty at the top.
        input: The values that the node took from the context: the arguments of a call, the values of a rule;
            or `UNDEFINED`.
        output: The node's output, or `UNDEFINED`. None if it failed.
        start_time: Milliseconds since 1970.
        end_time: Milliseconds since 1970; None while the node runs.
        error: The error, or None.
        attempts: The number of attempts of a call.
        marked: The output for expressions, from `marked`; None for `UNDEFINED`. Set when the node ends.
    """

    index: int
    node_id: str
    node_type: str
    branch: tuple[str, ...] = ()
    input: Any = UNDEFINED
    output: Any = UNDEFINED
    start_time: float
    end_time: float | None = None
    error: str | None = None
    attempts: int = 0
    marked: Any = None
    _view: View | None = field(default=None, repr=False, compare=False)
    _position: int = field(default=0, repr=False, compare=False)

    @property
    def duration(self) -> float | None:
        """Milliseconds, or None while it runs."""
        return None if self.end_time is None else self.end_time - self.start_time

    def seen_by(self, view: View) -> None:
        """Stores the view and its current length, before the node runs."""
        self._view, self._position = view, len(view)

    def context(self) -> dict[str, Any]:
        """The context that the node saw."""
        return {} if self._view is None else self._view.context_at(self._position)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON, with the reference's names; undefined values are left out."""
        members: dict[str, Any] = {
            "executionIndex": self.index,
            "nodeId": self.node_id,
            "nodeType": self.node_type,
            "branch": list(self.branch) or UNDEFINED,
            "input": self.input,
            "output": self.output,
            "startTime": round(self.start_time, 3),
            "endTime": None if self.end_time is None else round(self.end_time, 3),
            "duration": None if self.duration is None else round(self.duration, 3),
            "attempts": self.attempts if self.attempts > 1 else UNDEFINED,
            "error": UNDEFINED if self.error is None else {"message": self.error},
        }
        return json_value(members)


class History:
    """All records of a run. Safe to use from several threads."""

    def __init__(self, outer: History | None = None) -> None:
        self._records: list[NodeRecord] = [] if outer is None else outer._records
        self._lock = threading.Lock() if outer is None else outer._lock
        self.view = View(None)

    def nested(self) -> History:
        """A history for a tool that a node of this run calls; it shares the list of records."""
        return History(self)

    def __len__(self) -> int:
        return len(self._records)

    def begin(self, record: NodeRecord, view: View, limit: int) -> bool:
        """Numbers a record.

        Args:
            record: The record of a node that is about to run.
            view: The view of the node's line.
            limit: Maximum number of records.

        Returns:
            False if the limit is reached; the record is not kept then.
        """
        with self._lock:
            if len(self._records) >= limit:
                return False
            record.index = len(self._records)
            record.seen_by(view)
            self._records.append(record)
            return True

    def records(self) -> tuple[NodeRecord, ...]:
        """The records so far, in the order in which nodes began."""
        with self._lock:
            return tuple(self._records)


class LatestFirst(dict[str, Any]):
    """Outputs by node. Iteration begins with the node that ran last, like wildcards in the reference."""

    def _turned(self) -> dict[str, Any]:
        return dict(reversed(super().items()))

    def __iter__(self) -> Any:
        return iter(self._turned())

    def keys(self) -> Any:
        return self._turned().keys()

    def values(self) -> Any:
        return self._turned().values()

    def items(self) -> Any:
        return self._turned().items()


class View:
    """The records that nodes of one line see: those of the outer view, then those of the line itself.

    Args:
        parent: The outer view, which does not change while this view is in use; None at the top.
        given: Values that are in the context from the beginning.

    Attributes:
        context: Latest output by node id. Undefined outputs are left out.
        marked: The context for expressions, from `marked`.
    """

    __slots__ = ("_by_node", "_given", "_own", "_parent", "_start", "context", "marked")

    def __init__(self, parent: View | None, given: dict[str, Any] | None = None) -> None:
        self._parent = parent
        self._given = given or {}
        self._own: list[NodeRecord] = []
        self._by_node: dict[str, list[NodeRecord]] = {}
        self._start = len(parent) if parent is not None else 0
        self.context: dict[str, Any] = dict(parent.context) if parent is not None else {}
        self.context.update(self._given)
        self.marked = LatestFirst() if parent is None else LatestFirst(reversed(parent.marked.items()))
        self.marked.update(marked(self._given))

    def __len__(self) -> int:
        return self._start + len(self._own)

    def add(self, record: NodeRecord) -> None:
        """Adds the record of a node that has ended."""
        self._own.append(record)
        self._by_node.setdefault(record.node_id, []).append(record)
        _set(self.context, record)
        self.marked.pop(record.node_id, None)
        if record.output is not UNDEFINED:
            record.marked = self.marked[record.node_id] = marked(record.output)

    def join(self, branch: View) -> None:
        """Adds the records of a branch that has ended."""
        for record in branch._own:
            self.add(record)

    def at(self, index: int) -> NodeRecord | None:
        """The record at a position, from 0; None if there is none."""
        view: View | None = self
        if not 0 <= index < len(self):
            return None
        while view is not None and index < view._start:
            view = view._parent
        return None if view is None else view._own[index - view._start]

    def count(self, node_id: str) -> int:
        """The number of executions of a node."""
        executions = len(self._by_node.get(node_id, ()))
        return executions + (self._parent.count(node_id) if self._parent is not None else 0)

    def of(self, node_id: str, index: int) -> NodeRecord | None:
        """An execution of a node: from 0, or negative from the end; None if there is none."""
        position = index if index >= 0 else self.count(node_id) + index
        if position < 0:
            return None
        before = self._parent.count(node_id) if self._parent is not None else 0
        if position < before and self._parent is not None:
            return self._parent.of(node_id, position)
        executions = self._by_node.get(node_id, ())
        return executions[position - before] if position - before < len(executions) else None

    def all_of(self, node_id: str) -> list[NodeRecord]:
        """All executions of a node, in order."""
        before = self._parent.all_of(node_id) if self._parent is not None else []
        return [*before, *self._by_node.get(node_id, ())]

    def context_at(self, position: int) -> dict[str, Any]:
        """The context after the first `position` nodes of this line."""
        context = self._parent.context_at(min(position, self._start)) if self._parent is not None else {}
        if position >= self._start:
            context.update(self._given)
        for record in self._own[: max(position - self._start, 0)]:
            _set(context, record)
        return context


def _set(context: dict[str, Any], record: NodeRecord) -> None:
    if record.output is UNDEFINED:
        context.pop(record.node_id, None)
    else:
        context[record.node_id] = record.output
