"""The state of one run: its records, in order, and the lines of nodes that read and write them.

Nothing is shared between runs. The context and the history functions are made from the records. A run has
one `History`. Each branch and each entry of a loop has its own view: the records from before it began, and
its own records. When branches join, their records become part of the outer view.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.client.clock import StoppableClock
from knime_mcp.system import memory_in_use

from .expressions import Bounds, evaluate
from .expressions.javascript import UNDEFINED, json_value
from .run_control import Controller, Hooks, RunError, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from knime_mcp.audit.secrets import SecretMarker

    from .graph_model import ExecutionLimits, GraphTool
    from .nodes import Node


# By so many bytes a process may grow through all of its runs, unless the document says otherwise.
_MOST_HELD: Final = 192 << 20
_NODES_PER_LOOK: Final = 8
_BLAMELESS: Final = 16 << 20  # bytes; a run that holds less is not ended, whatever others hold
_MOST_VALUES: Final = 500_000  # that are looked at in one run


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
        content: The blocks of a call's result, as they came.
        lost: Those of them that the output does not have.
        nothing: The paths in its expressions that found nothing.
        tool: The document's tool of whose graph it is a node.
        called: The document's tool that it calls, or None.
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
    content: list[Any] = field(default_factory=list[Any])
    lost: list[Any] = field(default_factory=list[Any])
    nothing: list[str] = field(default_factory=list[str])
    tool: GraphTool | None = field(default=None, repr=False, compare=False)
    called: GraphTool | None = field(default=None, repr=False, compare=False)
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
        # Made again on demand: a copy of the context per node grew with the square of a run's length.
        return {} if self._view is None else self._view.context_at(self._position)

    def to_json(self, secrets: SecretMarker | None = None) -> dict[str, Any]:
        """The record as JSON, with the reference's names; undefined values are left out.

        With `secrets`, all that came from outside has marks instead of secrets; nothing else can hold one.
        """
        members: dict[str, Any] = {
            "executionIndex": self.index,
            "nodeId": self.node_id,
            "nodeType": self.node_type,
            "branch": list(self.branch) or UNDEFINED,
            "input": self.input,
            "output": self.output,
            "content": self.content if self.lost else UNDEFINED,
            "foundNothing": self.nothing or UNDEFINED,
            "startTime": round(self.start_time, 3),
            "endTime": None if self.end_time is None else round(self.end_time, 3),
            "duration": None if self.duration is None else round(self.duration, 3),
            "attempts": self.attempts if self.attempts > 1 else UNDEFINED,
            "error": UNDEFINED if self.error is None else {"message": self.error},
        }
        values = json_value(members)
        if secrets is not None:
            given = self.tool if self.node_type == "entry" else None
            for name, tool in (("input", self.called), ("output", given), ("content", None)):
                if name in values:
                    values[name] = _shown(values[name], tool, secrets)
            if self.error is not None:
                values["error"] = {"message": secrets.text(self.error)}
        return values

    def context_without(self, secrets: SecretMarker, context: Mapping[str, Any]) -> dict[str, Any]:
        """A context that the node saw, with marks instead of secrets."""
        entry = None if self.tool is None else self.tool.entry.id
        return {
            node: _shown(json_value(output), self.tool if node == entry else None, secrets)
            for node, output in context.items()
        }


def _shown(value: Any, tool: GraphTool | None, secrets: SecretMarker) -> Any:
    """A value without secrets; as arguments of a tool, also without what its schema calls secret."""
    return secrets.shown(value, *([] if tool is None else [tool.input_schema_json]))


class History:
    """All records of a run. Safe to use from several threads."""

    def __init__(self, outer: History | None = None) -> None:
        self._records: list[NodeRecord] = [] if outer is None else outer._records
        self._lock = threading.Lock() if outer is None else outer._lock
        self.outermost: History = self if outer is None else outer.outermost
        self.view = View(None)

    def nested(self) -> History:
        """A history for a tool that a node of this run calls; it shares the list of records."""
        return History(self)

    def __len__(self) -> int:
        return len(self._records)

    def begin(self, record: NodeRecord, view: View, limit: int) -> bool:
        """Numbers the record of a node that is about to run, and keeps it.

        Returns False if there are `limit` records already; the record is not kept then.
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


class RunMemory:
    """The runs of a document, from which the largest is ended when the process has grown too much.

    The limits of expressions hold for what one evaluation makes; a run that goes through many nodes keeps
    what each of them gave. Safe to use from several threads. Where the system does not say how large the
    process is, no run is ended.
    """

    def __init__(self, limits: ExecutionLimits) -> None:
        self.most = _MOST_HELD if limits.max_memory_mb is None else limits.max_memory_mb << 20
        self._base = memory_in_use()
        self._runs: dict[History, bool] = {}  # whether it has to end
        self._lock = threading.Lock()

    def begin(self, history: History) -> None:
        with self._lock:
            self._runs[history] = False

    def end(self, history: History) -> None:
        with self._lock:
            self._runs.pop(history, None)

    def is_over(self, history: History) -> bool:
        """Whether a run has to end; called before each of its nodes."""
        history = history.outermost
        if self._runs.get(history, False):
            return True
        if len(history) % _NODES_PER_LOOK or memory_in_use() - self._base <= self.most:
            return False
        with self._lock:
            if any(self._runs.values()):
                return self._runs.get(history, False)  # memory is about to become free
            sizes = {one: _size([record.output for record in one.records()]) for one in self._runs}
            largest = max(sizes, key=lambda one: sizes[one], default=None)
            if largest is not None and sizes[largest] > _BLAMELESS:
                self._runs[largest] = True
            return self._runs.get(history, False)


