"""A call in the form that is sent to a worker, and its execution there.

A call is sent as a frozen value to a module-level function, which every executor can do. Credentials are not
sent: the worker looks them up where it runs, by the name in the tool's route. Arguments have to be sent and
may be secrets, so the ``repr`` of a call, which an executor may log, does not contain them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...types.errors import MCPError
from ..dispatch import recorded_call
from .process_workers import is_stopped
from .worker_sessions import shared_dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...types.tool import MCPTool
    from ..call import Call, CallOutcome, Dispatcher
    from ..definitions import Pinning
    from .dask_task import DaskTask
    from .worker_sessions import Connect


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoteCall:
    """A call for a worker.

    Attributes:
        call: The call, without an error.
        tool: The tool to call.
        connect: Makes the dispatcher for a server; see `Connect`.
        run: Id of the run.
        key: The key for marks of secrets, so that marks are the same on all workers.
        pinning: The action for a tool that changed since it was chosen.
        blobs: Whether the blobs of the result are wanted.
    """

    call: Call
    tool: MCPTool
    connect: Connect
    run: str
    key: bytes
    pinning: Pinning
    blobs: bool

    def __repr__(self) -> str:
        row = "" if self.call.input_row is None else f", row {self.call.input_row}"
        return f"<{type(self).__name__} of {self.tool.name} at {self.tool.route.display}{row}>"


def remote_call(remote: RemoteCall) -> CallOutcome:
    """Makes a call, in the worker.

    Args:
        remote: The call.

    Returns:
        The finished call, in a form that can be sent back.

    Raises:
        MCPError: The call was not made.
    """
    shared = shared_dispatcher(remote)
    task = _dask_task()
    if task is not None and not remote.tool.may_repeat:
        task.begin()
    outcome = recorded_call(remote.call, replace(shared, is_canceled=_is_canceled(task, shared)))
    error = outcome.error
    if error is not None and not isinstance(error, MCPError):
        error = MCPError(outcome.record.error or type(error).__name__)  # its own class may not be picklable
    return replace(outcome, error=error, answer=outcome.answer if remote.blobs else None)


def _dask_task() -> DaskTask | None:
    if "distributed" not in sys.modules:
        return None
    from .dask_task import DaskTask

    return DaskTask.current()


def _is_canceled(task: DaskTask | None, shared: Dispatcher) -> Callable[[], bool]:
    is_run_canceled = shared.is_canceled

    def is_canceled() -> bool:
        return (
            is_stopped()
            or (task is not None and task.is_canceled())
            or (is_run_canceled is not None and is_run_canceled())
        )

    return is_canceled
