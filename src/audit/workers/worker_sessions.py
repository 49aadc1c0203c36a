"""The sessions of a worker process: one live client per server and credential, closed at its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, TypeAlias

from ...types.routing import ServerRoute
from ..call import Dispatcher
from ..definitions import Definitions

if TYPE_CHECKING:
    from .remote_call import RemoteCall

Connect: TypeAlias = Callable[[ServerRoute], Dispatcher]
"""Makes the dispatcher for one server, in the worker. Looks up the credential that the route names, and adds
it to the secrets. A module-level function, or a frozen value with ``__call__``, so that it can be sent and so
that equal ones share sessions. Raises `MCPError` if the worker cannot connect to the server."""

_CLOSE_EARLY = 10  # before multiprocessing's own helpers end


class _Sessions:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[Connect, ServerRoute], Dispatcher] = {}

    def dispatcher(self, remote: RemoteCall) -> Dispatcher:
        server = replace(remote.tool.route, tool=None, digest=None)
        with self._lock:
            dispatcher = self._held.get((remote.connect, server)) or remote.connect(server)
            if dispatcher.run != remote.run:
                # The sessions stay; tools are listed again for each run.
                dispatcher = replace(
                    dispatcher,
                    run=remote.run,
                    definitions=Definitions(dispatcher.pool),
                    secrets=dispatcher.secrets.keyed(remote.key),
                    pinning=remote.pinning,
                )
            if not self._held:
                # Processes of multiprocessing do not run atexit functions, but run these at their end.
                Finalize(None, self.close, exitpriority=_CLOSE_EARLY)
            self._held[remote.connect, server] = dispatcher
            return dispatcher

    def close(self) -> None:
        with self._lock:
            held, self._held = self._held, {}
        for dispatcher in held.values():
            dispatcher.pool.close()


_sessions = _Sessions()


def shared_dispatcher(remote: RemoteCall) -> Dispatcher:
    """Finds or makes the dispatcher for the calls of a run at one server in this process.

    Args:
        remote: One of the calls.

    Returns:
        The dispatcher; its sessions are shared by all runs that connect in the same way.

    Raises:
        MCPError: Raised by ``connect``.
    """
    return _sessions.dispatcher(remote)


def _forget() -> None:
    """A forked process must not use the sockets of its parent."""
    global _sessions
    _sessions = _Sessions()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
