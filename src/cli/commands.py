"""All commands of ``knime-mcp`` under one roof. Importing them is cheap: what they need, they load later."""

from typing import Annotated

import typer

from ..version import VERSION
from .agent_command import agent
from .audit_command import show_records, verify
from .batch import batch
from .call import call
from .demo import demo
from .export_command import export
from .graph.app import graph_app
from .inspect import inspect
from .login import login, logout
from .nodes.app import nodes_app
from .replay_command import replay
from .run_command import run
from .tools_command import list_tools


def build_app() -> typer.Typer:
    """Builds the command line."""
    app = typer.Typer(
        help="Tools on MCP servers, from the command line: list them, call them, call them once per row of a"
        " table. The same code that KNIME's nodes run.",
        epilog="Start with: knime-mcp demo",
        no_args_is_help=True,
        add_completion=False,
        # A traceback with the values of local variables would show tokens.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    commands = {
        "demo": demo,
        "inspect": inspect,
        "list": list_tools,
        "call": call,
        "batch": batch,
        "agent": agent,
        "replay": replay,
        "run": run,
        "login": login,
        "logout": logout,
    }
    for name, command in commands.items():
        app.command(name, help=_unwrapped(command.__doc__ or ""))(command)
    audit = typer.Typer(help="Verify, show and export the records of calls.", no_args_is_help=True)
    for name, command in {"verify": verify, "show": show_records, "export": export}.items():
        audit.command(name, help=_unwrapped(command.__doc__ or ""))(command)
    app.add_typer(audit, name="audit")
    app.add_typer(graph_app(_unwrapped), name="graph")
    app.add_typer(nodes_app(_unwrapped), name="nodes")
    return app


def _unwrapped(text: str) -> str:
    """A docstring with one line per paragraph: the terminal's width decides where lines end."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"knime-mcp {VERSION}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show version."),
    ] = False,
) -> None:
    """Hosts the options that belong to no command."""
