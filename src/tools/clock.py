"""The clocks of one call, and how to wait under them.

Everything in the client that blocks waits in slices under a `Wait`: the slice ends at the next deadline or
at the next look at the cancel button, whichever comes first. That makes every wait bounded and cancelable
without a thread per call.
"""

import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from ..types.errors import Canceled, ClockKind, MCPError, TimedOut
from .limits import Timeouts

POLL_SECONDS: Final = 0.2
"""How often the cancel button is looked at while waiting; KNIME expects at least every 0.5 s."""

FAREWELL: Final = Timeouts(connect=1.0, idle=1.0, total=1.0)
_EPSILON: Final = 0.001
_FIX: Final[dict[ClockKind, str]] = {
    "connect": "Check that the server runs and that nothing between blocks it, or raise the connect timeout",
    "idle": "Raise the idle timeout if the server may be silent for that long, or ask whoever runs it",
    "total": "Raise the total timeout if the call may take that long",
}

IsCanceled = Callable[[], bool]


class Wait:
    """Deadlines and cancel of one thing that is waited for.

    Not shared between threads, except that a thread that reads for another may call `reset_idle` and `hurry`.

    Args:
        timeouts: Lengths of the three clocks.
        total: Replaces the total clock of `timeouts`.
        is_canceled: Asked at least every 0.5 s. What it raises ends the wait.
    """

    __slots__ = (
        "_connect_at",
        "_idle_at",
        "_is_canceled",
        "_next_look",
        "_total_at",
        "crossed",
        "meanwhile",
        "opening",
        "timeouts",
        "total",
        "unsent",
        "wake",
    )

    def __init__(
        self, timeouts: Timeouts, *, total: float | None = None, is_canceled: IsCanceled | None = None
    ) -> None:
        now = time.monotonic()
        self.timeouts = timeouts
        self.total = timeouts.total if total is None else total
        self.unsent = True  # until the first byte of a request is on its way; the transports keep it
        self.crossed = False  # the server may have closed the connection before the request arrived; likewise
        # Ends what the thread is blocked in, from another one; the transports keep it, too.
        self.wake: Callable[[], None] | None = None
        # Done once, in the thread of the call, while the server is busy with it.
        self.meanwhile: Callable[[], None] | None = None
        # Which opening of the client this belongs to; the client keeps it.
        self.opening = 0
        self._is_canceled = is_canceled
        self._total_at = now + self.total
        self._idle_at = now + timeouts.idle
        self._connect_at: float | None = None
        self._next_look = now

    def narrowed(self, *, idle: float) -> "Wait":
        """The same wait with a shorter idle clock, which starts now."""
        timeouts = Timeouts(
            connect=self.timeouts.connect, idle=min(idle, self.timeouts.idle), total=self.timeouts.total
        )
        left = max(0.0, self.left)
        narrowed = Wait(timeouts, total=left, is_canceled=self._is_canceled)
        narrowed.opening = self.opening
        return narrowed

    def farewell(self) -> "Wait":
        """A second to say that nobody waits any more, whatever has ended the wait."""
        farewell = Wait(FAREWELL)
        farewell.opening = self.opening
        return farewell

    @property
    def left(self) -> float:
        """Seconds until the total clock ends; negative afterwards."""
        return self._total_at - time.monotonic()

    def sent(self) -> None:
        """The whole request is on its way, and the server has not answered yet."""
        self.unsent = False
        self.use()

    def use(self) -> None:
        """The server is busy from now on: do what was kept for that time."""
        work, self.meanwhile = self.meanwhile, None
        if work is not None:
            work()

    def reset_idle(self) -> None:
        """Something arrived that belongs to this call: the idle clock starts anew."""
        self._idle_at = time.monotonic() + self.timeouts.idle

    def hurry(self, seconds: float) -> None:
        """What matters is over: the idle clock leaves that much patience for the rest, until it is reset."""
        self._idle_at = min(self._idle_at, time.monotonic() + seconds)

    @contextmanager
    def connecting(self) -> Generator[None]:
        """While inside, the connect clock runs and the idle clock stands still; nested, it runs on."""
        outer = self._connect_at
        if outer is None:
            self._connect_at = time.monotonic() + self.timeouts.connect
        try:
            yield
        finally:
            self._connect_at = outer
            self.reset_idle()

    @contextmanager
    def aside(self) -> Generator[None]:
        """While inside, something else is sent under the same clocks: it says nothing about the request."""
        before = self.unsent, self.crossed
        try:
            yield
        finally:
            self.unsent, self.crossed = before

    def is_over(self) -> bool:
        """Whether the person asked to stop."""
        return self._is_canceled is not None and self._is_canceled()

    def look(self) -> None:
        """Look at the cancel button now.

        Raises:
            Canceled: The person asked to stop.
        """
        self._next_look = time.monotonic() + POLL_SECONDS
        if self.is_over():
            raise Canceled("Canceled")

    def slice(self) -> float:
        """Seconds to block at most before asking again; always positive.

        Raises:
            TimedOut: A clock has run out.
            Canceled: The person asked to stop.
        """
        now = time.monotonic()
        if now >= self._next_look:
            self.look()
        kind: ClockKind
        kind, at = ("idle", self._idle_at) if self._connect_at is None else ("connect", self._connect_at)
        if self._total_at < at:
            kind, at = "total", self._total_at
        left = at - now
        if left <= 0:
            raise self._timed_out(kind)
        return max(min(left, self._next_look - now), _EPSILON)

    def _timed_out(self, kind: ClockKind) -> MCPError:
        match kind:
            case "connect":
                what = f"No connection within {self.timeouts.connect:g} s"
                if not self.unsent:  # there is one, and the old transport's stream has to begin
                    what = f"No event within {self.timeouts.connect:g} s; a proxy may hold the stream back"
            case "idle":
                what = f"The server has sent nothing for {self.timeouts.idle:g} s"
            case "total":
                what = f"No reply within {self.total:g} s in total"
        return TimedOut(what, kind=kind, fix=_FIX[kind])

    def for_event(self, event: threading.Event) -> None:
        """Block until the event is set.

        Raises:
            TimedOut: A clock has run out.
            Canceled: The person asked to stop.
        """
        while not event.wait(self.slice()):
            pass

    def for_lock(self, lock: threading.Lock) -> None:
        """Block until the lock is ours.

        Raises:
            TimedOut: A clock has run out.
            Canceled: The person asked to stop.
        """
        while not lock.acquire(timeout=self.slice()):
            pass

    def allows(self, seconds: float) -> bool:
        """Whether a pause is no longer than silence may be, and ends before the total clock does."""
        return seconds <= self.timeouts.idle and time.monotonic() + seconds < self._total_at

    def sleep(self, seconds: float) -> None:
        """Pause, under the same clocks; a pause is not silence of the server.

        Raises:
            TimedOut: The pause does not fit under the total clock.
            Canceled: The person asked to stop.
        """
        until = time.monotonic() + seconds
        self._idle_at = until + self.timeouts.idle
        if until >= self._total_at:
            raise self._timed_out("total")
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, self.slice()))

    def run(self, work: Callable[[], None], abort: Callable[[], None] | None = None) -> None:
        """Run something that nobody can interrupt (a name look-up, a TLS handshake) under the clocks.

        It runs in a thread of its own, which is left behind if the wait ends first; `work` therefore must
        end by itself, and must keep its outcome, errors included, for the caller.

        Args:
            work: What to run; must not raise.
            abort: Makes `work` end soon.
        """
        done = threading.Event()

        def body() -> None:
            try:
                work()
            finally:
                done.set()

        threading.Thread(target=body, name="knime-mcp-connect", daemon=True).start()
        try:
            self.for_event(done)
        except BaseException:
            if abort is not None:
                abort()
            raise


def backoff(attempt: int, retry_after: float | None = None) -> float:
    """Seconds before the next attempt: what the server asked for, else doubling, with jitter.

    Args:
        attempt: 1 for the pause after the first attempt.
        retry_after: Seconds from ``Retry-After``.
    """
    base = min(8.0, 0.25 * 2 ** (attempt - 1))
    jitter = base * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
    return jitter if retry_after is None else retry_after + min(jitter, 0.25)
