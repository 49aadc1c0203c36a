"""A run: what is one for all calls that belong together, and the whole way of each of them.

`Run.call` is this way, for every user, and wherever the call is made: hooks, check, make (`checked_calls`),
record. A worker of a Dask cluster may make a call: it is checked here before; the worker makes its record,
with its own clock, and here the record is completed and written.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, Unpack, cast

from ..audit.journal import Journal, MemoryJournal, new_run_id
from ..audit.journal_reading import SentCall
from ..audit.record import CallRecord, CallStatus, content_digests, plan_digest, status_of, utc_text
from ..audit.secrets import HiddenSecrets, SecretMarker, hidden_note
from ..client.clock import POLL_SECONDS
from ..client.mcp_client import SessionPool
from ..client.protocol.outcomes import MAY_HAVE_RUN
from ..client.protocol.tools import ABSENT, blobs_in
from ..types import errors
from ..types.errors import ArgumentsInvalid, Canceled, MCPError, coded, kind_and_place
from ..types.texts import canonical_json, compact_json, without_surrogates
from ..types.tool import MCPTool, WorkflowTool, to_json_text
from .call_values import Allow, Ask, CallOutcome, Deny, Edit, ToolAnswer, nobody_asked, sent_before
from .checked_calls import Definitions, Pinning, check_call, make_here, schema_of
from .saved_files import save_blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType

    from ..audit.journal import JournalOptions
    from ..audit.journal_reading import Outcome
    from ..client.mcp_client import MCPClient, Progress
    from ..types.routing import ServerRoute
    from .call_values import Approver, CallHook, PlannedCall

_MOST_EDITS: Final = 20  # two hooks that undo each other would go on for ever
_log = logging.getLogger(__name__)
_UNKNOWN: Final = "The run ended before the call did; whether it did its work is not known"
# The record of a call that has not ended. Its copies are completed: making one takes four times as long.
_NOTHING_KNOWN: Final = CallRecord(run="", status=CallStatus.FAILED)

WorkflowRunner: TypeAlias = (
    "Callable[[WorkflowTool, dict[str, Any], tuple[Any, ...]], tuple[str, tuple[Any, ...]]]"
)
"""Runs a workflow tool with its parameters and a table per input port; returns message and output tables."""


def new_run(
    connect: Callable[[ServerRoute], MCPClient],
    *,
    secrets: Iterable[str] = (),
    named: Iterable[str] = (),
    id: str | None = None,  # noqa: A002
) -> Run:
    """Makes a run, for everybody: its sessions, their servers' definitions, secrets that records hide."""
    pool = SessionPool(connect)
    marker = SecretMarker(secrets, named=named)
    return Run(pool=pool, definitions=Definitions(pool), secrets=marker, id=id or new_run_id())


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """What the calls of one run share, and their way. Its calls may be made in several threads.

    A copy (`dataclasses.replace`) is a part of the same run, such as one prompt of an agent, with hooks or a
    workflow runner of its own: it has the same sessions, and writes into the same journal.

    At the end of ``with run:`` the journal is closed: as complete, canceled or failed.
    """

    pool: SessionPool
    definitions: Definitions
    secrets: SecretMarker
    id: str = field(default_factory=new_run_id)
    pinning: Pinning = Pinning.WARN  # the action for a tool that changed since it was chosen
    hooks: tuple[CallHook, ...] = ()  # decide about each call before it is checked, and see what came of it
    # asks a person, if a hook says so; if there is nobody, the call is denied
    ask: Approver | None = None
    # RowID that all calls without one have in their records, such as that of an agent's prompt
    input_row: str | None = None
    # runs a workflow tool with arguments and input tables, and returns its message and output tables; None if
    # the host cannot run workflows
    run_workflow: WorkflowRunner | None = None
    # computes the digest of a tool's workflow, in that thread; None if the host cannot
    workflow_digest: Callable[[WorkflowTool], str | None] | None = None
    # saves a blob of a call's result and returns the path; None: blobs are not saved
    save_blob: Callable[[PlannedCall, int, bytes, str], str] | None = None
    is_canceled: Callable[[], bool] | None = None  # ends waiting
    # called with the progress that tools report, in the thread of the call or of a reader
    on_progress: Callable[[Progress], None] | None = None
    # checks a call before it is made, and completes its tool and arguments; raises `MCPError`
    check: Callable[[CallInProgress], None] = check_call
    # makes a checked call, here or elsewhere, such as on a Dask worker; errors are part of the outcome
    make: Callable[[CallInProgress], CallOutcome] = make_here
    records: RunRecords = field(default_factory=lambda: RunRecords())
    # what an interrupted run has sent without learning whether it was carried out: idempotency keys by the
    # digests of calls. Such a call is not made, which is said once.
    unknown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    repeat_unknown: bool = False  # whether it is made nevertheless, with the same key

    @property
    def journal(self) -> Journal | MemoryJournal | None:
        return self.records.journal

    def open_journal(self, file: Path, **options: Unpack[JournalOptions]) -> Self:
        """Opens the journal of the run; from now on, every call is written there before it is handed on.

        For the options and what is raised see `Journal`.
        """
        options["what"] = self.secrets.shown(dict(options.get("what", {})))
        self.records.journal = Journal(file, run=self.id, **options)
        return self

    def note(self, kind: str, fields: dict[str, Any]) -> None:
        """Writes a line that is not a call into the journal, if there is one, with secrets marked."""
        if isinstance(self.journal, Journal):
            self.journal.note(kind, self.secrets.shown(fields))

    def part(self, connect: Callable[[ServerRoute], MCPClient], secrets: SecretMarker) -> Run:
        """A part of the run with sessions of its own, such as one graph of a server."""
        pool = SessionPool(connect)
        return replace(self, pool=pool, definitions=Definitions(pool), secrets=secrets)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed: Outcome = "canceled" if isinstance(error, Canceled) else "failed"
        self.close("complete" if kind is None else failed)

    def close(self, ending: Outcome) -> None:
        """Ends the run, which cannot be resumed if it is complete. Closing again does nothing."""
        try:
            self.records.finish()
        finally:
            if self.journal is not None:
                self.journal.close(ending)

    def call(self, plan: PlannedCall, *, is_canceled: Callable[[], bool] | None = None) -> CallOutcome:
        """Makes a call: hooks, check, make, record, journal. Errors are part of the outcome.

        `is_canceled` ends waiting, as that of the run does, for this call only.

        `JournalWriteError`: the call cannot be written; if it was made, its line *sent* is. Make no others.
        """
        plan = self.decided(plan)
        while True:
            # Each repetition has its own record, as each may have done something.
            call = CallInProgress(plan, self, is_canceled)
            self.records.begin(call)
            outcome = self.records.end(call, self._made(call))
            waits = [wait for hook in self.hooks if (wait := hook.after(plan, outcome)) is not None]
            # A hook may wish for a repetition, but cannot allow what may do harm when it is done twice.
            can_repeat = call.may_repeat or not call.attempts
            if not waits or not can_repeat or not self._waited(max(waits), call.is_canceled):
                return outcome

    def not_made(self, plan: PlannedCall, error: Exception, *, written: bool = True) -> CallOutcome:
        """The outcome of a call that was not made, with the error as the reason."""
        outcome = CallInProgress(plan, self).failed(error)
        return replace(outcome, record=self.records.write(outcome.record)) if written else outcome

    def decided(self, plan: PlannedCall) -> PlannedCall:
        """The call as the hooks and a person want it, with the reason not to make it. Asks them only once."""
        if not self.hooks or plan.error is not None or plan.decision is not None:
            return plan
        said: list[str] = []
        is_approved, edited = False, "edited"
        hooks = list(self.hooks)
        while hooks:
            verdict = hooks.pop(0).before(plan)
            if isinstance(verdict, Ask):
                # Two hooks that want a person ask once: the person has seen the whole call.
                if is_approved:
                    continue
                is_approved = True
                edited = "filled in" if verdict.about == "form" else edited
                verdict = nobody_asked(verdict) if self.ask is None else self.ask(plan, verdict)
                plan = replace(plan, asked=verdict.asked)
            match verdict:
                case Deny(reason=reason, by=by):
                    said.append(f"denied by {by}" if by else "denied")
                    return replace(plan, error=reason, denied=True, decision="; ".join(said))
                case Edit(arguments=arguments, by=by):
                    if len(said) >= _MOST_EDITS:
                        return replace(
                            plan, error=errors.CallDenied("Hooks edit the call without end"), denied=True
                        )
                    was: dict[str, Any] = dict(plan.arguments or {})
                    names = sorted({*arguments, *was})
                    # With "is it there at all", as null and absent are different arguments.
                    changed = [
                        n for n in names if (n in was, was.get(n)) != (n in arguments, arguments.get(n))
                    ]
                    said.append(f"{edited} by {by}: {', '.join(changed) or 'nothing'}")
                    plan = replace(plan, arguments=dict(arguments), decision="; ".join(said))
                    # From the first hook again: one that allowed the old arguments may have an objection
                    # against the new ones.
                    hooks = list(self.hooks)
                case Allow(by=by):
                    said += [f"allowed by {by}"] if by else []
        return replace(plan, decision="; ".join(said))

    def _waited(self, seconds: float, is_canceled: Callable[[], bool] | None) -> bool:
        """Waits; returns False if it was canceled."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if is_canceled is not None and is_canceled():
                return False
            time.sleep(min(left, POLL_SECONDS))
        return is_canceled is None or not is_canceled()

    def take_over(self, record: CallRecord) -> CallRecord:
        """Writes a call that an earlier run made, instead of making it again."""
        # Through any number of interruptions: the run that made the call, not the last that took it over.
        first = record.resumed_from or record.run
        return self.records.write(replace(record, run=self.id, resumed_from=first))

    def digest_of(self, plan: PlannedCall) -> str:
        """The digest by which a planned call is found on record, see `plan_digest`."""
        return CallInProgress(plan, self).digest_of_plan()

    def _made(self, call: CallInProgress) -> CallOutcome:
        if call.plan.error is not None:
            return call.failed(call.plan.error)
        call.begin()
        try:
            self.check(call)
        except Exception as error:
            call.end()
            return call.failed(error)
        # Every call of every user passes here, checked and not yet sent, and nowhere else.
        if not call.may_repeat:
            keys = self.unknown.get(call.digest_of_plan()) if self.unknown else None
            # Each interrupted call stands for one call of this run: a table may have the same row twice.
            key = keys.pop() if keys else None
            if key is not None and not self.repeat_unknown:
                call.key = key
                return call.failed(sent_before())
            self.records.sent(call, key)
        return self.make(call)


class RunRecords:
    """What is written of a run: its journal, and which calls are under way and not yet written.

    The end of a run waits for these for a short time. A workflow cannot be interrupted, and a canceled call
    may go on. Calls that are still running after that time are recorded as unfinished, as they may have had
    effects. Safe to use from several threads.

    Without a `journal` nothing is written. `on_record` is called with each record as it is kept, in any
    thread.
    """

    def __init__(
        self,
        journal: Journal | MemoryJournal | None = None,
        on_record: Callable[[CallRecord], object] | None = None,
    ) -> None:
        self.journal = journal
        self.on_record = on_record
        self._changed = threading.Condition()
        self._under_way: set[CallInProgress] = set()

    def begin(self, call: CallInProgress) -> None:
        with self._changed:
            self._under_way.add(call)

    def sent(self, call: CallInProgress, key: str | None) -> None:
        """Writes ahead that a call is going to be sent; with the idempotency key of an earlier attempt."""
        call.key = key or token_hex(16)
        if not isinstance(self.journal, Journal):
            return
        name = "" if call.tool is None else call.tool.name
        line = SentCall(key=call.key, plan=call.digest_of_plan(), tool_name=name, input_row=call.input_row)
        try:
            self.journal.sent(line)
        # The call is not made, so `finish` must not record it as one whose end is unknown.
        except BaseException:
            with self._changed:
                self._under_way.discard(call)
            raise

    def end(self, call: CallInProgress, outcome: CallOutcome) -> CallOutcome:
        """The outcome, with its record as the journal has it."""
        with self._changed:
            if call not in self._under_way:
                return outcome  # too late: `finish` has already recorded the call
            self._under_way.remove(call)
            self._changed.notify_all()
            # Within the lock: `finish` must find a call either under way or written, never in between.
            kept = self.write(outcome.record)
        return outcome if kept is outcome.record else replace(outcome, record=kept)

    def write(self, record: CallRecord) -> CallRecord:
        kept = record if self.journal is None else self.journal.append(record)
        if self.on_record is not None:
            self.on_record(kept)
        return kept

    def finish(self, seconds: float = 2.0) -> None:
        """Waits up to so many seconds for calls under way at the end of a run, then records the rest."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, timeout=seconds)
            unfinished, self._under_way = self._under_way, set()
            for call in unfinished:
                self.write(call.abandoned())


