"""Keeps answers of services outside for a while, and asks for each of them only once at a time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

V = TypeVar("V")


class TTLCache(Generic[V]):
    """A cache with an age and a size. Threads may share it.

    Errors are not kept, but whoever waited for the same answer gets them, too.

    Args:
        seconds: How long an answer is kept; 0: not at all.
        most: How many are kept; the longest unused go first.
        on_lookup: Told with every question whether the answer was there.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        *,
        seconds: float,
        most: int = 1024,
        on_lookup: Callable[[bool], None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._on_lookup = on_lookup
        self._now = now
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()
        self._asking: dict[Hashable, Future[V]] = {}

    def get(self, key: Hashable, ask: Callable[[], V]) -> V:
        """Gives an answer.

        Args:
            key: What is asked.
            ask: Finds the answer out; runs in this thread, or not at all.

        Raises:
            Exception: Whatever `ask` raises.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept[0] > self._now():
                self._kept.move_to_end(key)
                hit, mine, waiting = True, False, None
            else:
                waiting = self._asking.get(key)
                hit, mine = waiting is not None, waiting is None
                if waiting is None:
                    waiting = self._asking[key] = Future()
        if self._on_lookup is not None:
            self._on_lookup(hit)
        if waiting is None and kept is not None:
            return kept[1]
        assert waiting is not None
        return self._found(key, ask, waiting) if mine else waiting.result()

    def _found(self, key: Hashable, ask: Callable[[], V], future: Future[V]) -> V:
        try:
            value = ask()
        except BaseException as error:
            with self._lock:
                del self._asking[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._asking[key]
            if self._seconds > 0:
                self._kept[key] = (self._now() + self._seconds, value)
                self._kept.move_to_end(key)
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        future.set_result(value)
        return value
