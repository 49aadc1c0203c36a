"""Calls made by the workers of a Dask cluster, and recorded in this process.

A call waits in its own thread, so order, limits, journal and cancellation are those of calls made here: only
sending is elsewhere. It travels as a frozen value to `remote_call`. Credentials do not: the worker looks them
up where it runs, by the name in the tool's route. Arguments have to be sent and may be secrets, so the
``repr`` of a call, which Dask may log, does not contain them.

A worker keeps one live client per server and credential, closed at its end.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias

from ..audit.secrets import HiddenSecrets
from ..client.clock import POLL_SECONDS
from ..client.protocol.tools import blobs_in
from ..types.errors import Canceled, MCPError, OutcomeUnknown, Unexpected
from ..types.routing import ServerRoute
from ..types.texts import canonical_json
from ..types.tool import MCPTool
from ..version import VERSION
from .checked_calls import make_here
from .engine import CallInProgress, Run
from .saved_files import save_blobs

if TYPE_CHECKING:
    from distributed import Client, Worker
    from distributed import Future as Task

    from ..audit.record import CallRecord
    from ..audit.secrets import SecretMarker
    from .call_values import CallOutcome, PlannedCall

Connect: TypeAlias = Callable[[ServerRoute], Run]
"""Makes a run for one server, in the worker. Looks up the credential that the route names, and adds
it to the secrets. A module-level function, or a frozen value with ``__call__``, so that it can be sent and so
that equal ones share sessions. Raises `MCPError` if the worker cannot connect to the server."""

_LOOK_SECONDS: Final = 2.0
"""Between two looks at whether the cluster still has workers."""
_WORKERLESS_SECONDS: Final = 20.0
"""Time in which a cluster that lost its workers may get new ones: a nanny starts one in about three."""
_FETCH_SECONDS: Final = 100.0
"""For the transfer of a result, also a large one; no worker may be left who has it."""
_LAST_SECONDS: Final = 2.0
"""For the same when the run is stopped: the call was made, and its result is worth a moment."""
_CLOSE_EARLY: Final = 10  # before multiprocessing's own helpers end
_SEE_SERVER: Final = "Look at the server what it did"


class NoWorkers(MCPError):  # noqa: N818
    """All workers have ended, so a call was not made."""

    CODE = "KMCP-WORKERS"


class WorkerLost(OutcomeUnknown):
    """A worker took a call and was lost."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}. It is unknown whether the call ran", fix=_SEE_SERVER)


class StoppedWithin(Canceled):
    """The run was stopped while a worker had a call: it is unknown whether the call ran."""

    CODE = OutcomeUnknown.CODE

    def __init__(self) -> None:
        what = "The run was stopped while a worker had this call. It is unknown whether the call ran"
        super().__init__(what, fix=_SEE_SERVER)
        self.may_have_run = True


@dataclass(slots=True, kw_only=True)
class DaskCalls:
    """Makes calls on a cluster: ``run.make = DaskCalls(client=…, connect=…).make``. Safe for several threads.

    A call whose worker is lost has failed, and the record says that it is unknown whether the call ran. It is
    repeated only if its tool is declared as read-only or idempotent. Every call ends, also if Dask would wait
    for ever: for a result that was lost with its worker, or without any workers.
    """

    client: Client
    connect: Connect  # connects a worker to a server, and looks up credentials there; see `Connect`
    _are_gone: bool = field(init=False, default=False)
    _looked: float = field(init=False, default=float("-inf"))
    _has_workers: bool = field(init=False, default=True)

    def make(self, call: CallInProgress) -> CallOutcome:
        """Makes a checked call on a worker, and waits for it; the outcome has errors of workers, too."""
        if not isinstance(call.tool, MCPTool):
            return make_here(call)
        try:
            return _completed(call, self._made(self.remote(call, call.tool), call))
        except MCPError as error:
            if not isinstance(error, WorkerLost | StoppedWithin):
                return call.run.not_made(call.plan, error, written=False)
            call.end()
            # The worker that knew how often it was sent is gone: once at least, so that nothing takes it
            # for unsent.
            call.attempts = 1
            return call.failed(error)

    def remote(self, call: CallInProgress, tool: MCPTool) -> RemoteCall:
        run = call.run
        return RemoteCall(
            call=replace(call.plan, tool=tool, arguments=call.arguments, input_row=call.input_row),
            tool=tool,
            connect=self.connect,
            run=run.id,
            salt=run.secrets.salt,
            named=run.secrets.named,
            blobs=run.save_blob is not None,
            idempotency_key=call.key,
        )

    def _made(self, remote: RemoteCall, call: CallInProgress) -> CallOutcome:
        is_canceled = call.is_canceled or _never
        try:
            return self._made_once(remote, is_canceled)
        except WorkerLost:
            if is_canceled() or not remote.tool.may_repeat:
                raise
        return self._made_once(remote, is_canceled)

    def _made_once(self, remote: RemoteCall, is_canceled: Callable[[], bool]) -> CallOutcome:
        task = self._sent(remote, is_canceled)
        try:
            return self._answer(task, is_canceled)
        finally:
            # Dask keeps result and note for as long as something refers to the task, such as a traceback.
            task.release()

    def _sent(self, remote: RemoteCall, is_canceled: Callable[[], bool]) -> Task:
        if is_canceled():
            raise Canceled("The run was stopped before this call")
        if self._are_gone:
            _refuse("the Dask cluster has none")
        try:
            # Not `pure`: Dask would make one call of two equal ones. No retries: a call may not be repeated
            # by itself.
            return self.client.submit(remote_call, remote, pure=False, retries=0)
        except RuntimeError as error:  # the client was closed
            _refuse(type(error).__name__)

    def _answer(self, task: Task, is_canceled: Callable[[], bool]) -> CallOutcome:
        """Waits for the end of a task, then for its result; what Dask cannot tell for too long is unknown."""
        has_ended = threading.Event()
        task.add_done_callback(lambda _: has_ended.set())
        give_up = time.monotonic() + _WORKERLESS_SECONDS
        while not has_ended.wait(POLL_SECONDS):
            if is_canceled():
                task.cancel()
                raise StoppedWithin
            if self._may_end():
                give_up = time.monotonic() + _WORKERLESS_SECONDS
            elif time.monotonic() > give_up:
                self._are_gone = True
                task.cancel()  # a worker that comes back must not make it
                raise WorkerLost("The workers of this call are gone")
        try:
            return self._result(task, is_canceled)
        except MCPError:
            raise
        except (Exception, asyncio.CancelledError) as error:  # Dask has two errors of canceled tasks
            task.cancel()
            raise WorkerLost(f"The worker of this call was lost ({_named(error)})") from None

    def _result(self, task: Task, is_canceled: Callable[[], bool]) -> CallOutcome:
        """The result of a task that has ended, which may be lost with its worker all the same."""
        fetched: Future[CallOutcome] = Future()

        def fetch() -> None:
            try:
                # In one piece: a wait for a result that runs out begins its transfer anew.
                fetched.set_result(task.result(timeout=_FETCH_SECONDS))
            except BaseException as error:  # told to the one who waits
                fetched.set_exception(error)

        threading.Thread(target=fetch, name="dask-result", daemon=True).start()
        while not wait([fetched], POLL_SECONDS).done:
            if is_canceled() and not wait([fetched], _LAST_SECONDS).done:
                task.cancel()
                raise StoppedWithin
        return fetched.result()

    def _may_end(self) -> bool:
        """Whether there are workers. One look at the scheduler is for all calls that wait."""
        if time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            try:
                self._has_workers = bool(self.client.scheduler_info()["workers"])
            except Exception:  # no scheduler: Dask has an error class of its own for each way to lose it
                self._has_workers = False
        return self._has_workers


