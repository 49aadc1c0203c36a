"""Replay: makes the calls on record again, as far as that changes nothing, and compares the results.

Safe by default: an MCP tool is called only if the server's current definition declares it as read-only and is
the same as the recorded one. A server's word is not proof; but a tool that was not read-only when it was
recorded cannot become callable by a new annotation, because its definition has changed. All other MCP tools
get a dry run: their arguments are checked against the current definition, and nothing is sent. A workflow can
do anything, and runs only if a person names it.

Calls are made in recorded order. Read-only calls may overlap; every other call waits for all before it.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...types.errors import Canceled
from ...types.tool import WorkflowTool
from ..dispatch import recorded_call
from ..record import CallStatus
from .calls import ReplayedCall, ReplayVerdict
from .comparison import compare
from .decision import Decider, Ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..call import Call, CallOutcome, Dispatcher
    from ..record import CallRecord
    from .calls import RecordedCall
    from .options import ReplayOptions

_POLL_SECONDS: Final = 0.25
_AHEAD: Final = 4


@dataclass(slots=True)
class Replayer:
    """Replays the calls of one table or file.

    Attributes:
        dispatcher: Runs the calls.
        options: The options of the replay.
        make: Makes a call and records it; by default in this process. See `Workers.recorded_call`.
        keep: Called with the record of each new call, in the order in which they finish; returns the record
            as written. Called from several threads.
        is_canceled: Called in the calling thread, at least every 0.25 s.
        on_cancel: Called once if the replay ends early, so that calls in flight stop.
    """

    dispatcher: Dispatcher
    options: ReplayOptions
    make: Callable[[Call], CallOutcome] | None = None
    keep: Callable[[CallRecord], CallRecord] = lambda record: record
    is_canceled: Callable[[], bool] = lambda: False
    on_cancel: Callable[[], None] = lambda: None
    _decider: Decider = field(init=False)

    def __post_init__(self) -> None:
        self._decider = Decider(self.dispatcher, self.options, self.is_canceled)
        self.dispatcher.secrets.learn(self.options.secrets.values())

    def replay(self, calls: Iterable[RecordedCall]) -> Iterator[ReplayedCall]:
        """Replays calls.

        Args:
            calls: The calls in recorded order; they are made, and reported, in this order.

        Yields:
            One result per call.

        Raises:
            Canceled: The person stopped the replay. Calls in flight were canceled and have ended.
        """
        window: deque[ReplayedCall | tuple[Ready, Future[CallRecord]]] = deque()
        stopped = False
        with ThreadPoolExecutor(self.options.concurrency, thread_name_prefix="mcp-replay") as pool:
            try:
                for recorded in calls:
                    if stopped:
                        yield _not_made(recorded)
                        continue
                    step = self._decider.decide(recorded)
                    overlaps = isinstance(step, ReplayedCall) or step.overlaps
                    yield from self._drained(window, room=self.options.concurrency if overlaps else 0)
                    if isinstance(step, ReplayedCall):
                        window.append(step)
                    elif isinstance(step.call.tool, WorkflowTool):
                        # KNIME runs a workflow in the context of the thread that executes the node.
                        window.append(self._finished(step, self._make(step.call)))
                    else:
                        window.append((step, pool.submit(self._make, step.call)))
                    if not overlaps or self.options.stop_at_first_difference:
                        for done in self._drained(window, room=0):
                            stopped = self.options.stop_at_first_difference and not done.verdict.is_good
                            yield done
                yield from self._drained(window, room=0)
            except BaseException:
                for entry in window:
                    if isinstance(entry, tuple):
                        entry[1].cancel()
                self.on_cancel()
                raise

    def _drained(
        self, window: deque[ReplayedCall | tuple[Ready, Future[CallRecord]]], *, room: int
    ) -> Iterator[ReplayedCall]:
        """Yields finished calls, and waits until fewer than `room` calls are in flight."""
        while True:
            if self.is_canceled():
                raise Canceled("The replay was canceled")
            while window:
                entry = window[0]
                if isinstance(entry, ReplayedCall):
                    window.popleft()
                    yield entry
                elif entry[1].done():
                    window.popleft()
                    yield self._finished(entry[0], entry[1].result())
                else:
                    break
            flying = [e[1] for e in window if isinstance(e, tuple) and not e[1].done()]
            if not window or (room and len(flying) < room and len(window) < room * _AHEAD):
                return
            wait(flying, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)

    def _make(self, call: Call) -> CallRecord:
        outcome = recorded_call(call, self.dispatcher) if self.make is None else self.make(call)
        return self.keep(outcome.record)

    def _finished(self, ready: Ready, new: CallRecord) -> ReplayedCall:
        recorded = ready.recorded.record
        has_answer = ready.recorded.has_result or recorded.error is not None
        verdict, reason, patch = ReplayVerdict.SAME, None, None
        match new.status:
            case CallStatus.CANCELED:
                verdict, reason = ReplayVerdict.SKIPPED, new.error
            case CallStatus.NOT_FOUND:
                verdict, reason = ReplayVerdict.TOOL_MISSING, new.error
            case CallStatus.FAILED if new.result is None and new.structured_result is None:
                verdict, reason = ReplayVerdict.FAILED, new.error
            case _ if not has_answer:
                verdict = ReplayVerdict.SKIPPED
                reason = f"It is '{new.status.value}' now, but the table has no column Result to compare with"
            case _:
                patch = compare(recorded, new, self.options.ignore)
                if patch is not None:
                    verdict = ReplayVerdict.DIFFERENT
                    reason = _status_change(recorded, new)
        if ready.changes:
            message = f"The tool has changed: {', '.join(ready.changes)}"
            reason = f"{message}. {reason}" if reason else message
        return ReplayedCall(
            recorded=ready.recorded,
            verdict=verdict,
            reason=reason,
            new=new,
            patch=patch,
            changes=ready.changes,
            digest=ready.digest,
        )


def _status_change(recorded: CallRecord, new: CallRecord) -> str | None:
    if recorded.status is new.status:
        return None
    error_text = f": {new.error}" if new.error else ""
    return f"It was '{recorded.status.value}' on record and is '{new.status.value}' now{error_text}"


def _not_made(recorded: RecordedCall) -> ReplayedCall:
    reason = "The replay was to stop at the first difference"
    return ReplayedCall(recorded=recorded, verdict=ReplayVerdict.SKIPPED, reason=reason)
