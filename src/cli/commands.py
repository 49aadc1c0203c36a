"""The table of all commands of ``knime-mcp``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..version import VERSION
from .command_table import Group, command_line

if TYPE_CHECKING:
    from collections.abc import Mapping


_COMMANDS: Final[Mapping[str, str | Group]] = {
    "demo": "demo:demo",
    "open": "open:open_folder",
    "inspect": "inspect:inspect",
    "list": "list:list_tools",
    "call": "call:call",
    "batch": "batch:batch",
    "resources": Group(
        "Resources of servers: files, pages and the like, which are read and not called.",
        {"list": "offers:list_resources", "read": "offers:read_resource"},
    ),
    "prompts": Group(
        "Prompts of servers: texts for models, with arguments to fill in.",
        {"list": "offers:list_prompts", "get": "offers:get_prompt"},
    ),
    "make-component": "make_component:make_component",
    "agent": "agent:agent",
    "chat": "chat:chat",
    "replay": "replay:replay",
    "login": "login:login",
    "logout": "login:logout",
    "config": Group(
        "Servers with names, which other commands take instead of a URL, and the agents' model.",
        {
            "list": "config:list_servers",
            "add": "config:add",
            "remove": "config:remove",
            "trust": "config:trust",
            "import": "config:import_servers",
            "export": "config:export",
            "model": "config:model",
        },
    ),
    "knime": Group(
        "Make an installed KNIME load the nodes, and see why it does not.",
        {
            "install": "knime_setup:install",
            "doctor": "knime_setup:doctor",
        },
    ),
    "audit": Group(
        "Verify, show and export the records of calls.",
        {
            "verify": "audit:verify",
            "show": "audit:show_records",
            "export": "audit:export",
            "trust": "audit_key:trust",
            "key": Group(
                "Keys that sign journals.",
                {"new": "audit_key:new", "show": "audit_key:show", "rotate": "audit_key:rotate"},
            ),
        },
    ),
}
"""Module and function of each command."""


def build_app(first: str | None = None) -> typer.Typer:
    """Builds the command line; of its first word only, if that names a command."""
    app = command_line(
        __package__ or "",
        {} if first == _VERSION_OPTION else _COMMANDS,
        first,
        help="Tools on MCP servers, from the command line: list them, call them, call them once per row of a"
        " table. The same code that KNIME's nodes run.",
        epilog="Start with: knime-mcp demo",
        invoke_without_command=True,
    )
    app.callback()(_root)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"knime-mcp {VERSION}")
        raise typer.Exit


_VERSION_OPTION: Final = "--version"
_FIRST_STEPS: Final = f"""\
knime-mcp {VERSION}: tools of MCP servers, from the command line

  knime-mcp demo                        what it does, in seconds, without any account
  knime-mcp list URL                    the tools of a server
  knime-mcp call URL TOOL key=value     call one of them
  knime-mcp batch URL TOOL table.csv    call it once per row
  knime-mcp open                        try a server, and look at runs, in a browser

The rest, such as agent, chat, audit and config: knime-mcp --help. Options: knime-mcp COMMAND --help"""


def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option(_VERSION_OPTION, callback=_print_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    """Shows the first steps if there is no command."""
    if context.invoked_subcommand is None:
        print(_FIRST_STEPS)
