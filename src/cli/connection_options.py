"""The options for reaching servers, by URL or by a command, which are the same for every command."""

import functools
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from ..client.limits import Timeouts
from ..client.transports.stdio_server import StdioServer
from ..system import words_of
from ..types.errors import MCPError, SettingInvalid
from ..types.routing import OPTIONS, SendCredentialsAs, ServerRoute, TransportName
from ..types.secret_rules import is_secret_variable
from .command_errors import UsageError
from .shared_options import SELDOM, options_under, show_all, takes

if TYPE_CHECKING:
    from ..client.network import NetworkSettings
    from ..runs.server_configs import ServerConfig


_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)=(.*)", re.ASCII | re.DOTALL)
_PREFIX = "stdio:"


def is_command(route: ServerRoute) -> bool:
    return route.url.startswith(_PREFIX)


def started_server(route: ServerRoute, servers: Sequence[StdioServer]) -> StdioServer:
    """Finds the command for ``stdio:<name>``. Only those of the command line itself are ever started."""
    for server in servers:
        if server.url == route.url:
            return server
    raise SettingInvalid(
        f"Nothing says which command {route.url} is",
        setting="stdio",
        fix=f"Give it with --stdio '{route.url.removeprefix(_PREFIX)}=COMMAND'",
    )


def parse_servers(commands: Sequence[str], variables: Sequence[str]) -> tuple[StdioServer, ...]:
    """Reads ``--stdio`` (commands in shell syntax, perhaps with ``name=`` before them) and ``--env``."""
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
    try:
        command = words_of(named[2] if named else text)
    except ValueError:
        # The text is not shown, as it may contain a key.
        raise UsageError("A command of --stdio has a quotation mark that is not closed.") from None
    if not command:
        raise UsageError("A command of --stdio is empty. Write it as --stdio 'python server.py'.")
    name = named[1] if named else re.sub(r"[^\w.-]+", "-", PurePath(command[0]).name, flags=re.ASCII)
    return StdioServer(
        name.lstrip("._-") or "server",
        command,
        env=env,
        taken=tuple(value for variable, value in env.items() if is_secret_variable(variable)),
    )


def _variable(name: str) -> str:
    if "=" in name:
        raise UsageError(
            "--env takes the name of an environment variable only: every program on this computer can read a"
            " command line. Set the variable first, then write --env NAME."
        )
    if name not in os.environ:
        raise UsageError(f"The environment variable {name} of --env is not set.")
    return os.environ[name]


_who = options_under("Who you are")
how_to_reach = options_under("How to reach the server")
_seldom = options_under(SELDOM, hidden=True)
_option = options_under()


def servers(incomplete: str) -> list[tuple[str, str]]:
    """The servers that the shell offers at the Tab key, with their places."""
    from ..tools.node_settings.named_servers import known_entries, where

    with suppress(MCPError):
        entries = known_entries().items()
        return [(name, where(entry)) for name, entry in entries if name.startswith(incomplete)]
    return []


UrlArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="SERVER",
        help="URL of the server, or its name in knime-mcp config. Left out with --stdio.",
        autocompletion=servers,
    ),
]
ToolArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="TOOL", help="The name that the server knows."),
]
CA_FILE: Final = "Trust the certificates in this PEM file, too."
PROXY: Final = "Use this proxy instead of the environment's; an empty text means none."


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """The options for reaching servers, described by their help texts."""

    credential: str | None = _who(
        "Use this credential: user name and password from the environment variables"
        " KNIME_MCP_<NAME>_USERNAME and KNIME_MCP_<NAME>_PASSWORD, or from the system's keyring"
        " (keyring set knime-mcp:<NAME> USER).",
        metavar="NAME",
    )
    send_credentials_as: SendCredentialsAs = _seldom(
        "Send the credential as Bearer token, Basic, in a header, or to an authorization server"
        " that gives a token for it (OAuth; user name and password are client id and secret, or a private"
        " key in PEM, which only signs).",
        default="bearer",
    )
    header_name: str | None = _seldom("The header for --send-credentials-as header.", metavar="NAME")
    issuer: str | None = _seldom(
        "The authorization server for --send-credentials-as client_credentials.", metavar="URL"
    )
    scope: str | None = _seldom("The scopes to ask it for, separated by spaces.", metavar="SCOPES")
    bearer_env: str | None = _who("Send the token in this environment variable.", metavar="VARIABLE")
    secret_argument: list[str] | None = _seldom(
        "Hide this argument of calls in all records, like a password; may be repeated. A name, or a JSON"
        " pointer such as /login/code. Names such as password and api_key need not be given.",
        metavar="NAME",
    )
    header: list[str] | None = how_to_reach(
        "Send this header, too; may be repeated. Write {credential.password} for a secret.",
        "--header",
        "-H",
        metavar="'NAME: VALUE'",
    )
    stdio: list[str] | None = how_to_reach(
        "Start this command and use it as the server, instead of a URL. Write 'name=COMMAND' to call"
        " it something other than its program.",
        "--stdio",
        metavar="'COMMAND'",
    )
    env: list[str] | None = how_to_reach(
        "Pass this environment variable on to the command of --stdio, which gets only those that"
        " every program needs; may be repeated.",
        "--env",
        metavar="VARIABLE",
    )
    transport: TransportName = _seldom("Streamable HTTP, the older HTTP+SSE, or find out.", default="auto")
    protocol: str | None = _seldom(
        "Speak this revision of MCP, such as 2025-11-25, instead of negotiating.", metavar="REVISION"
    )
    ca_file: str | None = _seldom(CA_FILE, metavar="FILE")
    proxy: str | None = _seldom(PROXY, metavar="URL")
    connect_timeout: float = _seldom(
        "Seconds until the connection stands.", min=0.1, default=Timeouts().connect
    )
    idle_timeout: float = _seldom("Seconds without any sign of progress.", min=0.1, default=Timeouts().idle)
    total_timeout: float = how_to_reach("Seconds for a whole call.", min=0.1, default=Timeouts().total)

    help_all: bool = _option(
        "Show the other options, too.", "--help-all", callback=show_all, is_eager=True, default=False
    )

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(connect=self.connect_timeout, idle=self.idle_timeout, total=self.total_timeout)

    @property
    def network(self) -> "NetworkSettings":
        # Imported here, as TLS is a quarter of the start of commands that need no server.
        from ..client.network import NetworkSettings

        return NetworkSettings(ca_file=self.ca_file, proxy=self.proxy)

    @functools.cached_property
    def named(self) -> "dict[str, ServerConfig]":
        """The servers of this command line that were given by name, by the URLs of their routes.

        Nothing else can start one of them: no table, no workflow.
        """
        return {}

    def how_to_name(self, route: ServerRoute) -> str:
        """The server as a suggested command names it; a started command itself may contain keys."""
        if route.url in self.named:
            return self.named[route.url].name
        return "--stdio 'COMMAND'" if is_command(route) else route.url

    @functools.cached_property
    def servers(self) -> tuple[StdioServer, ...]:
        return parse_servers(self.stdio or (), self.env or ())

    def one_route(self, *given: str | None) -> tuple[ServerRoute, list[str]]:
        """The route of a command for one server, and its arguments after the URL (none with ``--stdio``)."""
        words = [word for word in given if word is not None]
        urls = words[: 0 if self.stdio else 1]
        if self.stdio and words and "://" in words[0]:
            raise UsageError("A URL and --stdio cannot be used together here. Choose one of them.")
        routes = self.routes(urls)
        if len(routes) > 1:
            raise UsageError(f"This command talks to one server, but --stdio names {len(routes)}.")
        return routes[0], words[len(urls) :]

    def routes(self, urls: Sequence[str]) -> list[ServerRoute]:
        """Makes one route per URL, which may have routing in its fragment, then one per command.

        A URL's own fragment takes precedence over the options. A secret never goes to several origins.
        """
        self._check()
        if not urls:
            self._check_commands()
        from ..client.network import origin_of  # late, as in `network`

        routes = [self.by_name(url) or self._route(ServerRoute.parse(url)) for url in urls]
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

    def by_name(self, word: str) -> ServerRoute | None:
        """The route to the server that `knime-mcp config` knows by this name; None for a URL."""
        if " " in word.strip() and "://" not in word and not word.startswith(_PREFIX):
            # The text is not repeated: commands may hold secrets.
            raise UsageError(
                "The server is neither a URL nor a name; it looks like a command. Give a command as"
                " --stdio 'COMMAND', and no URL."
            )
        if "/" in word or word.startswith(_PREFIX):
            return None
        from .named_servers import named_server, unknown_name

        config = named_server(word)
        if config is None:
            if (error := unknown_name(word)) is not None:
                raise error
            return None
        if config.kind == "stdio":
            route = ServerRoute(f"{_PREFIX}{word}")
        else:
            # The query may hold a secret, and the fragment says how to send the credential that it names.
            bare, mark, fragment = config.url.partition("#")
            route = self._route(ServerRoute.parse(f"{bare.partition('?')[0]}{mark}{fragment}"))
        self.named[route.url] = config
        return route

    @property
    def _secret_name(self) -> str | None:
        return self.credential or self.bearer_env

    def _route(self, route: ServerRoute) -> ServerRoute:
        said = {name: getattr(self, name) for name in OPTIONS if name != "header"}
        credential = None if route.credential else self._secret_name
        headers = tuple(self._headers())
        return route.completed(ServerRoute(route.url, credential=credential, headers=headers, **said))

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
        if self.credential and self.bearer_env:
            raise UsageError("--credential and --bearer-env cannot be used together. Choose one of them.")
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
