"""Pauses Python's garbage collector while very many values are created at once.

The collector checks all young values after some hundred new ones, and all values whenever the old ones have
grown by a quarter. While a large JSON text or a column is read, it finds no garbage, and its time grows
faster than the number of values. Reference counting goes on; only cycles are freed later.
"""

from __future__ import annotations

import gc
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


LONGEST_SECONDS = 0.5
"""A block that begins later than this does not extend a pause, as overlapping blocks would never end it."""


class _Pauses:
    """Counts the threads that want a pause; the last one turns the collector on again, if it was on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._began = 0.0
        self._was_on = False

    def begin(self) -> bool:
        """Begins or joins a pause; returns False if the pause is too old to join. Then do not call `end`."""
        with self._lock:
            now = time.monotonic()
            if not self._count:
                self._began = now
                self._was_on = gc.isenabled()
                gc.disable()
            elif now - self._began > LONGEST_SECONDS:
                return False
            self._count += 1
            return True

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._was_on:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def collector_paused() -> Generator[None]:
    """Pauses the collector of the whole process for the block, which must be short and not wait for anything.

    Blocks may be nested, and run in several threads. A collector that was off before stays off.
    """
    joined = _pauses.begin()
    try:
        yield
    finally:
        if joined:
            _pauses.end()
