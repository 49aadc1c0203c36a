"""A cache limited by age and size: for answers of other services, and for sessions of the page."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

V = TypeVar("V")


class TTLCache(Generic[V]):
    """A cache limited by age and size. Threads may share it.

    Args:
        seconds: The time for which a value is kept; 0 for no caching.
        most: The largest number of values; the least recently used values are dropped.
        on_lookup: Called on each lookup, with whether the value was in the cache.
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

    def get(self, key: Hashable) -> V | None:
        """The value of a key; None if there is none, or if it is too old."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None and found[0] <= self._now():
                found = None
            if found is not None:
                self._kept[key] = found  # at the end, as the most recently used value
        if self._on_lookup is not None:
            self._on_lookup(found is not None)
        return None if found is None else found[1]

    def put(self, key: Hashable, value: V) -> None:
        """Keeps a value."""
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = self._now() + self._seconds, value
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        """Forgets the value of a key, if there is one."""
        with self._lock:
            self._kept.pop(key, None)
