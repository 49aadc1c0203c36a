"""The options for reaching servers, by URL or by a command, which are the same for every command."""

import dataclasses
import functools
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..client.limits import Timeouts
from ..client.transports.stdio_server import StdioServer
from ..types.errors import SettingInvalid
from ..types.routing import SendCredentialsAs, ServerRoute, TransportName
from .command_errors import UsageError
from .shared_options import takes

if TYPE_CHECKING:
    from ..client.network import NetworkSettings


_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)=(.*)", re.ASCII | re.DOTALL)
_PREFIX = "stdio:"


def is_command(route: ServerRoute) -> bool:
    """Returns whether a route leads to a command on this computer."""
    return route.url.startswith(_PREFIX)


def how_to_name(route: ServerRoute) -> str:
    """The text for the same server in a suggested command; the started command itself may contain keys."""
    return "--stdio 'COMMAND'" if is_command(route) else route.display


def named_server(route: ServerRoute, servers: Sequence[StdioServer]) -> StdioServer:
    """Finds the command for a route. Only commands of the command line itself are ever started.

    Args:
        route: A route to ``stdio:<name>``, from the command line, a file or a table.
        servers: The commands of this command line.

    Raises:
        SettingInvalid: The command line has no command of that name.
    """
    for server in servers:
        if server.url == route.url:
            return server
    raise SettingInvalid(
        f"Nothing says which command {route.url} is",
        setting="stdio",
        fix=f"Give it with --stdio '{route.url.removeprefix(_PREFIX)}=COMMAND'",
    )


def parse_servers(commands: Sequence[str], variables: Sequence[str]) -> tuple[StdioServer, ...]:
    """Reads ``--stdio`` and ``--env``.

    Args:
        commands: Commands in shell syntax, each perhaps with ``name=`` before it.
        variables: Names of environment variables to pass on to all commands.

    Returns:
        The servers, which are not started yet.

    Raises:
        UsageError: A command cannot be parsed, two commands have the same name, or a variable is not set.
        SettingInvalid: A name is invalid.
    """
    if variables and not commands:
        raise UsageError("--env is for servers that are started with --stdio.")
    env = {name: _variable(name) for name in variables}
    servers: list[StdioServer] = []
    for text in commands:
        server = _server(text, env)
        if any(other.name == server.name for other in servers):
            raise UsageError(
                f"Two commands of --stdio are called '{server.name}'. Give them names:"
                " --stdio 'one=COMMAND' --stdio 'two=COMMAND'."
            )
        servers.append(server)
    return tuple(servers)


