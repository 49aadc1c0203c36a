"""A thread that listens to what a server sends unasked, until it is stopped."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from ..clock import Wait
from ..limits import LISTENING

_ATTEMPTS: Final = 2  # in a row that brought nothing
_STOOD_SECONDS: Final = 10.0  # a proxy that cuts quiet streams after a while does no harm
_JOIN_SECONDS: Final = 1.0


class Listener:
    """Base of what listens in the background: `_run` is the thread.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._wait: Wait | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Listens from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Listens no more; the thread follows soon."""
        self._stopped.set()
        with self._lock:
            wake = self._wait.wake if self._wait is not None else None
            if wake is not None:
                wake()

    def close(self) -> None:
        """Listens no more, and waits for the thread."""
        self.stop()
        if self._thread is not threading.current_thread():  # what was heard may be what led here
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        raise NotImplementedError

    @contextmanager
    def _waiting(self) -> Generator[Wait]:
        """The clocks of one attempt, which ends when `stop` is called."""
        wait = Wait(LISTENING, is_canceled=self._stopped.is_set)
        with self._lock:
            self._wait = wait
        try:
            yield wait
        finally:
            with self._lock:
                self._wait = None  # the connection may serve others from now on

    def _gives_up(self, *, since: float, heard: bool) -> bool:
        """Returns whether another attempt is not worth it, after one that began then."""
        lively = heard or time.monotonic() - since > _STOOD_SECONDS
        self._failures = 0 if lively else self._failures + 1
        return self._failures == _ATTEMPTS
