"""Tools on MCP servers: the nodes that list and call them, and the client for programs.

The client's names are those of `mcp_client`. They are loaded on first use, so that a node module does not pay
for the client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .mcp_client import *  # noqa: F403
    from .mcp_client import __all__  # noqa: F401


def __getattr__(name: str) -> Any:
    if name == "__all__" or name[0].isupper():  # not for `from . import` of a module
        client = import_module(".mcp_client", __name__)
        if name in {"__all__", *client.__all__}:
            return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
