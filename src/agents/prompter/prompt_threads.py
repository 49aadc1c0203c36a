"""Answers prompts in parallel threads; callbacks and workflows run in the calling thread."""

from __future__ import annotations

import queue
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from ...types.errors import Canceled
from .host_thread import HostThread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ..run.events import AgentEvent
    from .prompter import Answered, Prompt

_POLL_SECONDS: Final = 0.1


def answer_prompts(
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
        ask: Answers one prompt, in any thread, see `Prompter.ask`.
        concurrency: The number of prompts at a time.
        is_canceled: Called in the calling thread.
        on_event: Called with the position of the prompt and the event, in the calling thread.

    Yields:
        The answers, in the order of the prompts; after a cancel only the finished ones.

    Raises:
        Canceled: The run was canceled; all prompts have ended by then.
        Exception: Raised by `ask`.
    """
    stop, wake = threading.Event(), threading.Event()
    events: queue.SimpleQueue[tuple[int, AgentEvent]] = queue.SimpleQueue()
    host = HostThread(wake.set)

    def tell(number: int, event: AgentEvent) -> None:
        events.put((number, event))
        wake.set()

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
                host.close()  # no further workflow begins
            wake.wait(_POLL_SECONDS)
            wake.clear()

    with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="prompt") as executor:
        futures = deque(executor.submit(work, number, prompt) for number, prompt in enumerate(prompts))
        for future in futures:
            future.add_done_callback(lambda _: wake.set())
        try:
            canceled: Canceled | None = None
            while futures:  # yielded answers are released: conversations may be long
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
    """Sets the event `stop` when a prompt raises, so that no other prompt begins."""
    try:
        yield
    except BaseException:
        stop.set()
        raise
