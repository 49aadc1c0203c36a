"""Runs an agent's workflow tools in KNIME: in the agent's own workflow, in the node's thread.

They run in the thread in which KNIME executes the node, though its Python side could call from any
(`_execute_tool` has a connection per thread, and KNIME pushes the node's context itself): only there does
KNIME know that the node merely waits, and gives the place in its thread pool to the workflow's nodes. From
another thread, as many agents as the pool has places would wait for each other for ever. While a workflow
runs, KNIME itself looks at its cancel button, and the prompts' other calls and clocks go on in their threads.
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
    """The thread that makes it, as a place to run workflows.

    Args:
        wake: Called from any thread when there is something to do; must bring the host's thread to call
            `run_pending`, such as the ``set`` of an event that it waits for.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._thread = threading.get_ident()
        self._pending: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._closed = False
        self._lock = threading.Lock()

    def here(self, function: Callable[P, T]) -> Callable[P, T]:
        """Makes a function for all threads of one that wants to be called in the host's thread.

        Args:
            function: Such as what runs workflows.

        Returns:
            What calls it there and waits for it; raises `Canceled` if the host is closed before it comes to
            it.
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
        """Runs what waits, one after the other. To be called in the host's thread only."""
        while self._pending:
            future, function = self._pending.popleft()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise

    def close(self) -> None:
        """Ends waiting: whoever still waits gets `Canceled`."""
        with self._lock:
            self._closed = True
            pending, self._pending = list(self._pending), deque()
        for future, _ in pending:
            future.set_exception(Canceled("The run is over"))
