"""A thread that listens to messages that a server sends unasked, until `stop` is called."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from ..clock import Wait
from ..limits import LISTENING

_ATTEMPTS: Final = 2  # attempts in a row without a message
_STOOD_SECONDS: Final = 10.0  # a longer attempt is no failure: proxies cut quiet streams after a while
_JOIN_SECONDS: Final = 1.0


class Listener:
    """Base of background listeners; `_run` is the thread's work.

    Args:
        name: The thread's name.
    """

    def __init__(self, name: str) -> None:
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._wait: Wait | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops listening; the thread ends soon."""
        self._stopped.set()
        with self._lock:
            wake = self._wait.wake if self._wait is not None else None
            if wake is not None:
                wake()

    def close(self) -> None:
        """Stops listening, and waits for the thread."""
        self.stop()
        if self._thread is not threading.current_thread():  # a message's handler may close the listener
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        raise NotImplementedError

    @contextmanager
    def _waiting(self) -> Generator[Wait]:
        """A context with the clocks of one attempt, which ends when `stop` is called."""
        wait = Wait(LISTENING, is_canceled=self._stopped.is_set)
        with self._lock:
            self._wait = wait
        try:
            yield wait
        finally:
            with self._lock:
                self._wait = None  # other requests may use the connection from now on

    def _gives_up(self, *, since: float, heard: bool) -> bool:
        """Returns whether to stop trying: too many short attempts in a row brought nothing."""
        lively = heard or time.monotonic() - since > _STOOD_SECONDS
        self._failures = 0 if lively else self._failures + 1
        return self._failures == _ATTEMPTS
