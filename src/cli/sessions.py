"""From the command line's options to clients, and to what runs and records calls."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from ..tools.credentials import fill
from ..tools.mcp_client import MCPClient
from ..tools.session_pool import SessionPool
from .credentials import Credentials
from .stdio import is_command, named_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from ..audit.definitions import Definitions
    from ..audit.dispatch import Call, Dispatcher
    from ..tools.auth import Authorization
    from ..tools.mcp_client import Progress, Step
    from ..types.routing import ServerRoute
    from .interrupt import Interrupt
    from .options import ConnectionOptions


class Sessions:
    """All connections of one command; closes them at its end.

    Attributes:
        stop: Set to tell calls in flight to end, as Ctrl-C does.

    Args:
        options: How to reach servers.
        interrupt: Whether the person wants to stop.
        on_progress: Is told what tools report while they run.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        interrupt: Interrupt,
        *,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.interrupt = interrupt
        self.stop = threading.Event()
        self.credentials = Credentials(options)
        self.pool = SessionPool(self.client)
        self._options = options
        self._on_progress = on_progress

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pool.close()

    # What only calls need: a list of tools does without.

    @cached_property
    def definitions(self) -> Definitions:
        """The tools as servers define them now."""
        from ..audit.definitions import Definitions

        return Definitions(self.pool)

    @cached_property
    def run(self) -> str:
        """Id of the run that the calls of the command belong to."""
        from ..audit.journal import new_run_id

        return new_run_id()

    def client(self, route: ServerRoute, trace: Callable[[Step], None] | None = None) -> MCPClient:
        """Makes a client, which connects to nobody yet.

        Args:
            route: The server.
            trace: Is told every step of connecting.

        Raises:
            SettingInvalid: The route's credential is unknown, or cannot be sent that way; or the route is to
                a command that is not on this command line.
        """
        if is_command(route):
            return MCPClient(
                stdio=named_server(route, self._options.servers),
                protocol_version=self._options.protocol,
                timeouts=self._options.timeouts,
                trace=trace,
            )
        filled = fill(route, self.credentials(route.credential), network=self._options.network)
        return MCPClient(
            filled.url,
            auth=filled.auth or self._login(route),
            headers=filled.headers,
            transport=route.transport,
            protocol_version=self._options.protocol,
            timeouts=self._options.timeouts,
            network=self._options.network,
            trace=trace,
        )

    def dispatcher(self, routes: list[ServerRoute], save_dir: Path | None = None) -> Dispatcher:
        """Makes what runs and records the calls.

        Args:
            routes: The servers; their credentials are kept out of all records.
            save_dir: Where to save pictures and other blobs; None keeps none.
        """
        from ..audit.definitions import Pinning
        from ..audit.dispatch import Dispatcher
        from ..audit.secrets import SecretMarker

        for route in routes:
            self.credentials(route.credential)
        variables = (secret for server in self._options.servers for secret in server.secrets())
        return Dispatcher(
            run=self.run,
            pool=self.pool,
            definitions=self.definitions,
            secrets=SecretMarker([*self.credentials.secrets, *variables]),
            pinning=Pinning.IGNORE,  # the definition was read a moment ago
            save_blob=_saver(save_dir) if save_dir else None,
            is_canceled=self._is_canceled,
            on_progress=self._on_progress,
        )

    def _login(self, route: ServerRoute) -> Authorization | None:
        """What ``knime-mcp login`` left for a server that is not called with a credential."""
        if route.credential is not None or urlsplit(route.url).scheme != "https":
            return None
        from .oauth_login import stored_login

        return stored_login(route.url, network=self._options.network)

    def _is_canceled(self) -> bool:
        return self.interrupt() or self.stop.is_set()


def _saver(folder: Path) -> Callable[[Call, int, bytes, str], str]:
    from ..tools.caller.blobs import save_blob

    fix = "Make room, or name another folder with --save-dir"

    def save(call: Call, number: int, data: bytes, mime_type: str) -> str:
        name = f"row-{call.input_row}-{number + 1}" if call.input_row is not None else f"result-{number + 1}"
        return save_blob(folder, name, data, mime_type, fix=fix)

    return save
