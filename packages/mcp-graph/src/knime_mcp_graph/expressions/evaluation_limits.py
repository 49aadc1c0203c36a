"""Limits of time, size, memory and nesting of one evaluation of an expression or rule, and their errors.

The library is asked at each step, our functions before they make something large; a thread looks after what
neither of them sees. All that runs at once in this process takes turns, and shares the memory.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.system import in_forked_children, memory_in_use
from knime_mcp.types.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class ExpressionError(MCPError):
    """An expression could not be evaluated.

    `cause` is the reason without the expression, `code` JSONata's code of the error, such as ``T2001``, or
    None.
    """

    CODE = "KMCP-EXPRESSION"

    def __init__(
        self, what: str, *, expression: str, code: str | None = None, cause: str | None = None
    ) -> None:
        super().__init__(what)
        self.cause = cause or what
        self.expression = expression
        self.code = code

    @property
    def sentence(self) -> str:
        return self.what


class Stopped(MCPError):  # noqa: N818 - a stop is not a mistake in the expression
    """The evaluation was stopped from outside."""

    CODE = "KMCP-STOPPED"


DEFAULT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one evaluation."""

    seconds: float = DEFAULT_SECONDS
    # maximum nesting of evaluations. Each level of a recursive function takes several of them.
    depth: int = 1000
    # called now and then; True ends the evaluation. None: the evaluation cannot be stopped.
    is_stopped: Callable[[], bool] | None = None


UNBOUNDED: Final = Bounds()


class TooLong(Exception):  # noqa: N818
    """The time is over."""


class TooDeep(Exception):  # noqa: N818
    """The nesting is too deep."""


class TooLarge(Exception):  # noqa: N818
    """A value is too large, or all values together."""


class Halted(Exception):  # noqa: N818
    """`Bounds.is_stopped` returned True."""


INTERRUPTS: Final = (TooLong, TooLarge, Halted)
#: Limits of what an expression makes. What it is given may be larger, and pass through. One operation on
#: values of this size takes at most some hundredths of a second, in which other threads cannot run.
MOST_CHARACTERS: Final = 5_000_000
MOST_ENTRIES: Final = 1_000_000
#: By so many bytes the process may grow during an evaluation, through all that run beside it; measured on
#: Linux only.
MOST_MEMORY: Final = 192 << 20
_CHARGE_PER_LOOK: Final = 16 << 20
_BYTES_PER_ENTRY: Final = 8
_STEPS_PER_LOOK: Final = 64


class Watch:
    """Holds one evaluation to its bounds.

    The library calls it at each step, our functions before they make something large. What neither of them
    sees, such as a loop inside of a function, `_Guard` ends.
    """

    __slots__ = (
        "_began",
        "_bounds",
        "_charge",
        "_deadline",
        "_depth",
        "_has_turn",
        "_steps",
        "_thread",
        "_turn_ends",
        "asks_itself",
        "base",
        "is_excessive",
        "is_over",
        "made",
    )

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._began = time.monotonic()
        self._deadline = self._began + bounds.seconds
        self._depth = 0
        self._steps = 0
        self._charge = 0
        self._thread = 0
        self._has_turn = False
        self._turn_ends = self._began + _SECONDS_PER_TURN
        self.base = 0  # bytes of the process when the evaluation began
        self.is_excessive = False  # whether it was ended because the process grew too much
        self.made = 0  # bytes of what was made so far, roughly, including what is not in use any more
        self.is_over = False
        self.asks_itself = True  # while an exception would do harm: the guard raises none

    def enter(self, _expression: Any, _input: Any, _environment: Any) -> None:
        self._depth += 1
        if self._depth > self._bounds.depth:
            raise TooDeep("nested too deeply")
        self._steps += 1
        if self._steps >= _STEPS_PER_LOOK:
            self._steps = 0
            why = self.why_over()
            if why is not None:
                raise why
            if time.monotonic() > self._turn_ends:
                self._take_turns()

    def _take_turns(self) -> None:
        """Waits until no other long evaluation runs.

        One at a time takes no longer in all, as Python runs one thread at a time, and leaves more of it to
        short ones, and memory to each.
        """
        if self._has_turn:
            self._has_turn = False
            guard.turn.release()
            # Else the same thread would get the lock again before the one that waits for it wakes up.
            time.sleep(_SECONDS_BETWEEN_TURNS)
        with self._undisturbed():  # an exception with the turn just got would keep it for ever
            while not guard.turn.acquire(timeout=_SECONDS_PER_LOOK):
                why = self.why_over()
                if why is not None:
                    raise why
            self._has_turn = True
        self._turn_ends = time.monotonic() + _SECONDS_PER_TURN

    @contextmanager
    def _undisturbed(self) -> Generator[None]:
        with guard.lock:
            self.asks_itself = True
        _let_pass()
        try:
            yield
        finally:
            self.asks_itself = False

    def leave(self, _expression: Any, _input: Any, _environment: Any, _result: Any) -> None:
        self._depth -= 1

    def why_over(self) -> type[Exception] | None:
        """The reason for which the evaluation has to end now, or None."""
        if time.monotonic() > self._deadline:
            return TooLong
        return Halted if self._bounds.is_stopped is not None and self._bounds.is_stopped() else None

    def text(self, size: int, *given: int, new: int | None = None) -> None:
        """Called before a text of so many characters is made, perhaps from texts of the sizes `given`.

        A text that grows is checked each time; it grew by `new` characters.
        """
        if size > MOST_CHARACTERS and size > max(given, default=0):
            raise TooLarge(
                f"it makes a text of {size:,} characters; {MOST_CHARACTERS:,} are possible. Make it shorter"
            )
        self._charged(size if new is None else new)

    def entries(self, size: int, *given: int, new: int | None = None) -> None:
        """Called before a list of so many entries is made, as `text` is for texts."""
        if size > MOST_ENTRIES and size > max(given, default=0):
            raise TooLarge(
                f"it makes a list of {size:,} entries; {MOST_ENTRIES:,} are possible. Make it shorter"
            )
        self._charged((size if new is None else new) * _BYTES_PER_ENTRY)

    def _charged(self, size: int) -> None:
        self.made += size
        self._charge += size
        if self._charge > _CHARGE_PER_LOOK:
            self._charge = 0
            with self._undisturbed():
                guard.look_at_memory(self)

    @property
    def left(self) -> float:
        """Seconds until the time is over; at least a millisecond."""
        return max(0.001, self._deadline - time.monotonic())

    def begin(self) -> None:
        """Puts the evaluation under the guard, in this thread."""
        self._thread = threading.get_ident()
        guard.running[self] = None
        if not guard.is_awake:
            guard.wake()
        self.base = guard.size
        self.asks_itself = False

    def end(self) -> None:
        """The evaluation has ended, one way or the other; nothing is raised in its thread from now on."""
        with guard.lock:
            self.is_over = True
        guard.running.pop(self, None)
        if self._has_turn:
            self._has_turn = False
            guard.turn.release()
        _let_pass()
        # Python keeps what it needed: those that run now and begin later are not to blame for it.
        if self.is_excessive or time.monotonic() - self._began > _SHORT:
            guard.size = memory_in_use() or guard.size
        if self.is_excessive:
            for watch in list(guard.running):
                watch.base = guard.size

    def interrupt(self, reason: type[Exception]) -> None:
        """Raises in the thread of the evaluation before its next step in Python, unless it has ended."""
        with guard.lock:
            if not self.is_over and not self.asks_itself:
                thread, raised = ctypes.c_ulong(self._thread), ctypes.py_object(reason)
                # The only way to end Python code in another thread: a step of the library may take seconds.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, raised)


