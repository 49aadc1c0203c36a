"""The tools of MCP servers as LangChain's tools, for agents outside this project."""

from __future__ import annotations

import asyncio
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
from .toolbox.tool_threads import in_thread
from .toolbox.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractContextManager

    from langchain_core.tools import StructuredTool

    from ..audit.journal import Journal
    from ..client.mcp_client import MCPClient

_log: Final = logging.getLogger(__name__)


def langchain_tools(
    *clients: MCPClient,
    options: ToolOptions | None = None,
    journal: Journal | None = None,
    prefix: str = "",
    on_tool_error: Literal["answer", "raise"] = "answer",
    images: bool = False,
) -> _Block:
    """Provides the tools of MCP servers in LangChain's form, with ``with`` or ``async with``.

    Example:
        with langchain_tools(MCPClient("https://host/mcp")) as tools:
            agent = create_agent("openai:gpt-5", tools)

    Args:
        *clients: One client per server; connected and closed by the block.
        options: The allowed calls, and the length of results for the model.
        journal: The journal for the record of every call; stays open.
        prefix: A text in front of the names, in which ``{server}`` stands for the server's name.
        on_tool_error: ``answer`` makes a failure the tool's answer, with the status ``error``, which models
            can correct; ``raise`` raises ``ToolException`` instead, which LangChain's callbacks
            (``on_tool_error``), retries and ``handle_tool_error`` know.
        images: Whether the content of a result with images is a list of LangChain's content blocks, text and
            images, for models that take images from tools. Otherwise it is text alone; the artifact has the
            images in any case.

    Returns:
        A block that gives the tools of all servers, and `read_result`, which reads on in results that were
        cut. Their names are unique, and every model's endpoint accepts them. They work until the end of the
        block, in any thread and any event loop.

    Raises:
        MCPError: A server cannot be reached, or two clients have the same server.
    """
    return _Block(clients, _opened(clients, options or ToolOptions(), journal, prefix, on_tool_error, images))


class _Block:
    """What ``with`` and ``async with`` enter, once."""

    def __init__(
        self, clients: Sequence[MCPClient], tools: AbstractContextManager[list[StructuredTool]]
    ) -> None:
        self._clients = clients
        self._tools = tools

    def __enter__(self) -> list[StructuredTool]:
        return self._tools.__enter__()

    def __exit__(self, *_: object) -> None:
        self._tools.__exit__(None, None, None)

    async def __aenter__(self) -> list[StructuredTool]:
        try:
            return await in_thread(self._tools.__enter__)
        except asyncio.CancelledError:
            # A thread cannot be cancelled; without its connections it ends by itself.
            for client in self._clients:  # also those that connect at this moment
                await in_thread(client.close)
            raise

    async def __aexit__(self, *_: object) -> None:
        await in_thread(self._tools.__exit__, None, None, None)


@contextmanager
def _opened(
    clients: Sequence[MCPClient],
    options: ToolOptions,
    journal: Journal | None,
    prefix: str,
    on_tool_error: Literal["answer", "raise"],
    images: bool,
) -> Generator[list[StructuredTool]]:
    with ExitStack() as closing:
        by_route: dict[ServerRoute, MCPClient] = {}
        for client in clients:
            closing.callback(client.close)
            # The route says which client makes a call, so it has to be of one client.
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
        toolset = Toolset(
            [
                pinned_tool(definition, route, shown_name=prefix.replace("{server}", label) + name)
                for route, label in zip(by_route, labels, strict=True)
                for name, definition in run.definitions.listing(route).items()
            ]
        )
        for remark in toolset.notes:
            _log.warning("%s", remark)
        closing.callback(run.records.finish)
        executor = ToolExecutor(toolset, run, options=options)
        converter = LangchainToolConverter(executor, raises=on_tool_error == "raise", images=images)
        tools = [converter.to_langchain_tool(bound.tool, bound.name) for bound in toolset.bound]
        for tool, bound in zip(tools, toolset.bound, strict=True):
            tool.description = bound.definition["function"]["description"]  # with its server, if need be
        if tools:
            tools.append(converter.reading_tool(executor))
        yield tools
