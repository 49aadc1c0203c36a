"""``knime-mcp nodes``: which nodes there are, and how they are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from .build import build
from .gateway import gateway
from .keys import keys_app
from .search import search
from .serve import serve
from .show import show_node
from .types import types

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "build": build,
    "search": search,
    "show": show_node,
    "types": types,
    "serve": serve,
    "gateway": gateway,
}


def nodes_app(help_of: Callable[[str], str]) -> typer.Typer:
    """Builds the command group.

    Args:
        help_of: Makes help text of a docstring.
    """
    app = typer.Typer(
        help="Node knowledge: which nodes exist, and how they are configured. Also as an MCP server.",
        no_args_is_help=True,
    )
    for name, command in COMMANDS.items():
        app.command(name, help=help_of(command.__doc__ or ""))(command)
    app.add_typer(keys_app(help_of), name="keys")
    return app
