"""Handles Ctrl-C: the first one ends long work in order, the second one at once."""

import os
import signal
import sys
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

_SENT_TWICE_SECONDS = 0.4
_STOPPING = "Stopping. Ctrl-C once more stops at once.\n"
_NEW_LINE = "\r\x1b[2K"  # clears the line of a running call


class Interrupt:
    """A callable that returns whether the person wants to stop; the ``is_canceled`` of everything that waits.

    While it is active, Ctrl-C and SIGTERM are remembered instead of raised, so that a call in flight can be
    canceled by the protocol and finished rows are kept. The second signal raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Returns whether the person wants to stop."""
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
                return  # sent to the process and to its group, as by `timeout`
            raise KeyboardInterrupt
        self._since = now
        _say_stopping()


def _say_stopping() -> None:
    """Writes to standard error directly, without the console.

    A signal handler may interrupt an import or a print. So it must not import anything, as a half-imported
    module could stay broken, and must not use a stream that is in use, which refuses a second writer.
    """
    with suppress(AttributeError, OSError, ValueError):  # closed, or not a file
        number = sys.stderr.fileno()
        os.write(number, ((_NEW_LINE if os.isatty(number) else "") + _STOPPING).encode())
