"""What runs in a worker: one call, in the form in which it was sent there, over sessions that stay open.

A call is sent as a frozen value to a module-level function, which every executor can do. Credentials are not
sent: the worker looks them up where it runs, by the name in the tool's route. Arguments have to be sent and
may be secrets, so the ``repr`` of a call, which an executor may log, does not contain them.

A worker process keeps one live client per server and credential, closed at its end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from ..system import ENDING, in_forked_children
from ..types.errors import Canceled, MCPError, OutcomeUnknown, Unexpected
from ..types.routing import ServerRoute
from ..version import VERSION
from .checked_calls import make_here
from .engine import CallInProgress, Run

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from distributed import Worker

    from ..types.tool import MCPTool
    from .call_values import CallOutcome, PlannedCall

Connect: TypeAlias = Callable[[ServerRoute], Run]
"""Makes a run for one server, in the worker. Looks up the credential that the route names, and adds
it to the secrets. A module-level function, or a frozen value with ``__call__``, so that it can be sent and so
that equal ones share sessions. Raises `MCPError` if the worker cannot connect to the server."""

_CLOSE_EARLY: Final = 10  # before multiprocessing's own helpers end
_LOOK: Final = "Look at the server what it did"
_stop: Event | None = None
"""In a process of ours: set when the calls of the run are to stop."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoteCall:
    """A checked call for a worker, in the run of this id; for `connect` see `Connect`.

    With `salt`, marks of secrets are the same on all workers; `named` are names of secret arguments. `blobs`
    says whether the blobs of the result are wanted.
    """

    call: PlannedCall
    tool: MCPTool
    connect: Connect
    run: str
    salt: bytes
    named: frozenset[str]
    blobs: bool
    idempotency_key: str | None = None

    def __repr__(self) -> str:
        row = "" if self.call.input_row is None else f", row {self.call.input_row}"
        return f"<{type(self).__name__} of {self.tool.name} at {self.tool.route.url}{row}>"


def remote_call(remote: RemoteCall) -> CallOutcome:
    """Makes a call, in the worker, and returns its outcome in a form that can be sent back.

    Raises `MCPError` if the call was not made.
    """
    shared = _sessions.run_of(remote)
    task = DaskTask.current()
    if task is not None and not remote.tool.may_repeat:
        task.begin()
    is_run_canceled = shared.is_canceled

    def is_canceled() -> bool:
        return (
            (_stop is not None and _stop.is_set())
            or (task is not None and task.is_canceled())
            or (is_run_canceled is not None and is_run_canceled())
        )

    call = CallInProgress(remote.call, replace(shared, is_canceled=is_canceled))
    call.key = remote.idempotency_key
    call.begin()
    outcome = make_here(call)
    error = outcome.error
    if error is not None and not isinstance(error, MCPError):
        error = Unexpected(outcome.record.error or type(error).__name__)  # its own class may not be picklable
    return replace(outcome, error=error, answer=outcome.answer if remote.blobs else None)


class WorkerLost(OutcomeUnknown):
    """A worker took a call and was lost."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}. It is unknown whether the call ran", fix=_LOOK)


class StoppedWithin(Canceled):
    """The run was stopped while a worker had a call: it is unknown whether the call ran."""

    CODE = OutcomeUnknown.CODE

    def __init__(self) -> None:
        what = "The run was stopped while a worker had this call. It is unknown whether the call ran"
        super().__init__(what, fix=_LOOK)
        self.may_have_run = True


class _Sessions:
    """The runs of this process, by server and by the way to connect to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[Connect, ServerRoute], Run] = {}

    def run_of(self, remote: RemoteCall) -> Run:
        """The part of a call's run in this process; runs that connect in the same way share its sessions."""
        server = replace(remote.tool.route, tool=None, digest=None)
        with self._lock:
            run = self._held.get((remote.connect, server)) or remote.connect(server)
            # The same marks for the same secrets in all records of a run, wherever they are made.
            if run.id != remote.run:
                run = replace(run, id=remote.run, secrets=run.secrets.salted(remote.salt, remote.named))
            if not self._held:
                # Processes of multiprocessing do not run atexit functions, but run these at their end.
                Finalize(None, self.close, exitpriority=_CLOSE_EARLY)
            self._held[remote.connect, server] = run
            return run

    def close(self) -> None:
        with self._lock:
            held, self._held = self._held, {}
        for run in held.values():
            run.pool.close()


_sessions = _Sessions()


def _forget() -> None:
    """A forked process must not use the sockets of its parent."""
    global _sessions
    _sessions = _Sessions()


in_forked_children(_forget)


def begin_process(stop: Any) -> None:
    """Initializes a worker process, whose calls end when ``stop`` is set."""
    global _stop
    _stop = stop
    for number in ENDING:  # sent to the whole group; the parent decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="mcp-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Without cleaning up: the parent is gone, and a call that hangs would keep the process for ever.
        os._exit(1)


@dataclass(frozen=True, slots=True)
class DaskTask:
    """A task while it runs.

    Dask repeats a task whose worker was lost: as often as the scheduler's setting allows, and without limit
    if a worker leaves in order or is lost between the end of the call and the transfer of its result. So a
    call that must not be repeated is noted at the scheduler before it begins. Dask deletes the note with the
    task, whose key is unique.
    """

    worker: Worker
    key: str

    @classmethod
    def current(cls) -> Self | None:
        """The task that is running, None outside of a Dask worker."""
        if "distributed" not in sys.modules:
            return None
        import distributed

        try:
            worker = distributed.get_worker()
        except ValueError:
            return None
        return cls(worker, worker.get_current_task())

    def begin(self) -> None:
        """Marks the call as begun at the scheduler.

        Raises `WorkerLost` if a worker that was lost has begun it before.
        """
        from distributed.utils import sync

        # Dask starts a task again whose worker is gone: the scheduler is the only one who knows both.
        if len(sync(self.worker.loop, self._begun)) > 1:
            raise WorkerLost("The worker that began this call was lost")

    async def _begun(self) -> dict[str, Any]:
        # Written before it is read: if two workers begin at the same time, at most one of them continues.
        scheduler = self.worker.scheduler
        await scheduler.set_metadata(keys=[self.key, uuid.uuid4().hex], value=self.worker.address)
        return await scheduler.get_metadata(keys=[self.key])

    def is_canceled(self) -> bool:
        """Returns whether the scheduler no longer wants the result."""
        state = self.worker.state.tasks.get(self.key)
        return state is None or state.state == "cancelled"


def installed_version() -> str:
    """The version of this package; every worker is asked for it before calls are sent."""
    return VERSION
