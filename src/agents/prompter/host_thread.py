"""Runs an agent's workflow tools in the thread in which KNIME executes the agent's node.

KNIME's Python side could run them from any thread (`_execute_tool` has a connection per thread, and KNIME
sets the node's context itself). But only for the node's thread does KNIME know that the node is waiting, and
gives its place in the thread pool to the workflow's nodes. From other threads, as many agents as the pool has
places would block each other forever. While a workflow runs, KNIME checks its cancel button itself, and the
prompts' other calls and clocks go on in their threads.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ...types.errors import Canceled

if TYPE_CHECKING:
    from collections.abc import Callable


P = ParamSpec("P")
T = TypeVar("T")


class HostThread:
    """Runs functions in the thread that creates the object: the host's thread.

    Args:
        wake: Called from any thread when a function is pending; must make the host's thread call
            `run_pending`, such as the ``set`` of an event for which the thread waits.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._thread = threading.get_ident()
        self._pending: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._closed = False
        self._lock = threading.Lock()

    def here(self, function: Callable[P, T]) -> Callable[P, T]:
        """Wraps a function so that calls from any thread run in the host's thread.

        Args:
            function: The function, such as the workflow runner.

        Returns:
            A function that runs the given one in the host's thread and waits for it; raises `Canceled` if the
            host is closed before.
        """

        def call(*args: P.args, **options: P.kwargs) -> T:
            if threading.get_ident() == self._thread:
                return function(*args, **options)
            future: Future[T] = Future()
            with self._lock:
                if self._closed:
                    raise Canceled("The run is over")
                self._pending.append((future, partial(function, *args, **options)))
            self._wake()
            return future.result()

        return call

    def run_pending(self) -> None:
        """Runs the pending functions one after the other. Call it in the host's thread only."""
        while self._pending:
            future, function = self._pending.popleft()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise

    def close(self) -> None:
        """Refuses further calls; pending ones raise `Canceled`."""
        with self._lock:
            self._closed = True
            pending, self._pending = list(self._pending), deque()
        for future, _ in pending:
            future.set_exception(Canceled("The run is over"))
