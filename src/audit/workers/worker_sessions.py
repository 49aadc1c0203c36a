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
"""Makes what runs the calls at one server, in the worker: looks up the credential that the route names, and
knows it as a secret. A module-level function, or a frozen value with ``__call__``, so that it can travel and
so that equal ones share sessions. Raises `MCPError` where the worker cannot reach the server."""

_CLOSE_EARLY = 10  # before multiprocessing's own helpers go


class _Sessions:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[Connect, ServerRoute], Dispatcher] = {}

    def dispatcher(self, remote: RemoteCall) -> Dispatcher:
        server = replace(remote.tool.route, tool=None, digest=None)
        with self._lock:
            found = self._held.get((remote.connect, server)) or remote.connect(server)
            if found.run != remote.run:
                # The sessions stay; what a server says about its tools is asked once per run.
                found = replace(
                    found,
                    run=remote.run,
                    definitions=Definitions(found.pool),
                    secrets=found.secrets.keyed(remote.key),
                    pinning=remote.pinning,
                )
            if not self._held:
                # At the end of a process that multiprocessing started, too, where atexit is not asked.
                Finalize(None, self.close, exitpriority=_CLOSE_EARLY)
            self._held[remote.connect, server] = found
            return found

    def close(self) -> None:
        with self._lock:
            held, self._held = self._held, {}
        for dispatcher in held.values():
            dispatcher.pool.close()


_sessions = _Sessions()


def shared_dispatcher(remote: RemoteCall) -> Dispatcher:
    """Finds or makes what the calls of a run at one server share in this process.

    Args:
        remote: One of the calls.

    Returns:
        The dispatcher; its sessions are shared by all runs that connect in the same way.

    Raises:
        MCPError: What ``connect`` raises.
    """
    return _sessions.dispatcher(remote)


def _forget() -> None:
    """A forked process must not use the sockets of its parent."""
    global _sessions
    _sessions = _Sessions()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