def _let_pass() -> None:
    """What the guard raised before comes in this loop: nothing is left for later.

    It cannot be taken back, as Python would look for it at each step from then on.
    """
    for _ in range(2):
        pass


class _Guard:
    """A thread that looks after all evaluations of this process while there are some."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.Lock()
        self.running: dict[Watch, None] = {}
        self.is_awake = False
        self._called = threading.Event()
        self._thread: threading.Thread | None = None
        self.size = 0  # bytes of the process when it was last looked at

    def wake(self) -> None:
        self.is_awake = True
        self.size = memory_in_use()
        self._called.set()
        if self._thread is None:
            with self.lock:
                if self._thread is not None:
                    return
                self._thread = threading.Thread(target=self._look, name="expressions", daemon=True)
            self._thread.start()

    def _look(self) -> None:
        idle = 0
        while True:
            for watch in list(self.running):
                try:
                    why = watch.why_over()
                except Exception:  # the question is another's; without the guard, no evaluation would end
                    why = Halted
                if why is not None:
                    watch.interrupt(why)
            idle = 0 if self.running else idle + 1
            if self.running:
                self.look_at_memory(None)
            elif idle > _IDLE_LOOKS:
                # Asleep when nothing runs: a thread that wakes twenty times a second keeps a laptop's
                # processor awake.
                self._called.clear()
                self.is_awake = False
                if not self.running:  # one that began in between would not have called
                    self._called.wait()
                self.is_awake, idle = True, 0
            time.sleep(_SECONDS_PER_LOOK)

    def look_at_memory(self, current: Watch | None) -> None:
        """Ends the evaluation that made most if the process has grown too much; `current` asks for itself."""
        self.size = memory_in_use() or self.size
        running = list(self.running)
        if all(self.size - watch.base <= MOST_MEMORY for watch in running):
            return
        # The process grows, and nobody can say through whom: the one that made most is the best guess.
        largest = max(running, key=lambda watch: watch.made)
        largest.is_excessive = True
        if largest is current:
            raise TooLarge(_TOO_MUCH)
        largest.interrupt(TooLarge)


_SECONDS_PER_LOOK: Final = 0.05
_SECONDS_PER_TURN: Final = 0.1
_SECONDS_BETWEEN_TURNS: Final = 0.001
_IDLE_LOOKS: Final = 20
_SHORT: Final = 0.005  # seconds in which an evaluation cannot grow the process by much
_TOO_MUCH: Final = f"it uses more than {MOST_MEMORY >> 20} MB of memory. Make fewer or smaller values"


def too_large(error: Exception) -> str:
    """What a `TooLarge` says; the guard's own says nothing."""
    return f"The expression is too expensive: {str(error) or _TOO_MUCH}"


def timed_out(bounds: Bounds) -> str:
    return f"Evaluation timeout after {round(bounds.seconds * 1000)} milliseconds. Check for infinite loop"


guard = _Guard()


def _after_fork() -> None:
    global guard  # the guard's thread is not in the child, and its lock may be taken there
    guard = _Guard()


in_forked_children(_after_fork)


class Matching(threading.local):
    """The watch of the evaluation that runs in this thread, or None."""

    watch: Watch | None = None


matching: Final = Matching()
_NO_BOUNDS: Final = Watch(Bounds(seconds=math.inf))


def under_watch(watch: Watch, work: Callable[[], Any]) -> Any:
    """Runs `work` in this thread, under the guard."""
    before = matching.watch
    matching.watch = watch
    try:
        watch.begin()
        return work()
    finally:
        try:
            watch.end()
        except INTERRUPTS:  # raised by the guard at the last moment
            watch.end()
        matching.watch = before


def watching() -> Watch:
    """The watch of the evaluation that runs in this thread."""
    return matching.watch or _NO_BOUNDS
