"""Calls that are tried by hand: a server's tools, a call, and the same as command, settings or Python."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from shlex import quote
from typing import TYPE_CHECKING, Any, Self

from ..runs.call_values import PlannedCall
from ..runs.server_configs import secrets_of
from ..tools.calling_hints import signature
from ..tools.node_settings.named_servers import REFERENCE, known_entries
from ..tools.views.journal_page import recorded_step
from ..tools.views.run_page import Steps
from ..types.errors import MCPError
from .command_errors import CommandError, at_terminal
from .connection_options import ConnectionOptions
from .files import open_journal, split_pairs, with_pairs
from .sessions import CommandSessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..types.routing import ServerRoute


class TriedCalls:
    """One run of all calls that are tried; its journal is begun with the first of them."""

    def __init__(self, folder: Path, interrupt: Callable[[], bool]) -> None:
        self._folder = folder
        self._connection = ConnectionOptions()
        self._sessions = CommandSessions(self._connection, interrupt)
        self._journal: Path | None = None
        self._beginning, self._asking = threading.Lock(), threading.Lock()
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        self._ending.enter_context(self._sessions)
        return self

    def __exit__(self, *error: Any) -> None:
        self._ending.__exit__(*error)

    def names(self) -> list[str]:
        try:
            return sorted(known_entries())
        except MCPError:
            return []

    def tools(self, server: str) -> list[dict[str, Any]]:
        """The tools of a server by URL or name, with what their forms are made from."""
        provision = self._sessions.provide([self._route(server)], include="")
        for failed in provision.failed:
            raise CommandError(at_terminal(failed.error or "The server failed"))
        definitions = (tool.definition for tool in provision.tools)
        return [
            {
                "name": tool.name,
                "signature": signature(tool.input_schema),
                "description": tool.description or "",
                "schema": json.dumps(tool.input_schema),
            }
            for tool in definitions
        ]

    def call(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Makes a call: what came of it as a step of a run, and how to make it elsewhere.

        The arguments are as on a command line: ``KEY=VALUE``, or ``KEY:=JSON``.
        """
        server, name = str(asked["server"]).strip(), str(asked["tool"])
        route = self._route(server)
        tool = self._sessions.find_tool(route, name)
        values = with_pairs({}, split_pairs(map(str, asked["arguments"])), tool.parameter_schema)
        run = self._sessions.run
        with self._beginning:
            if self._journal is None:
                journal = self._folder / f"tried-{run.id}.jsonl"
                self._sessions.run_for([route], self._folder / journal.stem)
                open_journal(journal, run, about="knime-mcp open", what={"kind": "tried"})
                self._journal = journal
            self._sessions.run_for([route])
        record = run.call(PlannedCall(tool=tool, arguments=values)).record
        steps = Steps()
        steps.add(recorded_step(record, self._journal))
        return {**json.loads(steps.as_json()), "copies": _copies(server, route, name, values)}

    def _route(self, server: str) -> ServerRoute:
        named = self._connection.named
        with self._asking:
            before = dict(named)
            (route,) = self._connection.routes([server.strip()])
            config, first = named.get(route.url), before.get(route.url)
            if config is not None and first is not None and config.name != first.name:
                named[route.url] = first
                # Its session would be the other's, with that one's secrets.
                raise CommandError(
                    f"'{config.name}' has the address of '{first.name}', which was tried before. To try it,"
                    " end this command and open the folder again."
                )
            if config is not None:
                self._sessions.run.secrets.learn(secrets_of(config))
        return route


def _copies(server: str, route: ServerRoute, tool: str, arguments: dict[str, Any]) -> dict[str, str]:
    """The call as a command, as the settings of nodes, and as Python."""
    as_json = json.dumps(arguments, ensure_ascii=False)
    command = f"knime-mcp call {quote(server)} {quote(tool)}"
    shown = (
        f"    {name} = {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    )
    return {
        "Command": f"{command} --json-arguments {quote(as_json)}" if arguments else command,
        "Node settings": "\n".join(
            (f"MCP Tool Caller\n  Server URL: {server}\n  Tool name: {tool}\n  Arguments:", *shown)
        ),
        "Python": _python(server, route, tool, arguments),
    }


def _python(server: str, route: ServerRoute, tool: str, arguments: dict[str, Any]) -> str:
    entry = known_entries().get(server, {}) if "/" not in server else {}
    imports, given = ["from knime_mcp.tools import MCPClient"], repr(route.url)
    if "command" in entry:
        imports.append("from knime_mcp.client.transports.stdio_server import StdioServer")
        words = ", ".join(map(_text, [entry["command"], *entry.get("args", ())]))
        env = f", env={_dict(entry['env'])}" if entry.get("env") else ""
        cwd = f", cwd={entry['cwd']!r}" if entry.get("cwd") else ""
        given = f"stdio=StdioServer({server!r}, [{words}]{env}{cwd})"
    elif entry:
        headers = f", headers={_dict(entry['headers'])}" if entry.get("headers") else ""
        given = f"{_text(str(entry.get('url', route.url)).partition('#')[0])}{headers}"
    if "os.environ" in given:
        imports.insert(0, "import os\n")
    if route.credential:
        imports.append(f"\n# The credential {route.credential} goes with it: see auth of MCPClient.")
    return "\n".join(
        (
            *imports,
            "",
            f"with MCPClient({given}) as client:",
            f"    print(client.call_tool({tool!r}, {arguments!r}).text)",
        )
    )


def _dict(values: dict[str, Any]) -> str:
    return f"{{{', '.join(f'{name!r}: {_text(value)}' for name, value in values.items())}}}"


def _text(value: Any) -> str:
    """A text of a ``mcp.json`` as Python: its ``${VARIABLE}`` come from the environment."""
    # The expression has a group, so that every second part is the name of a variable.
    parts = enumerate(REFERENCE.split(str(value)))
    shown = [_variable(part) if place % 2 else repr(part) for place, part in parts if part]
    return " + ".join(shown) or "''"


def _variable(reference: str) -> str:
    name, has_default, default = reference.removeprefix("env:").partition(":-")
    return f"os.environ.get({name!r}, {default!r})" if has_default else f"os.environ[{name!r}]"
