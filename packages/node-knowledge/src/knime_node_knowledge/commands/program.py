"""The command ``knime-nodes``: which nodes exist, and how they are configured. Also as an MCP server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from knime_mcp.cli.app import prepare, until_canceled
from knime_mcp.cli.commands import Group, command_line
from knime_mcp.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS: Final[Mapping[str, str | Group]] = {
    "search": "node_lookup:search",
    "show": "node_lookup:show_node",
    "types": "node_lookup:types",
    "check-workflow": "node_lookup:check_workflow",
    "build": "node_catalogue:build",
    "serve": "node_servers:serve",
    "gateway": "node_servers:gateway",
    "keys": Group(
        "Keys for the gateway. Only digests of them are kept.",
        {
            "create": "node_servers:create",
            "list": "node_servers:list_keys",
            "revoke": "node_servers:revoke",
        },
    ),
}
"""Module and function of each command."""


def main() -> None:
    until_canceled(_run)


def _run() -> None:
    prepare()
    build_app(sys.argv[1] if len(sys.argv) > 1 else None)(prog_name="knime-nodes")


def build_app(first: str | None = None) -> typer.Typer:
    """Builds the command line; of its first word only, if that names a command."""
    app = command_line(
        __package__ or "",
        COMMANDS,
        first,
        help="Node knowledge: which nodes exist, and how they are configured. Also as an MCP server.",
        no_args_is_help=True,
    )
    app.callback()(_root)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"knime-nodes {VERSION}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    pass


if __name__ == "__main__":
    main()
