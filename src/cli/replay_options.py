"""Reads the values of the options of ``knime-mcp replay``."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..runs.replay_comparison import ReplayRules
from ..runs.replaying import ReplayOptions, RowSelection, routes_of
from ..tools.node_settings.named_servers import known_entries
from .command_errors import UsageError
from .connection_options import is_command
from .files import read_text
from .named_servers import is_known
from .shared_options import pairs
from .terminal import note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..runs.replaying import RecordedCall
    from ..types.routing import ServerRoute
    from .connection_options import ConnectionOptions
    from .replay import ReplaySettings

_SERVERS = r"(.+?)=((?:https?|stdio):.+)"
_TOOLS = r"\s*([^=]*[^=\s])\s*=\s*(.*\S)\s*"
_COMMAND = re.compile(r"stdio:([A-Za-z0-9][\w.-]*)=(?!https?://)(.+)", re.ASCII | re.DOTALL)
_ANOTHER = "https://another.invalid"
_SECRET = re.compile(r"[0-9a-f]{12}=.*", re.DOTALL)


def replay_options(settings: ReplaySettings, connection: ConnectionOptions) -> ReplayOptions:
    """Converts the command's settings into the options of the replay. Only named credentials may be sent.

    Servers that are commands are handled by `with_commands`.
    """
    servers = [_by_name(text, connection) for text in settings.server or () if not _COMMAND.fullmatch(text)]
    credentials = [text if "=" in text else f"{text}={text}" for text in settings.with_credential or ()]
    return ReplayOptions(
        also_call=tuple(settings.call or ()),
        call_changed=settings.call_changed,
        dry_run=settings.dry_run,
        force_altered=settings.force_altered,
        rows=RowSelection.parse(settings.rows),
        servers=pairs(
            servers,
            "--server",
            form=_SERVERS,
            wrong="does not say which server to call instead of which. Write --server OLD=NEW, both as URLs,"
            " or --server stdio:NAME='COMMAND', or the name of a server of knime-mcp config.",
        ),
        tools=pairs(
            settings.tool,
            "--tool",
            form=_TOOLS,
            wrong="does not say what a tool is called now. Write --tool OLD=NEW.",
        ),
        credentials=pairs(credentials, "--with-credential"),
        named_credentials_only=True,
        secrets=_secrets(settings.secret or ()),
        stop_at_first_difference=settings.stop,
        rules=_rules(settings),
        twice=settings.twice,
    )


def _by_name(text: str, connection: ConnectionOptions) -> str:
    """A server of `knime-mcp config` in place of its URL on record, of which a file alone starts nothing."""
    # Where no server has a name, a word alone is more likely half of OLD=NEW.
    route = None if "=" in text or not known_entries() else connection.by_name(text)
    return text if route is None else f"{route.url}={route.uri}"


def _rules(settings: ReplaySettings) -> ReplayRules:
    """The rules of the options, and those of the file."""
    given = ReplayRules.parse(settings.ignore or (), settings.unordered or (), settings.tolerance)
    if settings.rules is None:
        return given
    return given.and_(ReplayRules.of_json(read_text(settings.rules), str(settings.rules)).rules)


def with_commands(connection: ConnectionOptions, servers: Sequence[str]) -> ConnectionOptions:
    """Adds the commands that ``--server stdio:NAME='COMMAND'`` gives for servers on record."""
    commands = [f"{match[1]}={match[2]}" for text in servers if (match := _COMMAND.fullmatch(text))]
    return replace(connection, stdio=[*(connection.stdio or ()), *commands]) if commands else connection


def check_on_record(
    options: ReplayOptions, calls: Collection[RecordedCall], connection: ConnectionOptions
) -> None:
    """Refuses options with calls, servers or tools that are not on record, which are usually mistakes."""
    started = {server.url for server in connection.servers} | set(connection.named)
    for route in routes_of(calls, options):
        if is_command(route) and route.url not in started and is_known(name := route.url[len("stdio:") :]):
            note(f"{route.url} is a server of knime-mcp config, too, which is used with: --server {name}")
    if calls and not any(options.rows.has(call.record, call.place) for call in calls):
        numbers = sorted(call.record.call or call.place for call in calls)
        raise UsageError(f"No call on record is one of --rows; they are {numbers[0]} to {numbers[-1]}.")
    if options.servers:
        _check_servers(options, routes_of(calls, ReplayOptions()))
    if options.tools:
        named = {call.record.tool_name for call in calls} | {call.tool.name for call in calls if call.tool}
        _check_tools(options, {name for name in named if name})


def _check_servers(options: ReplayOptions, routes: set[ServerRoute]) -> None:
    for old in options.servers:
        # By the rules of the replay themselves: a beginning of a URL counts as well.
        if all(ReplayOptions(servers={old: _ANOTHER}).route(route) == route for route in routes):
            named = ", ".join(sorted({route.url for route in routes})) or "none"
            raise UsageError(f"No call on record is to the server {old} of --server; they are to: {named}.")


def _check_tools(options: ReplayOptions, named: set[str]) -> None:
    for old in options.tools:
        if old not in named:
            tools = ", ".join(sorted(named)) or "none"
            raise UsageError(f"No call on record is of the tool {old} of --tool; they are of: {tools}.")


def _secrets(texts: Sequence[str]) -> dict[str, str]:
    if not all(map(_SECRET.fullmatch, texts)):
        # The text is not shown, as it may be the secret itself.
        raise UsageError(
            "--secret takes the twelve digits of a mark and the name of an environment variable, as in"
            " 0123456789ab=MY_PASSWORD."
        )
    variables = pairs(texts, "--secret")
    for digits, variable in variables.items():
        if variable not in os.environ:
            raise UsageError(f"The environment variable of --secret {digits} is not set.")
    return {digits: os.environ[variable] for digits, variable in variables.items()}
