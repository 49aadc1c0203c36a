"""Prompts, each in a thread of its own; what belongs to the host stays in the calling thread.

Workflows run in the thread in which KNIME executes the node, though its Python side could call from any
(`_execute_tool` has a connection per thread, and KNIME pushes the node's context itself): only there does
KNIME know that the node merely waits, and gives the place in its thread pool to the workflow's nodes. From
another thread, as many agents as the pool has places would wait for each other for ever. While a workflow
runs, KNIME itself looks at its cancel button, and the prompts' other calls and clocks go on in their threads.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ...types.errors import Canceled

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ..run.events import AgentEvent
    from .prompter import Answered, Prompt

P = ParamSpec("P")
T = TypeVar("T")
_POLL_SECONDS: Final = 0.1


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


def answers(
    prompts: Sequence[Prompt],
    ask: Callable[..., Answered],
    *,
    concurrency: int,
    is_canceled: Callable[[], bool],
    on_event: Callable[[int, AgentEvent], None],
) -> Generator[Answered]:
    """Answers prompts, several at a time. Workflows run in the calling thread.

    Args:
        prompts: The prompts.
        ask: Answers one of them in any thread, see `Prompter.ask`.
        concurrency: How many at a time.
        is_canceled: Asked in the calling thread.
        on_event: Is told the position of the prompt and what happens, in the calling thread.

    Yields:
        The answers, in the order of the prompts; after a cancel those that were finished.

    Raises:
        Canceled: The person stopped it; all prompts have ended then.
        Exception: Whatever `ask` raises.
    """
    stop, busy = threading.Event(), threading.Event()
    events: queue.SimpleQueue[tuple[int, AgentEvent]] = queue.SimpleQueue()
    host = HostThread(busy.set)

    def tell(number: int, event: AgentEvent) -> None:
        events.put((number, event))
        busy.set()

    def work(number: int, prompt: Prompt) -> Answered:
        if stop.is_set():
            raise Canceled("The run was canceled")
        with _stops_others(stop):
            return ask(prompt, is_canceled=stop.is_set, on_event=partial(tell, number), host=host)

    def wait_for(future: Future[Answered]) -> Answered:
        while True:
            done = future.done()
            while not events.empty():
                on_event(*events.get())
            host.run_pending()
            if done:
                return future.result()
            if is_canceled():
                stop.set()
                host.close()  # no workflow begins any more
            busy.wait(_POLL_SECONDS)
            busy.clear()

    with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="prompt") as executor:
        futures = deque(executor.submit(work, number, prompt) for number, prompt in enumerate(prompts))
        for future in futures:
            future.add_done_callback(lambda _: busy.set())
        try:
            canceled: Canceled | None = None
            while futures:  # what was handed out is let go: conversations may be long
                try:
                    answered = wait_for(futures.popleft())
                except Canceled as error:
                    canceled = canceled or error
                    stop.set()
                    host.close()
                else:
                    yield answered
            if canceled is not None:
                raise canceled
        finally:
            stop.set()
            host.close()
            executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _stops_others(stop: threading.Event) -> Generator[None]:
    """What one prompt raises ends the run, and in this thread no other prompt begins."""
    try:
        yield
    except BaseException:
        stop.set()
        raise
