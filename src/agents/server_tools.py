"""The tools of MCP servers as LangChain's tools, for agents outside this project."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ..runs.checked_calls import pinned_tool
from ..runs.engine import new_run
from ..types.errors import SettingInvalid
from ..types.routing import ServerRoute
from ._tool import LangchainToolConverter
from .toolbox.tool_executor import ToolExecutor, ToolOptions
from .toolbox.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Generator

    from langchain_core.tools import StructuredTool

    from ..audit.journal import Journal
    from ..client.mcp_client import MCPClient


@contextmanager
def langchain_tools(
    *clients: MCPClient, options: ToolOptions | None = None, journal: Journal | None = None
) -> Generator[list[StructuredTool]]:
    """Provides the tools of MCP servers in LangChain's form.

    Example:
        with langchain_tools(MCPClient("https://host/mcp")) as tools:
            agent = create_agent("openai:gpt-5", tools)

    Args:
        *clients: One client per server; connected here, and closed at the end of the ``with`` block.
        options: The allowed calls, and the length of results for the model.
        journal: The journal for the record of every call; stays open.

    Yields:
        The tools of all servers. Their names are unique, and every model's endpoint accepts them. They work
        until the end of the ``with`` block, in any thread and any event loop.

    Raises:
        MCPError: A server cannot be reached, or two clients have the same server.
    """
    with ExitStack() as closing:
        by_route: dict[ServerRoute, MCPClient] = {}
        for client in clients:
            closing.callback(client.close)
            if by_route.setdefault(ServerRoute(client.server.url), client) is not client:
                raise SettingInvalid(
                    "Two clients are of the same server", setting="server_url", server=client.server.url
                )
        run = new_run(
            lambda route: by_route[replace(route, tool=None, digest=None)],
            secrets=(secret for client in clients for secret in client.secrets()),
            id=None if journal is None else journal.run,
        )
        run.records.journal = journal
        closing.enter_context(run.pool)
        toolset = Toolset(
            [
                pinned_tool(definition, route, shown_name=name)
                for route in by_route
                for name, definition in run.definitions.listing(route).items()
            ]
        )
        closing.callback(run.records.finish)
        converter = LangchainToolConverter(ToolExecutor(toolset, run, options=options))
        yield [converter.to_langchain_tool(bound.tool, bound.name) for bound in toolset.bound]
