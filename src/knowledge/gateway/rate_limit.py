"""The rate limit: a token bucket per key, which fills up over time."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class RateLimiter:
    """Counts requests per key, in this process. Threads may share it.

    After a pause, a client may send the requests of one minute at once; then it has to keep to the rate.

    Args:
        now: The clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}
        """The number of requests left, and the time of that count, by key."""

    def wait_for(self, key: str, per_minute: int) -> int:
        """Counts a request with this key.

        Returns:
            0 if the request is allowed, otherwise the number of seconds until the next one is.
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
