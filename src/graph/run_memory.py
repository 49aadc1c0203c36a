"""Holds a server's runs to a share of memory: what they keep of their nodes' outputs, all together.

The limits of expressions (`expressions.evaluation_limits`) hold for what one evaluation makes; a run that
goes through many nodes keeps what each of them gave.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final, cast

from ..system import memory_in_use

if TYPE_CHECKING:
    from .run_state import History

MOST_HELD: Final = 192 << 20
"""By so many bytes a server may grow through all of its runs, unless its document says otherwise."""

_NODES_PER_LOOK: Final = 8
_BLAMELESS: Final = 16 << 20  # bytes; a run that holds less is not ended, whatever others hold
_MOST_VALUES: Final = 500_000  # that are looked at in one run


class RunMemory:
    """The runs of a server, from which the largest is ended when the process has grown too much.

    Safe to use from several threads. Where the system does not say how large the process is, no run is ended.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        self.most = most
        self._base = memory_in_use()
        self._runs: dict[History, bool] = {}  # whether it has to end
        self._lock = threading.Lock()

    def begin(self, history: History) -> None:
        with self._lock:
            self._runs[history] = False

    def end(self, history: History) -> None:
        with self._lock:
            self._runs.pop(history, None)

    def is_over(self, history: History) -> bool:
        """Whether a run has to end; called before each of its nodes."""
        history = history.outermost
        if self._runs.get(history, False):
            return True
        if len(history) % _NODES_PER_LOOK or memory_in_use() - self._base <= self.most:
            return False
        with self._lock:
            if any(self._runs.values()):
                return self._runs.get(history, False)  # memory is about to become free
            sizes = {one: _size([record.output for record in one.records()]) for one in self._runs}
            largest = max(sizes, key=lambda one: sizes[one], default=None)
            if largest is not None and sizes[largest] > _BLAMELESS:
                self._runs[largest] = True
            return self._runs.get(history, False)


def _size(value: Any) -> int:
    """About how many bytes a value takes; what stands in it twice counts twice."""
    waiting: list[Any] = [value]
    total = seen = 0
    while waiting and seen < _MOST_VALUES:
        part = waiting.pop()
        seen += 1
        total += sys.getsizeof(part)
        if isinstance(part, dict):
            waiting += cast("dict[Any, Any]", part).values()
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)
    return total
