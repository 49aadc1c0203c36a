"""Hearing of changes of a server's tools in the modern era: ``subscriptions/listen``.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions. A request that is
answered when the server wants to end it; until then notifications come as its reply. One thread per client,
started when a list of tools is kept, and ended with the client.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...types.errors import ConnectError, MCPError, SessionLost, TimedOut
from ..clock import Wait, backoff
from ..limits import LISTENING
from ..protocol.jsonrpc import as_object
from ..protocol.server_requests import ServerRequests
from .conversation import CallInbox, Conversation

_logger = logging.getLogger(__name__)
_ATTEMPTS: Final = 2  # in a row that brought nothing
_STOOD_SECONDS: Final = 10.0  # a proxy that cuts quiet streams after a while does no harm
_JOIN_SECONDS: Final = 1.0


class ToolsWatch:
    """Listens to one conversation until it is stopped or the server ends it.

    Args:
        conversation: The conversation.
        requests: Its capabilities are declared.
        on_changed: Told that the tools may have changed unheard; of changes that are heard the transport's
            inbox is told. Called in a thread of its own; must not raise and must return quickly.
    """

    def __init__(
        self, conversation: Conversation, requests: ServerRequests, on_changed: Callable[[], None]
    ) -> None:
        self._conversation = conversation
        self._requests = requests
        self._on_changed = on_changed
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._wait: Wait | None = None
        self._has_stood = False
        self._thread = threading.Thread(target=self._run, name="knime-mcp-watch", daemon=True)

    def start(self) -> None:
        """Listen, in the background."""
        self._thread.start()

    def serves(self, conversation: Conversation) -> bool:
        """Whether it listens to that conversation, or was refused there."""
        return self._conversation is conversation and (self._thread.is_alive() or not self._has_stood)

    def stop(self) -> None:
        """Stop listening and wait for the thread."""
        self._stopped.set()
        with self._lock:
            wake = self._wait.wake if self._wait is not None else None
            if wake is not None:
                wake()
        if self._thread is not threading.current_thread():  # a notification may be what led here
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        failures = 0
        try:
            while not self._stopped.is_set():
                since = time.monotonic()
                inbox = _WatchInbox(self._requests, self.stop)
                again = self._listen(inbox)
                self._has_stood = self._has_stood or (inbox.heard > 0 and not inbox.is_refused)
                if not again:
                    return
                lively = inbox.heard > 1 or time.monotonic() - since > _STOOD_SECONDS
                failures = 0 if lively else failures + 1
                if failures == _ATTEMPTS or self._stopped.wait(backoff(failures + 1)):
                    return
                self._on_changed()  # nobody has heard what was said meanwhile
        finally:
            if self._has_stood:  # what was kept because of it must not be kept any longer
                self._on_changed()

    def _listen(self, inbox: "_WatchInbox") -> bool:
        """Listen until the end; whether it is worth another attempt."""
        wait = Wait(LISTENING, is_canceled=self._stopped.is_set)
        with self._lock:
            self._wait = wait
        params = {"notifications": {"toolsListChanged": True}}
        try:
            self._conversation.send("subscriptions/listen", params, wait, inbox)
        except SessionLost:
            return False
        except (ConnectError, TimedOut):
            return True
        except MCPError as error:
            _logger.debug("changes of the tools are not heard of: %s", error.what)
            return False
        finally:
            with self._lock:
                self._wait = None  # the connection may serve others from now on
        # A result is the server's good-bye, anything else its refusal.
        return False


class _WatchInbox(CallInbox):
    """Hears whether the server agrees, and that it is there."""

    __slots__ = ("_on_refused", "heard", "is_refused")

    def __init__(self, requests: ServerRequests, on_refused: Callable[[], None]) -> None:
        super().__init__(requests)
        self._on_refused = on_refused
        self.heard = 0
        self.is_refused = False

    def notification(self, method: str, params: Mapping[str, Any]) -> None:
        """See the protocol class."""
        self.heard += 1
        if method == "notifications/subscriptions/acknowledged" and "notifications" in params:
            granted = as_object(params["notifications"])
            if not granted.get("toolsListChanged"):
                self.is_refused = True
                self._on_refused()
