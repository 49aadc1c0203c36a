"""Calls that have begun and are not on record yet. The end of a run waits for them for a short time.

A workflow cannot be interrupted, and a call that was told to stop may go on. What is still under way when the
waiting is over is recorded as such, for it may have done its work.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ...audit.dispatch import failed_call, recorded_call
from ...audit.record import utc_text
from ...types.errors import Canceled

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...audit.call import Call, CallOutcome, Dispatcher
    from ...audit.record import CallRecord

_UNKNOWN: Final = "The run ended before the call did; whether it did its work is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    call: Call
    dispatcher: Dispatcher
    keep: Callable[[CallRecord], CallRecord]
    at: str


class CallsUnderWay:
    """The calls of a run that are not on record yet. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._calls: dict[int, _Begun] = {}

    def run(
        self, call: Call, dispatcher: Dispatcher, keep: Callable[[CallRecord], CallRecord]
    ) -> CallOutcome:
        """Runs a call and has its record kept; `keep` takes it, and gives it back as it was kept."""
        number, at = next(self._numbers), utc_text(datetime.now(UTC))
        with self._changed:
            self._calls[number] = _Begun(call=call, dispatcher=dispatcher, keep=keep, at=at)
        outcome = recorded_call(call, dispatcher)
        with self._changed:
            if self._calls.pop(number, None) is None:
                return outcome  # too late: the run has ended, and the call is on record
            self._changed.notify_all()
            return replace(outcome, record=keep(outcome.record))

    def end(self, seconds: float) -> None:
        """Records all calls at the end of a run; waits so many seconds for calls under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, timeout=seconds)
            left, self._calls = list(self._calls.values()), {}
            for begun in left:
                record = failed_call(begun.call, Canceled(_UNKNOWN), begun.dispatcher).record
                begun.keep(replace(record, started_at=begun.at))
