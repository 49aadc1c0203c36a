"""Calls that have begun and have no record yet. The end of a run waits for them for a short time.

A workflow cannot be interrupted, and a canceled call may go on. Calls that are still running after that time
are recorded as unfinished, as they may have had effects.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ...audit.record import utc_text
from ...runs.one_call import failed_call, recorded_call
from ...types.errors import Canceled

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...audit.record import CallRecord
    from ...runs.one_call import Call, CallOutcome, Dispatcher

_UNKNOWN: Final = "The run ended before the call did; whether it did its work is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningCall:
    call: Call
    dispatcher: Dispatcher
    keep: Callable[[CallRecord], CallRecord]
    at: str


class CallsUnderWay:
    """The calls of a run without a record yet. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._calls: dict[int, _RunningCall] = {}

    def run(
        self, call: Call, dispatcher: Dispatcher, keep: Callable[[CallRecord], CallRecord]
    ) -> CallOutcome:
        """Runs a call and passes its record to `keep`, which returns the record as written to the journal."""
        number, at = next(self._numbers), utc_text(datetime.now(UTC))
        with self._changed:
            self._calls[number] = _RunningCall(call=call, dispatcher=dispatcher, keep=keep, at=at)
        outcome = recorded_call(call, dispatcher)
        with self._changed:
            if self._calls.pop(number, None) is None:
                return outcome  # too late: `end` has already recorded the call
            self._changed.notify_all()
            return replace(outcome, record=keep(outcome.record))

    def end(self, seconds: float) -> None:
        """Waits up to so many seconds for running calls at the end of a run, then records the rest."""
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, timeout=seconds)
            unfinished, self._calls = list(self._calls.values()), {}
            for running in unfinished:
                record = failed_call(running.call, Canceled(_UNKNOWN), running.dispatcher).record
                running.keep(replace(record, started_at=running.at))
