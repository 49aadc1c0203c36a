"""Sessions of servers that ask and log: what they say during a call goes to the client of that call."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..client.protocol.messages import INVALID_PARAMS, RpcError
from ..yaml_text import as_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from ..client.mcp_client import MCPClient
    from .publications import Publication
    from .run_control import RunClient
    from .run_state import RunState

_MOST_KEPT: Final = 4  # sessions of a server that wait for the next call

_LOG_LEVEL: Final = {"io.modelcontextprotocol/logLevel": "debug"}
"""Asks a server of 2026-07-28 for its logs, in the ``_meta`` of a call; the client chooses among them."""


def nobody(_params: Mapping[str, Any]) -> RpcError:
    """Answers a question that no client can be asked."""
    return RpcError(INVALID_PARAMS, "There is no client that could be asked")


class ForwardingSessions:
    """The sessions with one server, each for one call at a time, so that nobody gets what is not for them.

    Safe to use from several threads.
    """

    def __init__(self, connect: Callable[..., MCPClient], publication: Publication) -> None:
        self._connect = connect
        self._publication = publication
        self._free: list[ForwardingSession] = []
        self._used: set[ForwardingSession] = set()
        self._lock = threading.Lock()
        self.meta = _LOG_LEVEL if publication.logs else None

    def connect_for_nobody(self, **options: Any) -> MCPClient:
        """A session without a client; servers may list some tools only to those that can be asked."""
        asked = {"elicitation": nobody, "sampling": nobody} if self._publication.questions else {}
        return self._connect(**asked, **options)

    @contextmanager
    def session(self, run: RunState, client: RunClient) -> Generator[MCPClient]:
        """A session that asks and tells the client of a run, for the duration of the block."""
        questions = (
            client.capabilities.keys() & {"elicitation", "sampling"} if self._publication.questions else ()
        )
        session = self._taken(frozenset(questions))
        session.run, session.to = run, client
        try:
            yield session.mcp
        finally:
            # First of all: what the server still says must not reach the client of the next call.
            session.run = session.to = None
            with self._lock:
                self._used.discard(session)
                is_kept = len(self._free) < _MOST_KEPT
                if is_kept:
                    self._free.append(session)
            if not is_kept:
                session.mcp.close()

    def _taken(self, questions: frozenset[str]) -> ForwardingSession:
        with self._lock:
            # A session has told its server once what can be asked, so it fits only clients that can be
            # asked the same. The last one that was used is the least likely to have ended.
            found = next((free for free in reversed(self._free) if free.questions == questions), None)
            if found is None:
                found = ForwardingSession(self._connect, questions, logs=self._publication.logs)
            else:
                self._free.remove(found)
            self._used.add(found)
            return found

    def close(self) -> None:
        with self._lock:
            sessions, self._free = [*self._free, *self._used], []
        for session in sessions:
            session.mcp.close()


class ForwardingSession:
    """A session; while it is in use, it has the `run` that uses it, and the client `to` whom it speaks."""

    def __init__(self, connect: Callable[..., MCPClient], questions: frozenset[str], *, logs: bool) -> None:
        self.questions = questions
        self.run: RunState | None = None
        self.to: RunClient | None = None
        self.mcp = connect(
            elicitation=partial(self._ask, "elicitation/create")
            if "elicitation" in questions
            else "unsupported",
            sampling=partial(self._ask, "sampling/createMessage") if "sampling" in questions else None,
            on_notification=self._hear if logs else None,
        )

    def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | RpcError:
        run, client = self.run, self.to
        if run is None or client is None:
            return nobody(params)
        modes = as_mapping(client.capabilities.get("elicitation"))
        # https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#capabilities: servers
        # must not ask in a mode that the client has not declared.
        if params.get("mode", "form") == "url" and method == "elicitation/create" and "url" not in modes:
            return RpcError(INVALID_PARAMS, "The client does not open pages")
        with run.clock.stopped():  # a person's time is not the run's
            return client.ask(method, params)

    def _hear(self, method: str, params: Mapping[str, Any]) -> None:
        client = self.to
        if method == "notifications/message" and client is not None:
            client.tell(method, params)
