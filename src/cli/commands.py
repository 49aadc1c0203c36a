"""The table of all commands of ``knime-mcp``, whose modules are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from ..version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping


class Group(NamedTuple):
    help: str
    commands: Mapping[str, str | Group]


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
            "trust": "audit:trust",
            "key": Group(
                "Keys that sign journals.",
                {"new": "audit:new", "show": "audit:show", "rotate": "audit:rotate"},
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


def command_line(
    package: str, commands: Mapping[str, str | Group], first: str | None = None, **more: Any
) -> typer.Typer:
    """A command line of the functions that a table names, as ``module:function`` in a package.

    If `first` names a command, only that one is added: importing all of them takes longer than most of them
    run.
    """
    app = typer.Typer(
        # A traceback with the values of local variables would show tokens.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )
    _add(app, package, {first: commands[first]} if first and first in commands else commands)
    return app


def _add(app: typer.Typer, package: str, commands: Mapping[str, str | Group]) -> None:
    for name, target in commands.items():
        if isinstance(target, Group):
            group = typer.Typer(help=target.help, no_args_is_help=True)
            _add(group, package, target.commands)
            app.add_typer(group, name=name)
        else:
            module, _, function = target.partition(":")
            command = getattr(import_module(f".{module}", package), function)
            app.command(name, help=_unwrapped(command.__doc__))(command)


def _unwrapped(text: str) -> str:
    """A docstring with one line per paragraph, so that lines can be wrapped to the terminal's width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
