"""Prompts, each in a thread of its own; what belongs to the host stays in the calling thread."""

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
    """A context for one prompt: an error in it ends the run, and no other prompt begins."""
    try:
        yield
    except BaseException:
        stop.set()
        raise
