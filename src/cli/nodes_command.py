"""``knime-mcp nodes``: which nodes there are, and how they are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from .nodes_build import build
from .nodes_gateway import gateway
from .nodes_keys import keys_app
from .nodes_search import search
from .nodes_serve import serve
from .nodes_show import show_node
from .nodes_types import types

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
