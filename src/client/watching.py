"""Listens for changes of a server's tools in the modern era: ``subscriptions/listen``.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions. The server
answers the request only to end the subscription; until then notifications arrive on the reply's stream. There
is one thread per client, started when a list of tools is cached and ended with the client.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..types.errors import ConnectError, MCPError, SessionLost, TimedOut
from .clock import backoff
from .conversation import CallInbox, Conversation
from .protocol.jsonrpc import as_object
from .protocol.server_requests import ServerRequests
from .transports.listener import Listener

_logger = logging.getLogger(__name__)


class ToolsWatch(Listener):
    """Listens to one conversation until `stop` is called or the server ends the subscription.

    Args:
        conversation: The conversation.
        requests: Answers the server's requests; its capabilities are declared.
        on_changed: Called when changes may have been missed; announced changes go to the transport's inbox.
            Called in the listening thread; must not raise and must return quickly.
    """

    def __init__(
        self, conversation: Conversation, requests: ServerRequests, on_changed: Callable[[], None]
    ) -> None:
        super().__init__("knime-mcp-watch")
        self._conversation = conversation
        self._requests = requests
        self._on_changed = on_changed
        self._has_stood = False

    def serves(self, conversation: Conversation) -> bool:
        """Returns whether this watch listens to that conversation, or was refused there."""
        return self._conversation is conversation and (self._thread.is_alive() or not self._has_stood)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                since = time.monotonic()
                inbox = _WatchInbox(self._requests, self.stop)
                again = self._listen(inbox)
                self._has_stood = self._has_stood or (inbox.heard > 0 and not inbox.is_refused)
                if not again:
                    return
                gives_up = self._gives_up(since=since, heard=inbox.heard > 1)
                if gives_up or self._stopped.wait(backoff(self._failures + 1)):
                    return
                self._on_changed()  # changes may have been announced meanwhile
        finally:
            if self._has_stood:  # from now on a cached list may be out of date
                self._on_changed()

    def _listen(self, inbox: "_WatchInbox") -> bool:
        """Listens until the subscription ends. Returns whether to try again."""
        params = {"notifications": {"toolsListChanged": True}}
        try:
            with self._waiting() as wait:
                self._conversation.send("subscriptions/listen", params, wait, inbox)
        except SessionLost:
            return False
        except (ConnectError, TimedOut):
            return True
        except MCPError as error:
            _logger.debug("changes of the tools are not heard of: %s", error.what)
            return False
        # With a result the server ends the subscription, with anything else it refuses it.
        return False


class _WatchInbox(CallInbox):
    """Reads from the server's acknowledgement whether it will announce changes of the tools."""

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
