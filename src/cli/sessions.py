"""Makes clients, and the run of a command, from the options of the command line.

Secrets come from the environment or the system's keyring; they are never on the command line itself, where
every program on the machine could read them.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from ..client.mcp_client import MCPClient
from ..tools.node_settings.connection import KEYRING_SERVICE, Credential, fill, keyring_credential
from ..types.errors import Canceled, SettingInvalid, ToolNotFound
from ..types.routing import server_labels
from .connection_options import ConnectionOptions, is_command, started_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from ..client.authorization import Authorization
    from ..client.mcp_client import Progress, Step
    from ..client.transports.stdio_server import StdioServer
    from ..runs.call_values import PlannedCall
    from ..runs.engine import Run
    from ..runs.server_configs import ServerConfig
    from ..runs.server_questions import Answerers, ServerQuestions
    from ..tools.provider.provide import Provision, ServerRequest
    from ..types.routing import ServerRoute
    from ..types.tool import MCPTool
    from .connection_options import ConnectionOptions


class CommandSessions:
    """All connections of one command and its `run`; both are ended at its end.

    `stop` ends calls in flight, like Ctrl-C; `on_progress` is called with the progress that tools report,
    `questions` with what servers ask, where somebody can be asked.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        interrupt: Callable[[], bool],
        *,
        on_progress: Callable[[Progress], None] | None = None,
        questions: ServerQuestions | None = None,
    ) -> None:
        self.interrupt = interrupt
        self.questions = questions
        self.stop = threading.Event()
        self.credentials = Credentials(options)
        self._options = options
        self._on_progress = on_progress

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Without making it for that: `run` is made when it is first used.
        if "run" in vars(self):
            try:
                self.run.__exit__(kind, error, trace)
            finally:
                self.run.pool.close()

    @cached_property
    def run(self) -> Run:
        """The run that the calls of the command belong to. Made on first use, as only calls need it."""
        from ..runs.checked_calls import Pinning
        from ..runs.engine import new_run

        variables = [secret for server in self._options.servers for secret in server.secrets()]
        if self._options.named:
            from ..runs.server_configs import secrets_of

            variables += [secret for config in self._options.named.values() for secret in secrets_of(config)]
        secrets = [*self.credentials.secrets, *variables]
        run = new_run(self.client, secrets=secrets, named=self._options.secret_argument or ())
        run.pinning = Pinning.IGNORE  # the definition was just read
        run.is_canceled = lambda: self.interrupt() or self.stop.is_set()
        run.on_progress = self._on_progress
        return run

    def client(self, route: ServerRoute, trace: Callable[[Step], None] | None = None) -> MCPClient:
        """Makes a client, which connects when it is first used; ``trace`` is called with every step of that.

        Raises `SettingInvalid` if the credential is unknown or cannot be sent, or the route is to a command
        that is not on this command line.
        """
        answerers: Answerers = {} if self.questions is None else self.questions.answerers(route)
        named = self._options.named.get(route.url)
        if is_command(route):
            return MCPClient(
                stdio=self._started(route, named),
                protocol_version=self._options.protocol,
                timeouts=self._options.timeouts,
                trace=trace,
                **answerers,
            )
        filled = fill(route, self.credentials(route.credential), network=self._options.network)
        if named is not None and named.kind == "url":
            # The route has no query, in which a secret may stand: see `ConnectionOptions.by_name`.
            filled = replace(
                filled,
                url=named.url.partition("#")[0],
                headers={**filled.headers, **named.headers},
                secrets=(*filled.secrets, *named.taken),
            )
        # The person's own header wins over a stored login, which would replace it.
        is_signed = any(name.lower() == "authorization" for name in filled.headers)
        return filled.client(
            None if is_signed or filled.auth else self._login(route),
            protocol_version=self._options.protocol,
            timeouts=self._options.timeouts,
            network=self._options.network,
            trace=trace,
            **answerers,
        )

    def _started(self, route: ServerRoute, named: ServerConfig | None) -> StdioServer:
        if named is None or named.kind == "url":
            return started_server(route, self._options.servers)
        from ..runs.server_configs import stdio_server

        return stdio_server(named)

    def find_tool(self, route: ServerRoute, name: str) -> MCPTool:
        """Finds a tool by the name that its server knows, with the server's definition and its digest.

        If there is none, the error suggests similar names, and how to list all tools.
        """
        from ..runs.checked_calls import pinned_tool

        try:
            definition = self.run.definitions.find(route, name, is_canceled=self.interrupt)
        except ToolNotFound as error:
            meant = f"Did you mean {' or '.join(error.suggestions)}? " if error.suggestions else ""
            error.fix = f"{meant}All tools: knime-mcp list {self._options.how_to_name(route)}"
            raise
        return pinned_tool(definition, route, shown_name=definition.name)

    def provide(self, routes: Sequence[ServerRoute], *, include: str, prefix: str = "") -> Provision:
        """Lists the tools of several servers; a server that fails does not affect the others.

        ``include`` are patterns of tools, "" for all, with ``!`` before those to drop; in ``prefix``, which
        stands in front of their names, ``{server}`` is the server's name.
        """
        from ..tools.provider.provide import NameFilter, ServerRequest, provide

        for route in routes:
            self.credentials(route.credential)  # looked up here, not in several threads

        def open_client(request: ServerRequest, trace: Callable[[Step], None]) -> MCPClient:
            assert request.route is not None
            return self.client(request.route, trace)

        labels = server_labels([route.url for route in routes])
        provision = provide(
            [
                ServerRequest(row=f"Row{n}", route=route, prefix=prefix.replace("{server}", label))
                for n, (route, label) in enumerate(zip(routes, labels, strict=True))
            ],
            open_client,
            name_filter=NameFilter(include),
            is_canceled=self.interrupt,
        )
        if self.interrupt():
            raise Canceled("Canceled while listing tools")
        return provision

    def run_for(self, routes: list[ServerRoute], save_dir: Path | None = None) -> Run:
        """The run, with the credentials of these servers kept out of all records.

        Pictures and other blobs are saved in the folder, if there is one.
        """
        for route in routes:
            self.credentials(route.credential)
        self.run.secrets.learn(self.credentials.secrets)
        if save_dir is not None:
            self.run.save_blob = _saver(save_dir)
        return self.run

    def _login(self, route: ServerRoute) -> Authorization | None:
        """The login that ``knime-mcp login`` stored for a server, unless a credential was chosen."""
        if route.credential is not None or urlsplit(route.url).scheme != "https":
            return None
        from ..client.oauth.oauth import stored_login

        return stored_login(route.url, network=self._options.network)


