"""Sessions of the page: a visitor sends a key once, and afterwards a cookie in its place.

The cookie holds a random name and not the key, because browsers send a cookie to every port of a host.
Sessions are kept in memory only, so a restart signs out all visitors.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = 12 * 3600
_MOST: Final = 10_000


class Sessions:
    """The open sessions by name. Threads may share this object.

    Args:
        now: The clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, key_id: str) -> str:
        """Opens a session for a key and returns its name, which is a secret of the visitor."""
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._open[name] = (key_id, self._now() + SECONDS)
            while len(self._open) > _MOST:
                self._open.popitem(last=False)
        return name

    def key_id(self, name: str) -> str | None:
        """The key id of a session; None if the session is unknown or has ended."""
        with self._lock:
            key_id, until = self._open.get(name, ("", 0.0))
            if key_id and until > self._now():
                return key_id
            self._open.pop(name, None)
            return None

    def end(self, name: str) -> None:
        """Ends a session, if there is one."""
        with self._lock:
            self._open.pop(name, None)