def _size(value: Any) -> int:
    """About how many bytes a value takes; what stands in it twice counts twice."""
    waiting: list[Any] = [value]
    total = seen = 0
    while waiting and seen < _MOST_VALUES:
        part = waiting.pop()
        seen += 1
        total += sys.getsizeof(part)
        if isinstance(part, dict):
            waiting += cast("dict[Any, Any]", part).values()
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)
    return total


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

    The outer view does not change while this view is in use. `given` values are in the context from the
    beginning. `context` is the latest output by node id, without undefined ones.
    """

    __slots__ = ("_by_node", "_given", "_own", "_parent", "_start", "context")

    def __init__(self, parent: View | None, given: dict[str, Any] | None = None) -> None:
        self._parent = parent
        self._given = given or {}
        self._own: list[NodeRecord] = []
        self._by_node: dict[str, list[NodeRecord]] = {}
        self._start = len(parent) if parent is not None else 0
        # Turned once more: its items begin with the last one, and a dict keeps their order.
        self.context = LatestFirst() if parent is None else LatestFirst(reversed(parent.context.items()))
        self.context.update(self._given)

    def __len__(self) -> int:
        return self._start + len(self._own)

    def add(self, record: NodeRecord) -> None:
        self._own.append(record)
        self._by_node.setdefault(record.node_id, []).append(record)
        # Popped first, so that a node that runs again becomes the last one in the order of the dict.
        self.context.pop(record.node_id, None)
        _set(self.context, record)

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
        before = self._parent.all_of(node_id) if self._parent is not None else []
        return [*before, *self._by_node.get(node_id, ())]

    def answer(self, function: str, values: list[Any]) -> list[Any]:
        """Answers the functions of histories in expressions, see `expressions.engine`."""
        match function, values:
            case "previousNode", [steps]:
                return _output(self.at(len(self) - _whole(steps)))
            case "nodeExecution", [node_id, index]:
                return [None] if index is None else _output(self.of(node_id, _whole(index)))
            case "nodeExecutions", [node_id]:
                return [_output(record) for record in self.all_of(node_id)]
            case "executionCount", [node_id]:
                return [self.count(node_id)]
            case _:
                record = self.of(values[0], -1)
                return [[] if record is None else record.content]

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


@dataclass(slots=True, kw_only=True)
class RunState:
    expression_seconds: float  # maximum time of one expression
    tool: GraphTool
    arguments: dict[str, Any]
    limits: ExecutionLimits
    hooks: Hooks
    controller: Controller | None
    is_canceled: Callable[[], bool] | None  # returns whether the caller wants the run to end
    depth: int = 0  # number of the document's tools that called each other before this run
    caller: RunState | None = None  # the run whose node calls this tool, or None
    history: History = field(default_factory=History)
    clock: StoppableClock = field(default_factory=StoppableClock)  # stands while the run waits for a person
    started: float = field(init=False)  # time of the beginning, from the `clock`
    memory: RunMemory | None = None  # what it shares with other runs of the process
    span: Any = None  # OpenTelemetry's span of the run, or None

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def left(self) -> float:
        """Seconds until the run's time is over; negative afterwards."""
        return self.started + self.limits.max_execution_time_ms / 1000 - self.clock()

    def secrets(self, known: SecretMarker) -> SecretMarker:
        """What is `known`, and the secrets among the arguments of this run and of those that called it."""
        outer = known if self.caller is None else self.caller.secrets(known)
        return outer.for_call(self.arguments, self.tool.input_schema_json)[0]

    def is_stopped(self) -> bool:
        if self.controller is not None and self.controller.is_stopped:
            return True
        return self.is_canceled is not None and self.is_canceled()

    def pause(self, index: int, node: Node, *, wants_pause: bool = False) -> None:
        """Pauses before a node, if the controller wants it, or in any case; the clock stands meanwhile."""
        if self.controller is None:
            return
        with self.clock.stopped():
            self.controller.before(index, node, self.hooks, wants_pause=wants_pause)
        if self.controller.is_stopped:
            raise self.stopped()

    def stopped(self) -> RunError:
        return RunError("Execution was stopped", tool=self.tool.name, kind="stopped")

    def _over(self, what: str, fix: str) -> RunError:
        return RunError(what, tool=self.tool.name, kind="limit", fix=fix)

    def out_of_time(self) -> RunError:
        most = self.limits.max_execution_time_ms
        elapsed = round((self.clock() - self.started) * 1000)
        return self._over(
            f"Execution limit exceeded: maximum execution time ({most}ms) reached. Elapsed time: {elapsed}ms",
            "Raise executionLimits.maxExecutionTimeMs if it may take that long",
        )

    def out_of_nodes(self) -> RunError:
        most = self.limits.max_node_executions
        return self._over(
            f"Execution limit exceeded: maximum node executions ({most}) reached."
            f" Current execution count: {len(self.history)}",
            "See why the graph does not come to its exit, or raise executionLimits.maxNodeExecutions",
        )

    def out_of_memory(self) -> RunError:
        most = 0 if self.memory is None else self.memory.most >> 20
        return self._over(
            f"The outputs of its nodes are too large: {most} MB are for all runs of this process together",
            "Let nodes give only what later ones need, or raise executionLimits.maxMemoryMb",
        )

    def end(self, error: BaseException | None) -> None:
        is_stopped = isinstance(error, RunError) and error.kind == "stopped"
        status = RunStatus.STOPPED if is_stopped else RunStatus.ERROR
        if self.controller is not None:
            self.controller.become(RunStatus.FINISHED if error is None else status)


