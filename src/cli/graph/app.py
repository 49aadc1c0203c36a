"""The commands of ``knime-mcp graph``, one module each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from .check import check
from .new import new
from .run import run
from .serve import serve
from .show import show

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "check": check,
    "run": run,
    "serve": serve,
    "show": show,
    "new": new,
}


def graph_app(help_of: Callable[[str], str]) -> typer.Typer:
    """Builds the command group.

    Args:
        help_of: Makes help text of a docstring.
    """
    app = typer.Typer(
        help="Graphs: tools made of calls to other tools, declared in a YAML document.", no_args_is_help=True
    )
    for name, command in COMMANDS.items():
        app.command(name, help=help_of(command.__doc__ or ""))(command)
    return app