class CallInProgress:
    """What becomes known of a call while it is made, and the record of it.

    ``digest`` is that of the workflow that was run; that of an MCP tool is in the tool, which is as it is
    called. ``is_canceled`` ends waiting for the call, or for all calls of the run.
    """

    __slots__ = (
        *("tool", "arguments", "coercions", "note", "digest", "attempts", "server_version", "protocol"),
        *("plan", "run", "key", "is_canceled", "_started_at", "_clock", "_duration", "_known", "_marker"),
        *("_beginning", "_in_arguments", "_in_answer"),
    )

    def __init__(self, plan: PlannedCall, run: Run, is_canceled: Callable[[], bool] | None = None) -> None:
        self.plan, self.run = plan, run
        stops = [stop for stop in (run.is_canceled, is_canceled) if stop is not None]
        self.is_canceled = (lambda: any(stop() for stop in stops)) if stops else None
        self.tool = plan.tool
        self.arguments: dict[str, Any] = dict(plan.arguments or {})
        self.coercions: tuple[str, ...] = ()
        self.note: str | None = None
        self.digest: str | None = None
        self.attempts = 0
        self.server_version: str | None = None
        self.protocol: str | None = None
        self.key: str | None = None
        self._started_at: str | None = None
        self._clock = 0.0
        self._duration: float | None = None
        self._known: object = None  # the secrets that were known when the record's beginning was made
        self._marker = run.secrets
        self._beginning: CallRecord | None = None
        self._in_arguments: dict[str, tuple[str, ...]] = {}
        self._in_answer: Counter[str] = Counter()

    @property
    def input_row(self) -> str | None:
        return self.run.input_row if self.plan.input_row is None else self.plan.input_row

    @property
    def may_repeat(self) -> bool:
        """Whether it does no harm if the call is made twice."""
        return isinstance(self.tool, MCPTool) and self.tool.may_repeat

    def digest_of_plan(self) -> str:
        """A digest by which the same call of a later run is known; the call was checked."""
        return plan_digest(self._begun())

    def begin(self) -> None:
        self._started_at, self._clock = utc_text(datetime.now(UTC)), time.perf_counter()

    def end(self) -> None:
        self._duration = round(time.perf_counter() - self._clock, 6)

    def sent(self) -> None:
        self.attempts += 1

    def prepare(self) -> None:
        """Makes the record's beginning while the server is busy; not if its texts are large."""
        if sum(len(value) for value in self.arguments.values() if isinstance(value, str)) <= 1_000_000:
            self._begun()

    def scrubbed(self, answer: ToolAnswer) -> ToolAnswer:
        """Marks the secrets in an answer's text and structured value; its blocks stay unchanged.

        Each replacement is counted, and the note says so.
        """
        before, marker, counts = answer.structured, self.marker, self._in_answer
        text = without_surrogates(cast("str", marker.data(answer.text, counts)))
        structured = before if before is ABSENT else marker.data(before, counts)
        if text is answer.text and structured is before:
            return answer
        if counts:
            self.add_note(hidden_note(self.tool.name if self.tool else self.plan.name or "", counts.total()))
        return replace(answer, text=text, structured=structured)

    def answered(self, answer: ToolAnswer) -> CallOutcome:
        """The outcome of a call that was answered; saves the answer's files, or raises `MCPError`."""
        # In the server's order, in which people read its columns.
        structured = None if answer.structured is ABSENT else compact_json(answer.structured)
        content = content_digests(answer.blocks, self._marker.data) if answer.blocks else None
        if answer.irregular and self.tool is not None:
            self.add_note(
                f"'{self.tool.name}' gives {' and '.join(answer.irregular)}, which is not as the protocol"
                " wants it; what could not be read stands as JSON in the result."
            )
        files, image = (), None
        if self.run.save_blob is not None and (blobs := blobs_in(answer.blocks)):
            files, image = save_blobs(self.plan, blobs, self.run.save_blob)
        status, error = CallStatus.OK, None
        if answer.error is not None:
            status, error = status_of(answer.error), self._text_of(answer.error)
        elif answer.is_error:
            status, error = CallStatus.TOOL_ERROR, answer.text or "The tool failed without saying why"
        ending = {"status": status, "error": error, "result": None if answer.is_error else answer.text}
        kept = {"structured_result": structured, "content": content, "files": files, "image": image}
        return self._outcome(answer.error, answer, **ending, **kept)

    def failed(self, error: Exception, answer: ToolAnswer | None = None) -> CallOutcome:
        """The outcome of a call that was not made, or not answered, or whose answer could not be kept."""
        if self._started_at is not None and self.tool is not None:
            if isinstance(error, MCPError):
                _log.debug("%s of tool %s", type(error).__name__, self.tool.name)
            else:
                _log.error("Tool %s: unexpected %s", self.tool.name, kind_and_place(error))
        self._begun()
        status = CallStatus.DENIED if self.plan.denied else status_of(error)
        text = self._text_of(error)
        may_have_run = answer is not None or (isinstance(error, MCPError) and error.may_have_run)
        if may_have_run and status is CallStatus.FAILED and not self.may_repeat:
            status, text = CallStatus.UNKNOWN, f"{text} {MAY_HAVE_RUN}"
        return self._outcome(error, answer, status=status, error=text)

    def abandoned(self) -> CallRecord:
        """The record of a call that has not ended when its run does; its thread may still be making it."""
        error = Canceled(_UNKNOWN)
        error.may_have_run = True
        so_far = copy.copy(self)
        so_far._in_answer = Counter()  # the thread may be counting
        return so_far.failed(error).record

    def add_note(self, text: str) -> None:
        self.note = f"{self.note} {text}" if self.note else text

    def _outcome(self, problem: Exception | None, answer: ToolAnswer | None, **ending: Any) -> CallOutcome:
        secrets = None
        if self._in_arguments or self._in_answer:
            salt = self._marker.salt.hex()
            secrets = HiddenSecrets(salt=salt, arguments=self._in_arguments, answer=self._in_answer).to_json()
        record = self._begun().but(
            secrets=secrets,
            attempts=self.attempts,
            key=self.key,
            server_version=self.server_version,
            protocol=self.protocol,
            duration=self._duration,
            **ending,
        )
        return CallOutcome(
            record=record,
            tool=self.tool,
            error=problem,
            coercions=self.coercions,
            note=self.note,
            answer=answer,
        )

    @property
    def marker(self) -> SecretMarker:
        """Knows the secrets of the run, and those among the arguments."""
        self._begun()
        return self._marker

    def _begun(self) -> CallRecord:
        """The record's beginning: what is known before the answer. Made anew if a secret became known."""
        secrets = self.run.secrets
        if self._beginning is None or self._known is not secrets.known:
            self._known = secrets.known
            plan, tool = self.plan, self.tool
            # It also marks the secrets among the arguments where the server repeats them.
            self._marker, unmarked = secrets.for_call(self.arguments, *self._schemas)
            known: dict[str, Any] = {
                "run": self.run.id,
                "iteration": plan.iteration,
                "decision": "; ".join(filter(None, (plan.decision, *self.coercions))) or None,
                "asked": plan.asked,
                "input_row": self.input_row,
                "started_at": self._started_at,
                "arguments": self._arguments_text(unmarked),
            }
            if tool is not None:
                is_mcp = isinstance(tool, MCPTool)
                known |= {
                    "tool": to_json_text(tool),
                    "tool_name": tool.name,
                    "tool_type": tool.tool_type.name.lower(),
                    "server": tool.route.url if is_mcp else None,
                    "digest": tool.digest if is_mcp else self.digest,
                }
            elif plan.name is not None:
                known["tool_name"] = without_surrogates(self._marker.data(plan.name))
            self._beginning = _NOTHING_KNOWN.but(**known)
        return self._beginning

    @property
    def _schemas(self) -> tuple[str, ...]:
        return self.plan.schemas or (() if self.tool is None else (schema_of(self.tool),))

    def _arguments_text(self, unmarked: dict[str, Any] | None) -> str | None:
        if self.plan.arguments is None:
            return None
        try:
            arguments, hidden = unmarked, self._in_arguments
            if unmarked is None:
                arguments, hidden = self._marker.marked(self.arguments, *self._schemas)
            if self.plan.data:  # the input tables are recorded in the form that models use
                chosen = {data.port: data.id for data in self.plan.data}
                arguments = {"configuration": arguments, "data_inputs": chosen}
                hidden = {f"/configuration{pointer}": digests for pointer, digests in hidden.items()}
            self._in_arguments = hidden
            return canonical_json(arguments)
        except (ValueError, TypeError, RecursionError):
            return None  # the call's error names the value that JSON cannot hold

    def _text_of(self, error: Exception) -> str:
        """The text of an error, with its place and the next step, without secrets."""
        if isinstance(error, MCPError):
            server = self.tool.route.url if isinstance(self.tool, MCPTool) else None
            name = None if self.tool is None else self.tool.name
            placed = error.at(server=server, tool=name, row=self.plan.input_row)
            pointer = error.pointer if isinstance(error, ArgumentsInvalid) else ""
            said = placed.quoting
            text, code = f"{pointer}: {said}" if pointer and pointer not in said else said, error.error_code
        else:
            # An exception of other code: its message may contain arguments and credentials.
            text = f"Unexpected {type(error).__name__}. Please report this together with the log."
            code = errors.Unexpected.CODE
        return coded(without_surrogates(self._marker.text(text)), code)
