"""Sends answers to a server's requests, in separate threads.

A server that does not read an answer must not block the thread that reads the replies to all calls.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ...types.errors import MCPError
from ..clock import Wait
from ..limits import Timeouts
from ..protocol.jsonrpc import Message, encode

_logger = logging.getLogger(__name__)
_ANSWERING: Final = Timeouts(connect=10, idle=10, total=10)
_MOST_WAITING: Final = 1000
_MOST_THREADS: Final = 16


class AnswerQueue:
    """A queue of answers to one server. Safe for use by many threads at once.

    Its threads run only while there are answers to send.

    Args:
        send: Posts a message under the clocks of a `Wait`.
    """

    def __init__(self, send: Callable[[bytes, Wait], None]) -> None:
        self._send = send
        self._waiting: deque[Message] = deque()
        self._threads = 0
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def put(self, answer: Message) -> None:
        """Adds an answer and returns at once. One that the server does not read is dropped after a while."""
        with self._lock:
            if self._closed.is_set():
                return
            if len(self._waiting) >= _MOST_WAITING:
                _logger.debug("the server asks, but does not take the answers")
                return
            self._waiting.append(answer)
            if self._threads == _MOST_THREADS:
                return
            self._threads += 1
        threading.Thread(target=self._send_all, name="knime-mcp-answer", daemon=True).start()

    def close(self) -> None:
        """Stops sending; answers under way end soon."""
        with self._lock:
            self._closed.set()
            self._waiting.clear()

    def _send_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                answer = self._waiting.popleft()
            try:
                self._send(encode(answer), Wait(_ANSWERING, is_canceled=self._closed.is_set))
            except MCPError as error:
                if not self._closed.is_set():
                    _logger.warning("an answer to the server could not be sent: %s", error.what)
