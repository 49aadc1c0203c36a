"""Ctrl-C as a question that long work asks: the first one stops it in order, the second one at once."""

import os
import signal
import sys
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

_SENT_TWICE_SECONDS = 0.4
_STOPPING = "Stopping. Ctrl-C once more stops at once.\n"
_NEW_LINE = "\r\x1b[2K"  # what the line of a running call showed


class Interrupt:
    """Whether the person wants to stop; the ``is_canceled`` of everything that waits.

    While it is active, Ctrl-C (and a request to terminate) is remembered instead of raised, so that a call in
    flight can be canceled in the protocol's way and finished rows are kept. A second one raises
    KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Tells whether the person wants to stop."""
        return self._since is not None

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._since is not None:
            if now - self._since < _SENT_TWICE_SECONDS:
                return  # to the process and once more to its group, as `timeout` and some starters do
            raise KeyboardInterrupt
        self._since = now
        _say_stopping()


def _say_stopping() -> None:
    """Writes to standard error without the console that everything else is written with.

    A handler runs between any two steps of what it interrupts. In the middle of an import it would import the
    half that is there, fail, and its ImportError can end up as Python's lasting opinion that a folder holds
    no modules; in the middle of a print the stream refuses a second writer.
    """
    with suppress(OSError, ValueError):  # closed, or no file at all
        number = sys.stderr.fileno()
        os.write(number, ((_NEW_LINE if os.isatty(number) else "") + _STOPPING).encode())
