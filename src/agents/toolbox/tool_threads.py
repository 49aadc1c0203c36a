"""Runs blocking work in daemon threads, which the end of the process does not wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ...client.clock import StoppableClock
    from ...runs.call_values import Allow, Approver, Ask, Deny, Edit, PlannedCall

T = TypeVar("T")
_waited_for: ContextVar[asyncio.Future[Any] | None] = ContextVar("waited_for", default=None)
_of_calls: Final[ContextVar[tuple[StoppableClock, ...]]] = ContextVar("clocks_of_calls", default=())


async def in_thread(work: Callable[..., T], *args: Any, **options: Any) -> T:
    """Runs blocking work in a thread of its own, with the caller's context variables.

    Not `asyncio.to_thread`: its pool has only six threads on two processors, and Python waits for them at its
    end, even for a tool that hangs.

    If the caller is canceled, the thread goes on and its result is dropped; a function that checks
    `nobody_waits` can end earlier.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    # As `asyncio.to_thread` does, whose threads the end of the process would wait for.
    context = copy_context()
    context.run(_waited_for.set, done)

    def tell(result: T | None, error: BaseException | None) -> None:
        # Nobody waits any more, and a canceled future takes no result.
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)  # pyright: ignore[reportArgumentType] - T may be optional itself
        else:
            done.set_exception(error)

    def run() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = context.run(work, *args, **options)
        except StopIteration as error:  # no future accepts StopIteration
            failure = RuntimeError(repr(error))
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=run, name="agent-tool", daemon=True).start()
    return await done


def nobody_waits() -> Callable[[], bool]:
    """Returns a function that says whether the caller of `in_thread` was canceled, in any thread."""
    waited_for = _waited_for.get()
    return lambda: waited_for is not None and waited_for.cancelled()


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
