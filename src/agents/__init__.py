"""Agents: models that call workflow tools and MCP tools from one column.

`langchain_tools` is loaded on first use, so that nodes do not import LangChain before they are executed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server_tools import langchain_tools

__all__ = ["langchain_tools"]


def __getattr__(name: str) -> Any:
    if name != "langchain_tools":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .server_tools import langchain_tools

    return langchain_tools
