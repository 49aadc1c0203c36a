"""What the options of ``knime-mcp replay`` mean."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..audit.replay.decision import routes_of
from ..audit.replay.ignore import IgnoreRules
from ..audit.replay.options import ReplayOptions, RowSelection, pairs
from .exits import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..audit.replay.calls import RecordedCall
    from .options import ConnectionOptions
    from .replay_command import ReplaySettings

_SERVER = re.compile(r"(.+?)=((?:https?|stdio):.+)", re.DOTALL)
_STDIO = re.compile(r"stdio:([A-Za-z0-9][\w.-]*)=(.+)", re.ASCII | re.DOTALL)


def replay_options(settings: ReplaySettings) -> ReplayOptions:
    """Reads the options that say how to replay.

    Args:
        settings: The options. Servers that are a command are for `with_commands`.

    Returns:
        The decisions. The only credentials that may be sent are those that were named.

    Raises:
        UsageError: A text that says nothing.
        SettingInvalid: Texts that contradict each other.
    """
    servers = (_server_pair(text) for text in settings.server or () if not _STDIO.match(text))
    named = (text.partition("=") for text in settings.with_credential or ())
    return ReplayOptions(
        also_call=tuple(settings.call or ()),
        call_changed=settings.call_changed,
        dry_run=settings.dry_run,
        rows=RowSelection.parse(settings.rows),
        servers=pairs(servers, "server"),
        tools=_tools(settings.tool or ()),
        credentials=pairs(((old, new if equals else old) for old, equals, new in named), "with_credential"),
        named_credentials_only=True,
        secrets=dict(map(_secret, settings.secret or ())),
        stop_at_first_difference=settings.stop,
        ignore=IgnoreRules.parse(settings.ignore or ()),
    )


def with_commands(connection: ConnectionOptions, servers: Sequence[str]) -> ConnectionOptions:
    """Adds the commands that ``--server stdio:NAME='COMMAND'`` gives for servers on record."""
    commands = [f"{found[1]}={found[2]}" for text in servers if (found := _STDIO.fullmatch(text))]
    return replace(connection, stdio=[*(connection.stdio or ()), *commands]) if commands else connection


def check_on_record(options: ReplayOptions, calls: Sequence[RecordedCall]) -> None:
    """Refuses to replace a server or tool that is not on record: the replay would not be what was meant.

    Raises:
        UsageError: Says what is on record.
    """
    routes = routes_of(calls, ReplayOptions())
    for old, new in options.servers.items():
        if routes_of(calls, ReplayOptions(servers={old: new})) == routes:
            named = ", ".join(sorted({route.display for route in routes})) or "none"
            raise UsageError(f"No call on record is to the server {old} of --server; they are to: {named}.")
    named = {call.record.tool_name for call in calls} | {call.tool.name for call in calls if call.tool}
    for old in options.tools:
        if old not in named:
            tools = ", ".join(sorted(filter(None, named))) or "none"
            raise UsageError(f"No call on record is of the tool {old} of --tool; they are of: {tools}.")


def _tools(texts: Sequence[str]) -> dict[str, str]:
    named = [text.partition("=") for text in texts]
    if not all(old.strip() and new.strip() for old, _, new in named):
        raise UsageError("--tool has to say what a tool is called now. Write --tool OLD=NEW.")
    return pairs(((old, new) for old, _, new in named), "tool")


def _server_pair(text: str) -> tuple[str, str]:
    found = _SERVER.fullmatch(text)
    if found is None:
        raise UsageError(
            f"'{text}' does not say which server to call instead of which. Write --server OLD=NEW, both as"
            " URLs, or --server stdio:NAME='COMMAND'."
        )
    return found[1], found[2]


def _secret(text: str) -> tuple[str, str]:
    digits, equals, variable = text.partition("=")
    if not equals or not re.fullmatch(r"[0-9a-f]{12}", digits):
        # The text is not shown: it may be the secret itself.
        raise UsageError(
            "--secret takes the twelve digits of a mark and the name of an environment variable, as in"
            " 0123456789ab=MY_PASSWORD."
        )
    if variable not in os.environ:
        raise UsageError(f"The environment variable of --secret {digits} is not set.")
    return digits, os.environ[variable]
