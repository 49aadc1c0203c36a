"""A cache for answers of other services, limited by age and size."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

V = TypeVar("V")


class TTLCache(Generic[V]):
    """A cache limited by age and size. Threads may share it. Errors are not cached.

    Args:
        seconds: The time for which an answer is kept; 0 for no caching.
        most: The largest number of answers; the least recently used answers are dropped.
        on_lookup: Called on each lookup, with whether the answer was in the cache.
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

    def get(self, key: Hashable, ask: Callable[[], V]) -> V:
        """The answer from the cache, or else from `ask`."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found[0] <= self._now():
                found = None
            if found is not None:
                self._kept.move_to_end(key)
        if self._on_lookup is not None:
            self._on_lookup(found is not None)
        if found is not None:
            return found[1]
        answer = ask()
        with self._lock:
            self._kept[key] = self._now() + self._seconds, answer
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return answer
