"""Resuming an interrupted run: its journal is read, and its results stand in for calls that are the same.

Only calls in the journal count as done.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ..audit.journal import Journal, JournalBusy, held
from ..audit.journal_reading import JournalContent, JournalError, SentCall, latest, read_journal
from ..audit.record import CallStatus, plan_digest
from ..audit.secrets import HiddenSecrets
from ..audit.verdicts import Verdict
from ..audit.verify import verify_file
from ..types.errors import MCPError, ToolFormatError
from ..types.texts import canonical_json, counted, listed
from ..types.tool import MCPTool, from_json_text
from .call_values import CallOutcome
from .checked_calls import schema_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

    from ..audit.record import CallRecord
    from .call_values import PlannedCall
    from .engine import Run

_HARMLESS: Final = frozenset({Verdict.TRUNCATED})
_NOT_SENT: Final = frozenset({CallStatus.INVALID_ARGUMENTS, CallStatus.NOT_FOUND, CallStatus.DENIED})
_UNANSWERED: Final = frozenset({CallStatus.FAILED, CallStatus.CANCELED})  # in journals without lines *sent*


class JournalAltered(MCPError):  # noqa: N818
    """A journal was altered, so that its calls may not have been made."""

    CODE = "KMCP-JOURNAL-ALTERED"


class JournalInUse(MCPError):  # noqa: N818
    """Another run has gone on with a journal, or is about to."""

    CODE = "KMCP-JOURNAL"


def to_resume(path: Path) -> JournalContent:
    """Reads the journal of an interrupted run, whose end may be missing.

    Raises `JournalAltered` if records were altered, or are missing between others.
    """
    content = read_journal(path)
    wrong = [finding for finding in verify_file(path).findings if finding.verdict not in _HARMLESS]
    if wrong:
        raise _altered(path, wrong[0].text)
    return content


@contextmanager
def latest_to_resume(folder: Path, about: str, opened: str) -> Generator[JournalContent | None]:
    """The journal of the last run of its kind (see `Journal.about`) in a folder, if it may have been lost.

    That is a run that is not complete; or one with calls that may have changed something, if the workflow was
    opened anew since (`opened` is another one): nobody knows whether it had the tables of that run, as a
    process may die between the end of a node and the moment when its workflow is saved. To make such calls
    twice is worse than to take old answers, which is said; what only reads is asked anew.

    Within the block nobody else goes on with that run. Raises `JournalAltered`, see `to_resume`, and
    `JournalInUse` if somebody else goes on with it, or it is still going on.
    """
    path = latest(folder, about)
    if path is None:
        yield None
        return
    with ExitStack() as stack:
        try:
            # Held until its content is taken over:
            # two nodes that go on with one run would make its calls twice.
            stack.enter_context(held(path))
            if latest(folder, about) != path:  # who held it before has ended meanwhile
                raise JournalInUse(
                    f"Another run has gone on with {path}", fix="Execute again to go on after it"
                )
            content = read_journal(path)
            # Complete, but the workflow was opened anew since: KNIME may have ended before it saved the
            # node's output, and what changed something is not made again unasked.
            is_taken = content.opened == opened or not any(map(may_change, content.records))
            earlier = None if content.outcome == "complete" and is_taken else to_resume(path)
        except JournalBusy as error:
            raise JournalInUse(str(error)) from None
        except JournalError as error:
            raise _altered(path, str(error)) from None
        yield earlier


def taken_as_complete(earlier: JournalContent | None) -> str:
    """What a node says about a run that it takes over although that run was complete; "" for any other."""
    if earlier is None or earlier.outcome != "complete":
        return ""
    calls = counted(len(earlier.records), "call")
    return (
        f"{calls} were made by a run that had ended before the workflow was opened, and are not made again if"
        " they are the same; switch off 'Resume an interrupted run' to make them again"
    )


def repeated_calls(records: Iterable[CallRecord]) -> str:
    """Lists tools and rows of the calls that may have changed something, as the new run may repeat them."""
    return listed(dict.fromkeys(record.named for record in records if may_change(record)))


def may_change(record: CallRecord) -> bool:
    """Whether a call was sent to a tool that is not declared read-only or idempotent."""
    if record.tool is None or record.started_at is None or record.status in _NOT_SENT:
        return False
    if record.duration is not None and not record.attempts:  # the call ended before it was sent
        return False
    try:
        tool = from_json_text(record.tool)
        return not (isinstance(tool, MCPTool) and tool.may_repeat)
    except ToolFormatError:  # unknown
        return True


def _altered(path: Path, why: str) -> JournalAltered:
    return JournalAltered(
        f"Nothing is taken from the journal {path}: {why.rstrip('.')}",
        fix="Restore the file; or switch off resuming, so that every call is made again, also those that"
        " changed something",
    )


def unknown_calls(content: JournalContent) -> list[SentCall]:
    """The calls that were sent and whose outcome nobody knows."""
    unknown = {call.key: call for call in content.unanswered}
    for record in content.records:  # in the order in which they ended
        plan = plan_digest(record)
        stopped = record.status is CallStatus.CANCELED and (record.attempts or record.duration is None)
        if record.key is None:
            continue
        if stopped or record.status is CallStatus.UNKNOWN:
            name, row = record.tool_name or "", record.input_row
            unknown[record.key] = SentCall(key=record.key, plan=plan, tool_name=name, input_row=row)
        elif record.ok:  # it was made again, with the same key
            unknown.pop(record.key, None)
    return list(unknown.values())


def learn_unknown(calls: Iterable[SentCall], run: Run) -> None:
    """Takes over the calls that were sent and whose outcome nobody knows, also into the journal of the run.

    This run may be interrupted, too, before it comes to these calls.
    """
    for call in calls:
        run.unknown.setdefault(call.plan, []).append(call.key)
        if isinstance(run.journal, Journal):
            run.journal.sent(call)


class EarlierRun:
    """The calls with a result that an interrupted run finished; failed calls are made again.

    The present run learns what has an unknown outcome.
    """

    def __init__(self, content: JournalContent, run: Run) -> None:
        records = content.records
        self._run = run
        learn_unknown(unknown_calls(content), run)
        # Marks are equal for equal secrets if they have the same salt.
        salts = dict.fromkeys(HiddenSecrets.parse(record.secrets).salt for record in records)
        self._markers = [run.secrets.salted(bytes.fromhex(salt)) for salt in {"": None, **salts}]
        self._records = {_key_of(record): record for record in records if record.ok}
        self._taken: dict[tuple[str | None, ...], CallRecord] = {}
        unanswered = (record for record in records if record.status in _UNANSWERED)
        self._unanswered = [record for record in unanswered if _key_of(record) not in self._records]

    def take_over(self, calls: Iterable[PlannedCall]) -> None:
        """Takes over the results of the interrupted run for calls with the same row, tool and arguments.

        Must run before the first call, so that the journal of this run has them if it is interrupted, too.
        """
        for call in calls if self._records else ():
            key = next((key for key in self._keys(call) if key in self._records), None)
            if key is not None:
                # Popped, so that of two equal rows the second one is made if the earlier run came only to
                # the first.
                self._taken[key] = self._run.take_over(self._records.pop(key))

    def find(self, call: PlannedCall) -> CallOutcome | None:
        """The outcome of the call in the earlier run; None if it was not taken over."""
        keys = self._keys(call) if self._taken else ()
        record = next((self._taken[key] for key in keys if key in self._taken), None)
        return None if record is None else CallOutcome(record=record, tool=call.tool)

    def warning(self) -> str:
        """When the present run has ended: what was sent and got no result, and may have run; "" without any.

        What this run came to again is named by its own outcome.
        """
        left = {None, *chain.from_iterable(self._run.unknown.values())}
        again = repeated_calls(record for record in self._unanswered if record.key in left)
        return again and (
            f"The interrupted run had sent these calls, and got no result: {again}; if they are made again,"
            " look at whether their effects are there twice"
        )

    def _keys(self, call: PlannedCall) -> Iterator[tuple[str | None, ...]]:
        if call.tool is None or call.error is not None:
            return
        server = call.tool.route.url if isinstance(call.tool, MCPTool) else None
        for arguments in self._arguments(call):
            yield (call.input_row, call.tool.name, server, arguments)

    def _arguments(self, call: PlannedCall) -> Iterator[str]:
        """The arguments as they may be on record, with the marks of each salt there."""
        from .checked_calls import ArgumentValidator

        assert call.tool is not None
        arguments: dict[str, Any] = dict(call.arguments or {})
        try:
            if isinstance(call.tool, MCPTool):  # the journal has the arguments after their conversion
                arguments, _ = ArgumentValidator.for_schema(call.tool.schema_json).check(arguments)
            for marker in self._markers:
                yield canonical_json(marker.mark(arguments, schema_of(call.tool)))
        except (MCPError, ValueError, TypeError):
            return


def _key_of(record: CallRecord) -> tuple[str | None, ...]:
    return (record.input_row, record.tool_name, record.server, record.arguments)
