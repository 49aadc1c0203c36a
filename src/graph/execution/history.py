"""The records of a run, in order: context and history functions come from nothing else.

A run has one `History`. Branches and entries of a loop look at a view of their own: all that ran before they
began, and what they ran themselves. When they join, their records become part of the view they came from.
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
        node_type: Its type, as documents write it.
        branch: Which branch, entry, or tool that a node calls it belongs to (``fan#3[left]``), outermost
            first; empty outside.
        input: What the node made of the context: the arguments of a call, the values of a rule; or
            `UNDEFINED`.
        output: What it gave, or `UNDEFINED`. None if it failed.
        start_time: Milliseconds since 1970.
        end_time: The same; None while it runs.
        error: What went wrong, or None.
        attempts: How often a call was made.
        marked: The output for expressions, as `marked` makes it; None for `UNDEFINED`. Set when it ends.
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
        """The node is about to run, and sees what the view holds now."""
        self._view, self._position = view, len(view)

    def context(self) -> dict[str, Any]:
        """The context that the node saw."""
        return {} if self._view is None else self._view.context_at(self._position)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON, with the reference's names; what is undefined is left out."""
        found: dict[str, Any] = {
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
        return json_value(found)


class History:
    """All records of a run. Safe to use from several threads."""

    def __init__(self, outer: History | None = None) -> None:
        self._records: list[NodeRecord] = [] if outer is None else outer._records
        self._lock = threading.Lock() if outer is None else outer._lock
        self.view = View(None)

    def nested(self) -> History:
        """A history for a tool that a node of this run calls: one list of records, a view of its own."""
        return History(self)

    def __len__(self) -> int:
        return len(self._records)

    def begin(self, record: NodeRecord, view: View, limit: int) -> bool:
        """Numbers a record.

        Args:
            record: A node that is about to run.
            view: What it sees.
            limit: Most records.

        Returns:
            False if there are that many already; the record is not kept then.
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
    """Outputs by node. Iteration begins with the node that ran last, as wildcards do in the reference."""

    def _turned(self) -> dict[str, Any]:
        return dict(reversed(super().items()))

    def __iter__(self) -> Any:
        return iter(self._turned())

    def keys(self) -> Any:  # noqa: D102 - as of every dict
        return self._turned().keys()

    def values(self) -> Any:  # noqa: D102
        return self._turned().values()

    def items(self) -> Any:  # noqa: D102
        return self._turned().items()


class View:
    """The history as a node sees it: the records of its own branch, after those of the enclosing branch.

    Args:
        parent: The line that it came from, which does not go on while this one is in use; None at the top.
        given: Values that are in the context from the beginning.

    Attributes:
        context: Latest output by node id. Undefined outputs are left out.
        marked: The same for expressions, as `marked` makes it.
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
        """A node has ended."""
        self._own.append(record)
        self._by_node.setdefault(record.node_id, []).append(record)
        _set(self.context, record)
        self.marked.pop(record.node_id, None)
        if record.output is not UNDEFINED:
            record.marked = self.marked[record.node_id] = marked(record.output)

    def join(self, branch: View) -> None:
        """A branch has ended: its records belong to this line now."""
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
        own = len(self._by_node.get(node_id, ()))
        return own + (self._parent.count(node_id) if self._parent is not None else 0)

    def of(self, node_id: str, index: int) -> NodeRecord | None:
        """An execution of a node: from 0, or negative from the end; None if there is none."""
        position = index if index >= 0 else self.count(node_id) + index
        if position < 0:
            return None
        before = self._parent.count(node_id) if self._parent is not None else 0
        if position < before and self._parent is not None:
            return self._parent.of(node_id, position)
        own = self._by_node.get(node_id, ())
        return own[position - before] if position - before < len(own) else None

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