def _server(text: str, env: dict[str, str]) -> StdioServer:
    named = _NAMED.fullmatch(text.strip())
    lexer = shlex.shlex(named[2] if named else text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    if os.name == "nt":
        lexer.escape = ""  # a backslash is part of a path on Windows
    try:
        command = list(lexer)
    except ValueError:
        # The text is not shown, as it may contain a key.
        raise UsageError("A command of --stdio has a quotation mark that is not closed.") from None
    if not command:
        raise UsageError("A command of --stdio is empty. Write it as --stdio 'python server.py'.")
    name = named[1] if named else re.sub(r"[^\w.-]+", "-", PurePath(command[0]).name, flags=re.ASCII)
    return StdioServer(name.lstrip("._-") or "server", command, env=env)


def _variable(name: str) -> str:
    if "=" in name:
        raise UsageError(
            "--env takes the name of an environment variable only: every program on this computer can read a"
            " command line. Set the variable first, then write --env NAME."
        )
    if name not in os.environ:
        raise UsageError(f"The environment variable {name} of --env is not set.")
    return os.environ[name]


_WHO = "Who you are"
_HOW = "How to reach the server"

UrlArgument: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="URL", help="The server. Left out with --stdio.")
]
ToolArgument: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="TOOL", help="The name that the server knows.")
]
CaFileOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Trust the certificates in this PEM file, too.", rich_help_panel=_HOW),
]
ProxyOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Use this proxy instead of the environment's; an empty text means none.",
        rich_help_panel=_HOW,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """The options for reaching servers, described by their help texts."""

    credential: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Use this credential: user name and password from the environment variables"
            " KNIME_MCP_<NAME>_USERNAME and KNIME_MCP_<NAME>_PASSWORD, or from the system's keyring"
            " (keyring set knime-mcp:<NAME> USER).",
            rich_help_panel=_WHO,
        ),
    ] = None
    send_credentials_as: Annotated[
        SendCredentialsAs,
        typer.Option(
            help="Send the credential as Bearer token, Basic, in a header, or to an authorization server"
            " that gives a token for it (OAuth; user name and password are client id and secret).",
            rich_help_panel=_WHO,
        ),
    ] = "bearer"
    header_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The header for --send-credentials-as header.", rich_help_panel=_WHO
        ),
    ] = None
    issuer: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The authorization server for --send-credentials-as client_credentials.",
            rich_help_panel=_WHO,
        ),
    ] = None
    scope: Annotated[
        str | None,
        typer.Option(
            metavar="SCOPES", help="The scopes to ask it for, separated by spaces.", rich_help_panel=_WHO
        ),
    ] = None
    bearer_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE", help="Send the token in this environment variable.", rich_help_panel=_WHO
        ),
    ] = None
    bearer_prompt: Annotated[
        bool, typer.Option("--bearer-prompt", help="Ask for a token and send it.", rich_help_panel=_WHO)
    ] = False
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "-H",
            metavar="'NAME: VALUE'",
            help="Send this header, too; may be repeated. Write {credential.password} for a secret.",
            rich_help_panel=_HOW,
        ),
    ] = None
    stdio: Annotated[
        list[str] | None,
        typer.Option(
            "--stdio",
            metavar="'COMMAND'",
            help="Start this command and use it as the server, instead of a URL. Write 'name=COMMAND' to call"
            " it something other than its program.",
            rich_help_panel=_HOW,
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="VARIABLE",
            help="Pass this environment variable on to the command of --stdio, which gets only those that"
            " every program needs; may be repeated.",
            rich_help_panel=_HOW,
        ),
    ] = None
    transport: Annotated[
        TransportName,
        typer.Option(help="Streamable HTTP, the older HTTP+SSE, or find out.", rich_help_panel=_HOW),
    ] = "auto"
    protocol: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Speak this revision of MCP, such as 2025-11-25, instead of negotiating.",
            rich_help_panel=_HOW,
        ),
    ] = None
    ca_file: CaFileOption = None
    proxy: ProxyOption = None
    connect_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds until the connection stands.", rich_help_panel=_HOW)
    ] = Timeouts().connect
    idle_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds without any sign of progress.", rich_help_panel=_HOW)
    ] = Timeouts().idle
    total_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for a whole call.", rich_help_panel=_HOW)
    ] = Timeouts().total

    @property
    def timeouts(self) -> Timeouts:
        """The three timeouts."""
        return Timeouts(connect=self.connect_timeout, idle=self.idle_timeout, total=self.total_timeout)

    @property
    def network(self) -> "NetworkSettings":
        """Trust store and proxy."""
        # Imported here, as TLS is a quarter of the start of commands that need no server.
        from ..client.network import NetworkSettings

        return NetworkSettings(ca_file=self.ca_file, proxy=self.proxy)

    @functools.cached_property
    def servers(self) -> tuple[StdioServer, ...]:
        """The servers that are commands."""
        return parse_servers(self.stdio or (), self.env or ())

    def one_route(self, words: Sequence[str]) -> tuple[ServerRoute, list[str]]:
        """Makes the route of a command that talks to one server.

        Args:
            words: The command's arguments. The first one is the URL, unless there is ``--stdio``.

        Returns:
            The route, and the other arguments.

        Raises:
            SettingInvalid: See `routes`.
            UsageError: There is no server, or more than one.
        """
        urls = words[: 0 if self.stdio else 1]
        if self.stdio and words and "://" in words[0]:
            raise UsageError("A URL and --stdio cannot be used together here. Choose one of them.")
        routes = self.routes(urls)
        if len(routes) > 1:
            raise UsageError(f"This command talks to one server, but --stdio names {len(routes)}.")
        return routes[0], list(words[len(urls) :])

    def routes(self, urls: Sequence[str]) -> list[ServerRoute]:
        """Makes the routes to the servers of the command line.

        Args:
            urls: Server URLs, perhaps with routing in the fragment.

        Returns:
            One route per URL, then one per command. A URL's own fragment takes precedence over the options.

        Raises:
            SettingInvalid: A URL or header is invalid or contains a secret.
            UsageError: There is no server, options contradict each other, or one secret would go to several
                origins.
        """
        self._check()
        if not urls:
            self._check_commands()
        from ..client.network import origin_of  # late, as in `network`

        routes = [self._route(ServerRoute.parse(url)) for url in urls]
        borrowers = {
            origin_of(route.url)
            for route, url in zip(routes, urls, strict=True)
            if "#" not in url and self._secret_name
        }
        if len(borrowers) > 1:
            names = ", ".join(sorted(borrowers))
            raise UsageError(
                f"One credential would go to {len(borrowers)} different servers: {names}."
                " Say at each URL which one it gets, as in https://host/mcp#credential=NAME."
            )
        return [*routes, *(ServerRoute(server.url) for server in self.servers)]

    @property
    def _secret_name(self) -> str | None:
        return self.credential or self.bearer_env or ("token" if self.bearer_prompt else None)

    def _route(self, route: ServerRoute) -> ServerRoute:
        values = {
            "credential": self._secret_name,
            "send_credentials_as": self.send_credentials_as,
            "header_name": self.header_name,
            "issuer": self.issuer,
            "scope": self.scope,
        }
        return dataclasses.replace(
            route,
            **({} if route.credential else values),  # pyright: ignore[reportArgumentType]
            headers=(*self._headers(), *route.headers),
            transport=self.transport if route.transport == "auto" else route.transport,
        )

    def _headers(self) -> list[tuple[str, str]]:
        headers: dict[str, tuple[str, str]] = {}
        for name, value in map(_header, self.header or ()):
            if headers.setdefault(name.lower(), (name, value)) != (name, value):
                raise UsageError(
                    f"--header names {name} twice. Write its values in one, with commas between."
                )
        return list(headers.values())

    def _check_commands(self) -> None:
        if not self.servers:
            raise UsageError("Which server? Give its URL, or start one with --stdio 'COMMAND'.")
        if self._secret_name or self.header:
            raise UsageError(
                "Credentials and headers are for URLs. A command gets its secrets from environment variables:"
                " --env VARIABLE."
            )

    def _check(self) -> None:
        named = [
            name
            for name, given in (
                ("--credential", self.credential),
                ("--bearer-env", self.bearer_env),
                ("--bearer-prompt", self.bearer_prompt),
            )
            if given
        ]
        if len(named) > 1:
            raise UsageError(f"{' and '.join(named)} cannot be used together. Choose one of them.")
        if self.send_credentials_as == "header" and not self.header_name:
            raise UsageError(
                "--send-credentials-as header needs --header-name, such as --header-name X-API-Key."
            )
        oauth = self.send_credentials_as == "client_credentials"
        if oauth and not self.issuer:
            raise UsageError(
                "--send-credentials-as client_credentials needs --issuer: the client secret goes to that"
                " authorization server and nowhere else."
            )
        if (self.issuer or self.scope) and not oauth:
            raise UsageError("--issuer and --scope are for --send-credentials-as client_credentials.")
        if self.send_credentials_as != "bearer" and not self.credential:
            raise UsageError(f"--send-credentials-as {self.send_credentials_as} needs --credential NAME.")


takes_connection = takes(ConnectionOptions, "connection")
"""Adds all options of `ConnectionOptions` to a command, as its keyword argument ``connection``."""


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        # The text is not shown: it may be a secret in the wrong place.
        raise UsageError(
            "--header needs a name and a value with a colon between them, as in 'X-Team: sales'."
        )
    return name.strip(), value.strip()
