"""Command lines from tables of commands, whose modules are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping


class Group(NamedTuple):
    help: str
    commands: Mapping[str, str | Group]


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
