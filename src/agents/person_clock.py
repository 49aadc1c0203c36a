"""The time of an agent's run and of its calls, which stands still while a person is asked."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

    from ..client.clock import StoppableClock
    from ..runs.call_values import Allow, Approver, Ask, Deny, Edit, PlannedCall

_of_calls: Final[ContextVar[tuple[StoppableClock, ...]]] = ContextVar("clocks_of_calls", default=())


@contextmanager
def of_call(clock: StoppableClock) -> Generator[None]:
    """Makes a clock that of the call which begins here, for all threads that take over the context.

    Within a call its server may ask, which is a call in the other direction: both clocks stand still.
    """
    token = _of_calls.set((*_of_calls.get(), clock))
    try:
        yield
    finally:
        _of_calls.reset(token)


def without_clocks(ask: Approver, of_run: StoppableClock) -> Approver:
    """Asks while the clocks of the run and of the call stand still, also if others are asked about before."""

    def asked(plan: PlannedCall, question: Ask) -> Allow | Deny | Edit:
        with ExitStack() as stack:
            for clock in (of_run, *_of_calls.get()):
                stack.enter_context(clock.stopped())
            return ask(plan, question)

    return asked
