"""One thread in which all workflows run, whoever asks for them.

KNIME runs a workflow in the context of the thread that executes the node, and one at a time. Tools are called
from many threads, so they hand workflows over to that thread.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ...types.errors import Canceled

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...audit.dispatch import WorkflowRunner
    from ...types.tool import WorkflowTool


class HostThread:
    """The thread that makes it, as a place to run workflows.

    Args:
        wake: Called from any thread when there is something to do; must bring the host's thread to call
            `run_pending`, such as ``lambda: loop.call_soon_threadsafe(host.run_pending)``.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._thread = threading.get_ident()
        self._pending: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._closed = False
        self._lock = threading.Lock()

    def runner(self, run_workflow: WorkflowRunner) -> WorkflowRunner:
        """Makes a function that runs workflows in the host's thread.

        Args:
            run_workflow: Runs a workflow; wants to be called in the host's thread.

        Returns:
            The same for all threads.
        """

        def run(
            tool: WorkflowTool, arguments: dict[str, Any], tables: tuple[Any, ...]
        ) -> tuple[str, tuple[Any, ...]]:
            return self.call(lambda: run_workflow(tool, arguments, tables))

        return run

    def teller(self, tell: Callable[[WorkflowTool], str | None]) -> Callable[[WorkflowTool], str | None]:
        """Makes a function that says something about workflows from the host's thread.

        Args:
            tell: Says it; wants to be called in the host's thread.

        Returns:
            The same for all threads.
        """
        return lambda tool: self.call(lambda: tell(tool))

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls a function in the host's thread and waits for it.

        Args:
            function: What to call.

        Returns:
            What it gives.

        Raises:
            Canceled: The host was closed before it came to it.
        """
        if threading.get_ident() == self._thread:
            return function()
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise Canceled("The run is over")
            self._pending.append((future, function))
        self._wake()
        return future.result()

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
