"""The clocks of one call, waiting under them, and waiting in the background without them.

All blocking code of the client waits in slices under a `Wait`. A slice ends at the next deadline or at the
next check of the cancel button, whichever comes first. So every wait is bounded and cancelable without a
thread per call.
"""

import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from ..types.errors import Canceled, ClockKind, MCPError, TimedOut
from .limits import LISTENING, Timeouts

POLL_SECONDS: Final = 0.2
"""Seconds between checks of the cancel button while waiting; KNIME expects at most 0.5 s."""

# A cancel or a close must not itself wait: it is a courtesy to the server, which may be what hangs.
FAREWELL: Final = Timeouts(connect=1.0, idle=1.0, total=1.0)
_EPSILON: Final = 0.001  # a timeout of 0 would mean for sockets not to wait at all
_ATTEMPTS: Final = 2  # of a listener, in a row without a message
_STOOD_SECONDS: Final = 10.0  # a longer attempt is no failure: proxies cut quiet streams after a while
_JOIN_SECONDS: Final = 1.0  # its socket is shut down, so it ends soon; if not, it is a daemon
_FIX: Final[dict[ClockKind, str]] = {
    "connect": "Check that the server runs and that nothing between blocks it, or raise the connect timeout",
    "idle": "Raise the idle timeout if the server may be silent for that long, or ask whoever runs it",
    "total": "Raise the total timeout if the call may take that long",
}

IsCanceled = Callable[[], bool]
_T = TypeVar("_T")


class StoppableClock:
    """A clock that stands still while a person or a model answers the server. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stood = 0.0
        self._since = 0.0
        self._stops = 0

    def __call__(self) -> float:
        with self._lock:
            return (self._since if self._stops else time.monotonic()) - self._stood

    @contextmanager
    def stopped(self) -> Generator[None]:
        with self._lock:
            if not self._stops:
                self._since = time.monotonic()
            self._stops += 1
        try:
            yield
        finally:
            with self._lock:
                self._stops -= 1
                if not self._stops:
                    self._stood += time.monotonic() - self._since


class Wait:
    """The deadlines and the cancel of one call or other piece of work.

    Used by one thread only; others may call `reset_idle` and `hurry`. An exception in
    `is_canceled`, which is called at least every 0.5 s, ends the wait. `opening` is the number of the
    client's opening in which the work began; work of an earlier one is over. The deadlines are times of the
    ``clock``.

    All that blocks raises `TimedOut` when a clock has run out, and `Canceled` when the person asked to stop.
    """

    def __init__(
        self,
        timeouts: Timeouts,
        *,
        total: float | None = None,
        is_canceled: IsCanceled | None = None,
        opening: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        now = clock()
        self.timeouts = timeouts
        self.total = timeouts.total if total is None else total
        self.opening = opening
        self._is_canceled = is_canceled
        self._total_at = now + self.total
        self._idle_at = now + timeouts.idle
        self._connect_at: float | None = None
        # The caller's cancel button is looked at by the real clock,
        # even while the call's own clock stands still.
        self._next_look = time.monotonic()

    def narrowed(self, *, idle: float) -> "Wait":
        """A copy of the wait with a shorter idle clock, which starts now."""
        timeouts = Timeouts(
            connect=self.timeouts.connect, idle=min(idle, self.timeouts.idle), total=self.timeouts.total
        )
        total, is_canceled = max(0.0, self.left), self._is_canceled
        return Wait(timeouts, total=total, is_canceled=is_canceled, opening=self.opening, clock=self._clock)

    def farewell(self) -> "Wait":
        """A wait of one second for the cancel message, whatever ended this wait."""
        return Wait(FAREWELL, opening=self.opening)

    @property
    def left(self) -> float:
        """Seconds until the total clock ends; negative afterwards."""
        return self._total_at - self._clock()

    def reset_idle(self) -> None:
        """Restarts the idle clock, as something arrived for this call."""
        self._idle_at = self._clock() + self.timeouts.idle

    def hurry(self, seconds: float) -> None:
        """Makes the idle clock end within that many seconds, unless it is reset before."""
        self._idle_at = min(self._idle_at, self._clock() + seconds)

    @contextmanager
    def connecting(self) -> Generator[None]:
        """A context in which the connect clock runs and the idle clock stops. May be nested."""
        outer = self._connect_at
        if outer is None:
            self._connect_at = self._clock() + self.timeouts.connect
        try:
            yield
        finally:
            self._connect_at = outer
            self.reset_idle()

    def is_over(self) -> bool:
        return self._is_canceled is not None and self._is_canceled()

    def look(self) -> None:
        self._next_look = time.monotonic() + POLL_SECONDS
        if self.is_over():
            raise Canceled("Canceled")

    def slice(self) -> float:
        """The seconds to block at most before the next check of clocks and cancel; always positive."""
        if time.monotonic() >= self._next_look:
            self.look()
        kind: ClockKind
        # While connecting the server cannot have sent anything, so its silence is not measured.
        kind, at = ("idle", self._idle_at) if self._connect_at is None else ("connect", self._connect_at)
        if self._total_at < at:
            kind, at = "total", self._total_at
        left = at - self._clock()
        if left <= 0:
            raise self._timed_out(kind)
        # Never 0: the caller blocks for it, and `settimeout(0)` would make a socket non-blocking instead.
        return max(min(left, self._next_look - time.monotonic()), _EPSILON)

    def _timed_out(self, kind: ClockKind) -> MCPError:
        match kind:
            case "connect":
                what = f"No connection within {self.timeouts.connect:g} s"
            case "idle":
                what = f"The server has sent nothing for {self.timeouts.idle:g} s"
            case "total":
                what = f"No reply within {self.total:g} s in total"
        return TimedOut(what, kind=kind, fix=_FIX[kind])

    # Slices instead of one long wait, as Python cannot interrupt a wait of another thread for a cancel.
    def for_event(self, event: threading.Event) -> None:
        while not event.wait(self.slice()):
            pass

    def for_lock(self, lock: threading.Lock) -> None:
        while not lock.acquire(timeout=self.slice()):
            pass

    def allows(self, seconds: float) -> bool:
        """Returns whether a pause fits under the idle clock and ends before the total clock."""
        return seconds <= self.timeouts.idle and self._clock() + seconds < self._total_at

    def sleep(self, seconds: float) -> None:
        """Pauses under the same clocks; the pause does not count for the idle clock."""
        until = self._clock() + seconds
        # The pause was asked for by us or by the server (`Retry-After`), so it is no silence.
        self._idle_at = until + self.timeouts.idle
        if until >= self._total_at:
            raise self._timed_out("total")
        while (left := until - self._clock()) > 0:
            time.sleep(min(left, self.slice()))

    def run(self, work: Callable[[], _T], abort: Callable[[], None] | None = None) -> _T | Exception:
        """Runs uninterruptible work (a name look-up, a TLS handshake) under the clocks.

        Returns its result, or the exception that it raised. The work runs in a separate thread, which is
        abandoned if the wait ends first; so it must end by itself, soon after `abort`.
        """
        done = threading.Event()
        outcome: list[_T | Exception] = []

        def body() -> None:
            try:
                outcome.append(work())
            except Exception as error:
                outcome.append(error)
            finally:
                done.set()

        # A daemon, as `getaddrinfo` may hang for longer than the program wants to live.
        threading.Thread(target=body, name="knime-mcp-connect", daemon=True).start()
        try:
            self.for_event(done)
        except BaseException:
            if abort is not None:
                abort()
            raise
        return outcome[0]


def backoff(attempt: int, retry_after: float | None = None) -> float:
    """Seconds before the next attempt: the server's ``Retry-After``, else doubling pauses with jitter."""
    base = min(8.0, 0.25 * 2 ** (attempt - 1))
    jitter = base * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
    # Never earlier than the server said (RFC 9110 §10.2.3), and not all clients at once.
    return jitter if retry_after is None else retry_after + min(jitter, 0.25)


