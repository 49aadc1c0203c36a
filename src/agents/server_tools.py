"""The tools of MCP servers as LangChain's tools, for agents outside this project."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from ..runs.checked_calls import pinned_tool
from ..runs.engine import new_run
from ..types.errors import SettingInvalid
from ..types.routing import ServerRoute, server_labels
from ._tool import LangchainToolConverter
from .toolbox.tool_executor import ToolExecutor, ToolOptions
from .toolbox.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Generator

    from langchain_core.tools import StructuredTool

    from ..audit.journal import Journal
    from ..client.mcp_client import MCPClient

_log: Final = logging.getLogger(__name__)


@contextmanager
def langchain_tools(
    *clients: MCPClient,
    options: ToolOptions | None = None,
    journal: Journal | None = None,
    prefix: str = "",
    on_tool_error: Literal["answer", "raise"] = "answer",
) -> Generator[list[StructuredTool]]:
    """Provides the tools of MCP servers in LangChain's form.

    Example:
        with langchain_tools(MCPClient("https://host/mcp")) as tools:
            agent = create_agent("openai:gpt-5", tools)

    Args:
        *clients: One client per server; connected here, and closed at the end of the ``with`` block.
        options: The allowed calls, the length of results for the model, what becomes of tools with suspicious
            descriptions. With ``stop_on_error`` a tool that fails raises ``ToolException``.
        journal: The journal for the record of every call; stays open.
        prefix: A text in front of the names, in which ``{server}`` stands for the server's name.
        on_tool_error: ``answer`` makes a failure the tool's answer, with the status ``error``, which models
            can correct; ``raise`` raises ``ToolException`` instead, which LangChain's callbacks
            (``on_tool_error``), retries and ``handle_tool_error`` know.

    Yields:
        The tools of all servers. Their names are unique, and every model's endpoint accepts them. They work
        until the end of the ``with`` block, in any thread and any event loop.

    Raises:
        MCPError: A server cannot be reached, two clients have the same server, or tools are suspicious and
            the options say fail.
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
        labels = server_labels([route.url for route in by_route])
        options = options or ToolOptions()
        toolset = Toolset(
            [
                pinned_tool(definition, route, shown_name=prefix.replace("{server}", label) + name)
                for route, label in zip(by_route, labels, strict=True)
                for name, definition in run.definitions.listing(route).items()
            ],
            suspicious=options.suspicious_tools,
        )
        for remark in toolset.notes:
            _log.warning("%s", remark)
        closing.callback(run.records.finish)
        executor = ToolExecutor(toolset, run, options=options)
        converter = LangchainToolConverter(executor, raises=on_tool_error == "raise")
        tools = [converter.to_langchain_tool(bound.tool, bound.name) for bound in toolset.bound]
        for tool, bound in zip(tools, toolset.bound, strict=True):
            tool.description = bound.definition["function"]["description"]  # with its server, if need be
        yield tools
