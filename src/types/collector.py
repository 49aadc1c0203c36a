"""Python's garbage collector, put off while very many values are made at once.

It looks at all young values whenever some hundred more were made, and at everything whenever the old ones
have grown by a quarter. Where a large JSON text or a column becomes values, all of them stay, nothing is
found, and the time grows faster than the number of values. Reference counting goes on: only cycles wait.
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
"""After that a pause is not joined: blocks that overlap again and again would keep it off for good."""


class _Pauses:
    """Counts the threads that want a pause; the last one turns the collector on again, if it was on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._began = 0.0
        self._was_on = False

    def begin(self) -> bool:
        """Returns whether the pause is joined, and has to be left."""
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