def _saver(folder: Path) -> Callable[[PlannedCall, int, bytes, str], str]:
    from ..runs.saved_files import save_blob

    fix = "Make room, or name another folder with --save-dir"

    def save(call: PlannedCall, number: int, data: bytes, mime_type: str) -> str:
        name = f"row-{call.input_row}-{number + 1}" if call.input_row is not None else f"result-{number + 1}"
        return save_blob(folder, name, data, mime_type, fix=fix)

    return save


class Credentials:
    """The credentials that routes name, by the options. Each credential is looked up once."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._found: dict[str, Credential] = {}

    def __call__(self, name: str | None) -> Credential | None:
        """Looks up a credential by name; its user name may be empty. None for None."""
        if name is None:
            return None
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    @property
    def secrets(self) -> list[str]:
        """The passwords in use so far, so that records can be kept free of them."""
        return [credential.password for credential in self._found.values()]

    def _look_up(self, name: str) -> Credential:
        if name == self._options.bearer_env:
            return Credential(name, "", secret_in(name, "--bearer-env"))
        credential = _from_environment(name) or keyring_credential(name)
        if credential is None:
            raise SettingInvalid(
                f"There is no credential '{name}'",
                setting="credentials",
                fix=f"Set the environment variable {variable(name, 'PASSWORD')}, and if it has a user name"
                f" {variable(name, 'USERNAME')}, or store it with: keyring set {KEYRING_SERVICE}:{name} USER",
            )
        return credential


def secret_in(name: str, option: str) -> str:
    """Reads a secret from the environment variable that an option names."""
    secret = os.environ.get(name, "").strip()
    if not secret:
        # A text that is not a variable's name may be the secret, so it is not shown.
        which = name if name.isidentifier() else f"that {option} names"
        raise SettingInvalid(
            f"The environment variable {which} is not set or empty",
            setting="credentials",
            fix="Put the secret there, and write its name",
        )
    return secret


def variable(name: str, part: str) -> str:
    """The environment variable of a credential's part, such as ``KNIME_MCP_PROD_PASSWORD``."""
    return f"KNIME_MCP_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}_{part}"


def _from_environment(name: str) -> Credential | None:
    password = os.environ.get(variable(name, "PASSWORD"))
    return Credential(name, os.environ.get(variable(name, "USERNAME"), ""), password) if password else None
