"""Finding the tool that was named on the command line, at the server that was named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types.errors import ToolNotFound
from .stdio import how_to_name

if TYPE_CHECKING:
    from ..types.routing import ServerRoute
    from ..types.tool import MCPTool
    from .sessions import Sessions


def find_tool(sessions: Sessions, route: ServerRoute, name: str) -> MCPTool:
    """Asks the server for its tools and finds one.

    Args:
        sessions: The connections.
        route: The server.
        name: The name that the server knows.

    Returns:
        The tool, with the server's definition.

    Raises:
        ToolNotFound: There is none of that name; says which ones may have been meant, and how to see all.
        MCPError: The server cannot be asked.
    """
    try:
        definition = sessions.definitions.find(route, name, is_canceled=sessions.interrupt)
    except ToolNotFound as error:
        meant = f"Did you mean {' or '.join(error.suggestions)}? " if error.suggestions else ""
        error.fix = f"{meant}All tools: knime-mcp list {how_to_name(route)}"
        raise
    return definition.to_tool(route, shown_name=definition.name)