def _refuse(why: str) -> NoReturn:
    raise NoWorkers(
        f"There is no worker any more ({why}), so the call was not made",
        fix="See why the workers ended, then resume the run",
    ) from None


def _completed(call: CallInProgress, outcome: CallOutcome) -> CallOutcome:
    """Completes a worker's outcome in this process: saves files, marks secrets known only here."""
    record = _without_secrets(outcome.record, call.run.secrets)
    if outcome.answer is not None and call.run.save_blob is not None:
        files, image = save_blobs(call.plan, blobs_in(outcome.answer.blocks), call.run.save_blob)
        record = replace(record, files=files, image=image)
    note = " ".join(filter(None, (call.note, outcome.note))) or None
    return replace(outcome, record=record, coercions=call.coercions, note=note, answer=None)


def _without_secrets(record: CallRecord, secrets: SecretMarker) -> CallRecord:
    hidden = HiddenSecrets.parse(record.secrets)
    in_answer, in_arguments = Counter(hidden.answer), dict(hidden.arguments)
    parts = ("result", "structured_result")
    texts: dict[str, str | None] = {part: secrets.data(getattr(record, part), in_answer) for part in parts}
    texts["error"] = record.error and secrets.text(record.error)
    if record.arguments is not None:
        arguments, found = secrets.marked(json.loads(record.arguments), by_name=False)
        if found:
            texts["arguments"], in_arguments = canonical_json(arguments), in_arguments | found
    hidden = HiddenSecrets(salt=secrets.salt.hex(), arguments=in_arguments, answer=in_answer)
    return replace(record, secrets=hidden.to_json(), **texts)


def _never() -> bool:
    return False


def _named(error: BaseException) -> str:
    # The message may contain secrets; the name of a missing module is harmless and needed.
    if isinstance(error, ImportError) and error.name:
        return f"it has no module {error.name}"
    return type(error).__name__


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
    shared, task = _sessions.run_of(remote), _RunningTask.current()
    if not remote.tool.may_repeat:
        task.begin()
    call = CallInProgress(remote.call, replace(shared, is_canceled=task.is_canceled))
    call.key = remote.idempotency_key
    call.begin()
    outcome = make_here(call)
    error = outcome.error
    if error is not None and not isinstance(error, MCPError):
        error = Unexpected(outcome.record.error or type(error).__name__)  # its own class may not be picklable
    return replace(outcome, error=error, answer=outcome.answer if remote.blobs else None)


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


@dataclass(frozen=True, slots=True)
class _RunningTask:
    """A task in its worker, while it runs.

    Dask repeats a task whose worker was lost: as often as the scheduler's setting allows, and without limit
    if a worker leaves in order or is lost between the end of the call and the transfer of its result. So a
    call that must not be repeated is noted at the scheduler before it begins. Dask deletes the note with the
    task, whose key is unique.
    """

    worker: Worker
    key: str

    @classmethod
    def current(cls) -> Self:
        from distributed import get_worker

        worker = get_worker()
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
