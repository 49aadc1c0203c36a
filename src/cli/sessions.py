"""Makes clients and dispatchers from the options of the command line."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from ..client.mcp_client import MCPClient, SessionPool
from ..tools.node_settings.connection import fill
from ..types.errors import Canceled, ToolNotFound
from .connection_options import how_to_name, is_command, named_server
from .credentials import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from ..client.authorization import Authorization
    from ..client.mcp_client import Progress, Step
    from ..runs.definitions import Definitions
    from ..runs.engine import Run
    from ..runs.one_call import PlannedCall
    from ..tools.provider.provide import Provision, ServerRequest
    from ..types.routing import ServerRoute
    from ..types.tool import MCPTool
    from .command_errors import Interrupt
    from .connection_options import ConnectionOptions


class Sessions:
    """All connections of one command; they are closed at its end.

    Attributes:
        stop: Event that ends calls in flight, like Ctrl-C.

    Args:
        options: The options for reaching servers.
        interrupt: Returns whether the person wants to stop.
        on_progress: Called with the progress that tools report.
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

    # Made on first use, as only calls need it.

    @cached_property
    def definitions(self) -> Definitions:
        """The servers' current definitions of tools."""
        from ..runs.definitions import Definitions

        return Definitions(self.pool)

    @cached_property
    def run(self) -> str:
        """Id of the run that the calls of the command belong to."""
        from ..audit.journal import new_run_id

        return new_run_id()

    def client(self, route: ServerRoute, trace: Callable[[Step], None] | None = None) -> MCPClient:
        """Makes a client, which connects when it is first used.

        Args:
            route: The server.
            trace: Called with every step of connecting.

        Raises:
            SettingInvalid: The route's credential is unknown or cannot be sent, or the route is to a command
                that is not on this command line.
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

    def find_tool(self, route: ServerRoute, name: str) -> MCPTool:
        """Lists a server's tools and finds one by name.

        Args:
            route: The server.
            name: The name that the server knows.

        Returns:
            The tool, with the server's definition and its digest.

        Raises:
            ToolNotFound: There is no tool of that name; suggests similar names, and how to list all tools.
            MCPError: The tools cannot be listed.
        """
        from ..runs.definitions import pinned_tool

        try:
            definition = self.definitions.find(route, name, is_canceled=self.interrupt)
        except ToolNotFound as error:
            meant = f"Did you mean {' or '.join(error.suggestions)}? " if error.suggestions else ""
            error.fix = f"{meant}All tools: knime-mcp list {how_to_name(route)}"
            raise
        return pinned_tool(definition, route, shown_name=definition.name)

    def provide(
        self, routes: Sequence[ServerRoute], *, include: str, exclude: str = "", prefix: str = ""
    ) -> Provision:
        """Lists the tools of several servers; a server that fails does not affect the others.

        Args:
            routes: The servers.
            include: Patterns of the tools to keep, "" for all.
            exclude: Patterns of the tools to leave out.
            prefix: Prefix for their names.

        Raises:
            Canceled: The person stopped the command.
            SettingInvalid: There is no such credential.
        """
        from ..tools.provider.provide import NameFilter, ServerRequest, provide

        for route in routes:
            self.credentials(route.credential)  # looked up here, not in several threads

        def open_client(request: ServerRequest, trace: Callable[[Step], None]) -> MCPClient:
            assert request.route is not None
            return self.client(request.route, trace)

        provision = provide(
            [ServerRequest(row=f"Row{n}", route=route, prefix=prefix) for n, route in enumerate(routes)],
            open_client,
            name_filter=NameFilter(include=include, exclude=exclude),
            is_canceled=self.interrupt,
        )
        if self.interrupt():
            raise Canceled("Canceled while listing tools")
        return provision

    def dispatcher(self, routes: list[ServerRoute], save_dir: Path | None = None) -> Run:
        """Makes the dispatcher that runs and records the calls.

        Args:
            routes: The servers; their credentials are kept out of all records.
            save_dir: Folder for pictures and other blobs; None: they are not saved.
        """
        from ..audit.secrets import SecretMarker
        from ..runs.definitions import Pinning
        from ..runs.engine import Run

        for route in routes:
            self.credentials(route.credential)
        variables = (secret for server in self._options.servers for secret in server.secrets())
        return Run(
            id=self.run,
            pool=self.pool,
            definitions=self.definitions,
            secrets=SecretMarker([*self.credentials.secrets, *variables]),
            pinning=Pinning.IGNORE,  # the definition was just read
            save_blob=_saver(save_dir) if save_dir else None,
            is_canceled=self._is_canceled,
            on_progress=self._on_progress,
        )

    def _login(self, route: ServerRoute) -> Authorization | None:
        """The login that ``knime-mcp login`` stored for a server, unless a credential was chosen."""
        if route.credential is not None or urlsplit(route.url).scheme != "https":
            return None
        from .oauth_login import stored_login

        return stored_login(route.url, network=self._options.network)

    def _is_canceled(self) -> bool:
        return self.interrupt() or self.stop.is_set()


def _saver(folder: Path) -> Callable[[PlannedCall, int, bytes, str], str]:
    from ..runs.engine import save_blob

    fix = "Make room, or name another folder with --save-dir"

    def save(call: PlannedCall, number: int, data: bytes, mime_type: str) -> str:
        name = f"row-{call.input_row}-{number + 1}" if call.input_row is not None else f"result-{number + 1}"
        return save_blob(folder, name, data, mime_type, fix=fix)

    return save
