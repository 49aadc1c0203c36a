"""Keeps answers of services outside for a while, and asks for each of them only once at a time."""

from __future__ import annotations

import math
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
        self._kept: OrderedDict[Hashable, tuple[float, Future[V]]] = OrderedDict()

    def get(self, key: Hashable, ask: Callable[[], V]) -> V:
        """Gives an answer.

        Args:
            key: What is asked.
            ask: Finds the answer out; runs in this thread, or not at all.

        Raises:
            Exception: Whatever `ask` raises.
        """
        with self._lock:
            until, answer = self._kept.get(key) or (-math.inf, Future[V]())
            hit = until > self._now()
            if not hit:
                answer = Future[V]()
                self._kept[key] = math.inf, answer
            self._kept.move_to_end(key)
        if self._on_lookup is not None:
            self._on_lookup(hit)
        if not hit:
            self._find_out(key, ask, answer)
        return answer.result()

    def _find_out(self, key: Hashable, ask: Callable[[], V], answer: Future[V]) -> None:
        seconds = 0.0
        try:
            answer.set_result(ask())
            seconds = self._seconds
        except BaseException as error:
            answer.set_exception(error)
            raise
        finally:
            with self._lock:
                self._kept[key] = self._now() + seconds, answer
                if not seconds:
                    del self._kept[key]
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
