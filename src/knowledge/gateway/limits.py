"""How many requests a key may send: a bucket of tokens per key that fills up with time."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SWEEP_EVERY: Final = 1024


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float
    per_minute: int


class RateLimiter:
    """Counts requests per key, in this process. Threads may share it.

    A key that was quiet may send a minute's worth at once, then as many as come in over time.

    Args:
        now: The clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._buckets: dict[str, _Bucket] = {}
        self._count = 0

    def wait_for(self, key: str, per_minute: int) -> int:
        """Counts a request.

        Args:
            key: Who sends it.
            per_minute: How many requests a minute are allowed; 0: any number.

        Returns:
            0 if it may pass; otherwise the seconds after which the next one may.
        """
        if per_minute <= 0:
            return 0
        with self._lock:
            now = self._now()
            self._count += 1
            if self._count % _SWEEP_EVERY == 0:
                self._forget_full_ones(now)
            bucket = self._buckets.setdefault(key, _Bucket(per_minute, now, per_minute))
            grown = bucket.tokens + (now - bucket.at) * per_minute / 60
            bucket.tokens, bucket.at, bucket.per_minute = min(grown, per_minute), now, per_minute
            if bucket.tokens < 1:
                return max(1, math.ceil((1 - bucket.tokens) * 60 / per_minute))
            bucket.tokens -= 1
            return 0

    def _forget_full_ones(self, now: float) -> None:
        self._buckets = {
            key: bucket
            for key, bucket in self._buckets.items()
            if bucket.tokens + (now - bucket.at) * bucket.per_minute / 60 < bucket.per_minute
        }