def shorter(limits: ExecutionLimits, milliseconds: int) -> ExecutionLimits:
    return replace(limits, max_execution_time_ms=min(limits.max_execution_time_ms, milliseconds))


def now_ms() -> float:
    return time.time() * 1000


class NodeSequence:
    """A sequence of nodes that run one after the other: the whole run, a branch, or one entry of a loop.

    `branch` names the branches around it, outermost first; the `outer` line ends it, too.
    """

    __slots__ = ("_broken", "_outer", "branch", "run", "view")

    def __init__(
        self,
        run: RunState,
        view: View,
        branch: tuple[str, ...] = (),
        outer: NodeSequence | None = None,
    ) -> None:
        self.run = run
        self.view = view
        self.branch = branch
        self._outer = outer
        self._broken = threading.Event()

    def branch_of(self, record: NodeRecord, name: str) -> tuple[str, ...]:
        """Names of the branches around the nodes that a node of this line runs; `name` is the innermost."""
        return (*self.branch, f"{record.node_id}#{record.index}[{name}]")

    def inner(self, record: NodeRecord, name: str, given: dict[str, Any] | None = None) -> NodeSequence:
        """A line in a branch `name` of a node of this line; `given` is in its context from the beginning."""
        return NodeSequence(self.run, View(self.view, given), self.branch_of(record, name), self)

    def break_off(self) -> None:
        """Ends the line, because a parallel branch has failed."""
        self._broken.set()

    def is_stopped(self) -> bool:
        if self._broken.is_set():
            return True
        # The outermost line alone asks the run: each level that asked twice would double the questions.
        return self.run.is_stopped() if self._outer is None else self._outer.is_stopped()

    def bounds(self) -> Bounds:
        """The limits of an expression or rule that is evaluated now."""
        seconds = min(self.run.expression_seconds, max(self.run.left, 0.001))
        return Bounds(seconds=seconds, is_stopped=self.is_stopped)

    def evaluate(self, expression: str) -> Any:
        return evaluate(expression, self.view.context, bounds=self.bounds(), answers=self.view.answer)

    def sleep(self, seconds: float) -> None:
        """Waits, but not beyond the time of the run."""
        until = time.monotonic() + seconds
        while True:
            if self.is_stopped():
                raise self.run.stopped()
            if self.run.left <= 0:
                raise self.run.out_of_time()
            # In short pieces, as nothing wakes this pause when the run is canceled.
            left = min(until - time.monotonic(), self.run.left, 0.1)
            if until <= time.monotonic():
                return
            # The event and not `sleep`: a parallel branch that fails ends this pause.
            self._broken.wait(max(left, 0))


def _whole(number: float) -> int:
    # There is no execution with a fractional number; JavaScript finds none either.
    return int(number) if number == int(number) else -(1 << 62)


def _output(record: NodeRecord | None) -> list[Any]:
    if record is None:
        return [None]
    return [] if record.output is UNDEFINED else [record.output]


@dataclass(slots=True)
class Spent:
    """The total costs of several executions; the duration in milliseconds, errors are those that failed."""

    count: int = 0
    duration: float = 0.0
    errors: int = 0

    def add(self, record: NodeRecord) -> None:
        self.count += 1
        self.duration += record.duration or 0.0
        self.errors += record.error is not None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The costs of a run: milliseconds from beginning to end, and what was spent per node id and type."""

    total_duration: float
    by_node: dict[str, Spent] = field(default_factory=dict[str, Spent])
    by_type: dict[str, Spent] = field(default_factory=dict[str, Spent])


def telemetry_of(records: Iterable[NodeRecord], total_duration: float) -> Telemetry:
    telemetry = Telemetry(total_duration)
    for record in records:
        telemetry.by_node.setdefault(record.node_id, Spent()).add(record)
        telemetry.by_type.setdefault(record.node_type, Spent()).add(record)
    return telemetry
