"""``--stdio``: servers that are started by commands on the command line."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from ..client.transports.stdio_server import StdioServer
from ..types.errors import SettingInvalid
from ..types.routing import ServerRoute
from .errors import UsageError

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
