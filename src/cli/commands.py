"""The table of all commands of ``knime-mcp``, whose modules are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from ..version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Group(NamedTuple):
    help: str
    commands: Mapping[str, str | _Group]


_COMMANDS: Final[Mapping[str, str | _Group]] = {
    "demo": "demo:demo",
    "inspect": "inspect:inspect",
    "list": "list:list_tools",
    "call": "call:call",
    "batch": "batch:batch",
    "resources": _Group(
        "Resources of servers: files, pages and the like, which are read and not called.",
        {"list": "offers:list_resources", "read": "offers:read_resource"},
    ),
    "prompts": _Group(
        "Prompts of servers: texts for models, with arguments to fill in.",
        {"list": "offers:list_prompts", "get": "offers:get_prompt"},
    ),
    "make-component": "make_component:make_component",
    "agent": "agent:agent",
    "chat": "chat:chat",
    "replay": "replay:replay",
    "login": "login:login",
    "logout": "login:logout",
    "config": _Group(
        "Servers with names, which other commands take instead of a URL.",
        {
            "list": "config:list_servers",
            "add": "config:add",
            "remove": "config:remove",
            "import": "config:import_servers",
        },
    ),
    "knime": _Group(
        "Make an installed KNIME load the nodes, and see why it does not.",
        {
            "install": "knime_setup:install",
            "uninstall": "knime_setup:uninstall",
            "doctor": "knime_setup:doctor",
        },
    ),
    "audit": _Group(
        "Verify, show and export the records of calls.",
        {
            "verify": "audit:verify",
            "show": "audit:show_records",
            "export": "audit:export",
            "key": _Group(
                "Keys that sign journals.",
                {"new": "audit_key:new", "show": "audit_key:show", "rotate": "audit_key:rotate"},
            ),
        },
    ),
    "graph": _Group(
        "Graphs: tools made of calls to other tools, declared in a YAML document.",
        {
            "new": "graph_commands:new",
            "check": "graph_commands:check",
            "run": "graph_commands:run",
            "record": "graph_testing:record",
            "test": "graph_testing:run_cases",
            "show": "graph_commands:show",
            "studio": "graph_editing:studio",
            "serve": "graph_commands:serve",
            "toolkit": "graph_editing:toolkit",
        },
    ),
    "nodes": _Group(
        "Node knowledge: which nodes exist, and how they are configured. Also as an MCP server.",
        {
            "search": "nodes.node_lookup:search",
            "show": "nodes.node_lookup:show_node",
            "types": "nodes.node_lookup:types",
            "check-workflow": "nodes.workflow_lookup:check_workflow",
            "build": "nodes.node_catalogue:build",
            "serve": "nodes.node_servers:serve",
            "gateway": "nodes.node_servers:gateway",
            "keys": _Group(
                "Keys for the gateway. Only digests of them are kept.",
                {
                    "create": "nodes.node_servers:create",
                    "list": "nodes.node_servers:list_keys",
                    "revoke": "nodes.node_servers:revoke",
                },
            ),
        },
    ),
}
"""Module and function of each command."""


def build_app(first: str | None = None) -> typer.Typer:
    """Builds the command line.

    If its first word names a command, only that command is added, and none for the version: importing and
    preparing all of them takes as long as a call.
    """
    app = typer.Typer(
        help="Tools on MCP servers, from the command line: list them, call them, call them once per row of a"
        " table. The same code that KNIME's nodes run.",
        epilog="Start with: knime-mcp demo",
        invoke_without_command=True,
        # A traceback with the values of local variables would show tokens.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    needed = (
        # Only the module of the command that was typed: importing all of them takes longer than most of
        # them run.
        {} if first == _VERSION_OPTION else {first: _COMMANDS[first]} if first in _COMMANDS else _COMMANDS
    )
    _add(app, needed)
    return app


def _add(app: typer.Typer, commands: Mapping[str, str | _Group]) -> None:
    for name, target in commands.items():
        if isinstance(target, _Group):
            group = typer.Typer(help=target.help, no_args_is_help=True)
            _add(group, target.commands)
            app.add_typer(group, name=name)
        else:
            module, _, function = target.partition(":")
            command = getattr(import_module(f".{module}", __package__), function)
            app.command(name, help=_unwrapped(command.__doc__))(command)


def _unwrapped(text: str) -> str:
    """A docstring with one line per paragraph, so that lines can be wrapped to the terminal's width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"knime-mcp {VERSION}")
        raise typer.Exit


_VERSION_OPTION: Final = "--version"
_FIRST_STEPS: Final = f"""\
knime-mcp {VERSION}: tools of MCP servers, from the command line

  knime-mcp demo                                   what it does, in seconds, without any account
  knime-mcp config add NAME URL                    give your server a name (or: config import claude)
  knime-mcp list NAME                              its tools
  knime-mcp call NAME TOOL key=value               call one of them
  knime-mcp batch NAME TOOL table.csv              call it once per row
  knime-mcp agent 'A question' --server NAME       let a model use them
  knime-mcp inspect NAME                           why can I not connect?
  knime-mcp --help                                 all commands; COMMAND --help for their options"""


def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option(_VERSION_OPTION, callback=_print_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    """Shows the first steps if there is no command."""
    if context.invoked_subcommand is None:
        print(_FIRST_STEPS)
