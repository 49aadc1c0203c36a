"""Observes and controls a run: hooks, breakpoints, pause, step, stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.types.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .nodes import Node
    from .run_state import NodeRecord


FINAL: Final = frozenset({"limit", "stopped", "unknown"})
"""Kinds of errors that end a run, whatever its nodes have for errors."""


class RunError(MCPError):
    """A run ended without a result.

    Attributes:
        cause: The failure in words.
        node: The node that failed, or None.
        kind: The kind of failure.
        code: Code of the cause, or None.
        details: Plain JSON, or None.
        history: The executions up to the failure, including the failed node.
    """

    CODE = "KMCP-GRAPH-RUN"

    def __init__(
        self,
        cause: str,
        *,
        tool: str | None = None,
        node: str | None = None,
        kind: str,
        code: str | int | None = None,
        fix: str | None = None,
        details: Any = None,
    ) -> None:
        super().__init__(cause, tool=tool, fix=fix)
        self.cause = cause
        self.node = node
        self.kind = kind
        self.code = code
        self.details = details
        self.history: tuple[Any, ...] = ()

    @property
    def sentence(self) -> str:
        places = [f"Tool '{self.tool}'" if self.tool else "", f"node '{self.node}'" if self.node else ""]
        where = ", ".join(place for place in places if place)
        fix = f"\n{self.fix.rstrip('.')}." if self.fix else ""
        return f"{where}: {self.cause}{fix}" if where else f"{self.cause}{fix}"

    def placed(self, tool: str, node: str | None = None) -> RunError:
        """Sets tool and node where they are missing, and returns the error."""
        self.tool = self.tool or tool
        self.node = self.node or node
        return self

    def to_json(self) -> dict[str, Any]:
        """The error in the form for nodes after an ``onError`` edge."""
        members = {"message": self.cause, "kind": self.kind, "node": self.node, "code": self.code}
        kept = {key: value for key, value in members.items() if value is not None}
        return kept if self.details is None else {**kept, "details": self.details}


class ToolFailedError(RunError):
    """The called tool answered that it failed."""

    CODE = "KMCP-GRAPH-TOOL"


class RunStatus(StrEnum):
    """The state of a run."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    ERROR = "error"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Functions that are called during a run, in the thread of the node. An exception in one ends the run.

    Attributes:
        on_node_start: Index, node and context, before a node runs; False pauses the run there.
        on_node_complete: Record, node and the context that the node saw.
        on_node_error: Record, node and error.
        on_pause: Index and node before which the run waits.
        on_resume: Called without arguments when the run continues.
        on_progress: Node and text of the progress that tools report.
        output_for: Record and node, before its work: an output instead of the work, or `ABSENT` to do it.
    """

    on_node_start: Callable[[int, Node, Mapping[str, Any]], bool | None] | None = None
    on_node_complete: Callable[[NodeRecord, Node, Mapping[str, Any]], None] | None = None
    on_node_error: Callable[[NodeRecord, Node, Exception], None] | None = None
    on_pause: Callable[[int, Node], None] | None = None
    on_resume: Callable[[], None] | None = None
    on_progress: Callable[[Node, str], None] | None = None
    output_for: Callable[[NodeRecord, Node], Any] | None = None


class ControlError(MCPError):
    """The state of the run does not allow the request."""

    CODE = "KMCP-GRAPH-CONTROL"


class Controller:
    """Controls one run, from any thread."""

    def __init__(self, breakpoints: Iterable[str] = (), *, start_paused: bool = False) -> None:
        self._changed = threading.Condition()
        self._breakpoints = set(breakpoints)
        self._status = RunStatus.NOT_STARTED
        self._pause = start_paused
        self._stop = False
        self._steps = 0
        self._waiting: tuple[int, str] | None = None

    @property
    def status(self) -> RunStatus:
        """The state of the run."""
        return self._status

    @property
    def position(self) -> tuple[int, str] | None:
        """Index and id of the node before which the run waits; None if it does not wait."""
        return self._waiting

    @property
    def is_stopped(self) -> bool:
        """True if the run is to end."""
        return self._stop

    @property
    def breakpoints(self) -> frozenset[str]:
        """Ids of nodes before which the run pauses; assign to change them."""
        return frozenset(self._breakpoints)

    @breakpoints.setter
    def breakpoints(self, nodes: Iterable[str]) -> None:
        self._breakpoints = set(nodes)

    def pause(self) -> None:
        """Pauses the run before the next node."""
        self._require("pause", RunStatus.RUNNING, RunStatus.NOT_STARTED)
        self._pause = True

    def resume(self) -> None:
        """Continues the run."""
        with self._changed:
            self._require("resume", RunStatus.PAUSED)
            self._pause, self._steps = False, 0
            self._leave()

    def step(self, *, timeout: float | None = 60.0) -> bool:
        """Runs one node and pauses again."""
        with self._changed:
            self._require("step", RunStatus.PAUSED)
            self._steps += 1
            self._leave()
            # It returns after the node, not before it, so that callers see what the node did.
            return self._changed.wait_for(lambda: self._status is not RunStatus.RUNNING, timeout)

    def stop(self) -> None:
        """Ends the run; the running node is canceled."""
        with self._changed:
            self._require("stop", RunStatus.NOT_STARTED, RunStatus.RUNNING, RunStatus.PAUSED)
            self._stop = True
            self._changed.notify_all()

    def wait_for(self, *statuses: RunStatus, timeout: float = 60.0) -> bool:
        """Waits until the run is in one of these states; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._status in statuses, timeout)

    def become(self, status: RunStatus) -> None:
        with self._changed:
            self._status = status
            self._changed.notify_all()

    def before(self, index: int, node: Node, hooks: Hooks, *, wants_pause: bool = False) -> None:
        """Pauses before a node, if it is to; in any case with `wants_pause`. For the executor."""
        # Without the lock, as this is asked before each node: a pause that comes now holds at the next one.
        if not (wants_pause or self._pause or node.id in self._breakpoints):
            return
        with self._changed:
            self._waiting, self._status = (index, node.id), RunStatus.PAUSED
            # A breakpoint pauses like `pause`, so that `step` goes one node further and not to the end.
            self._pause = True
            self._changed.notify_all()
        # Outside of the lock, as a hook may resume or stop the run from another thread, and wait for that.
        if hooks.on_pause is not None:
            hooks.on_pause(index, node)
        with self._changed:
            self._changed.wait_for(lambda: self._steps > 0 or not self._pause or self._stop)
            if self._steps:
                self._steps -= 1
            self._waiting = None
        if hooks.on_resume is not None:
            hooks.on_resume()

    def _leave(self) -> None:
        self._status, self._waiting = RunStatus.RUNNING, None
        self._changed.notify_all()

    def _require(self, action: str, *statuses: RunStatus) -> None:
        if self._status not in statuses:
            raise ControlError(f'Cannot {action}: execution status is "{self._status}"')
