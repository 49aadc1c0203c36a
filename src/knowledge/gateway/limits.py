"""The rate limit: a bucket of tokens per key that fills up with time."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class RateLimiter:
    """Counts requests per key, in this process. Threads may share it.

    A key that was quiet may send a minute's worth at once, then as many as come in over time.

    Args:
        now: The clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}
        """Key -> how many requests it may still send, and since when that counts."""

    def wait_for(self, key: str, per_minute: int) -> int:
        """Counts a request of a key.

        Returns:
            0 if it may pass; otherwise the seconds after which the next one may.
        """
        if per_minute <= 0:
            return 0
        with self._lock:
            now = self._now()
            left, since = self._buckets.get(key, (per_minute, now))
            left = min(left + (now - since) * per_minute / 60, per_minute)
            passes = left >= 1
            self._buckets[key] = (left - passes, now)
        return 0 if passes else max(1, math.ceil((1 - left) * 60 / per_minute))