class Interruptible(Protocol):
    """An exchange that another thread can end."""

    interrupt: Callable[[], None] | None


class ServerListener:
    """Base of threads that wait for what a server sends unasked, in one attempt after the other."""

    def __init__(self, name: str) -> None:
        self._stopped = threading.Event()
        self._wait = Wait(LISTENING, is_canceled=self._stopped.is_set)
        self._lock = threading.Lock()
        self._exchange: Interruptible | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops listening; the thread ends soon."""
        self._stopped.set()
        with self._lock:
            if self._exchange is not None and self._exchange.interrupt is not None:
                self._exchange.interrupt()

    def close(self) -> None:
        """Stops listening, and waits for the thread."""
        self.stop()
        if self._thread is not threading.current_thread():  # a message's handler may close the listener
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        """Listens again until it is stopped or too many short attempts in a row brought nothing."""
        while not self._stopped.is_set():
            since = time.monotonic()
            heard = self._listen()
            if heard is None:
                return
            lively = heard or time.monotonic() - since > _STOOD_SECONDS
            self._failures = 0 if lively else self._failures + 1
            if self._failures == _ATTEMPTS or self._stopped.wait(self._pause()):
                return

    def _listen(self) -> bool | None:
        """Makes one attempt: whether the server said something; None if another attempt is of no use."""
        raise NotImplementedError

    def _pause(self) -> float:
        """Seconds before the next attempt."""
        return backoff(self._failures + 1)

    @contextmanager
    def _attempt(self, exchange: Interruptible) -> Generator[Wait]:
        """A context with the clocks of all attempts, which end when `stop` is called."""
        with self._lock:
            self._exchange = exchange
        try:
            yield self._wait
        finally:
            with self._lock:
                self._exchange = None  # other requests may use the connection from now on
