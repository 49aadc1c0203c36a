"""What the tools side of an agent costs.

A call through LangChain's tool beside the same call of the client alone; making toolsets of many tools, and
finding one among five hundred.
"""

import asyncio
import itertools
import time

from langchain_core.tools import StructuredTool
from processes import fast_server
from timing import Row, Table, Way, repeated

from knime_mcp.agents._tool import LangchainToolConverter
from knime_mcp.agents.toolbox.replies import ToolReply, ToolRequest
from knime_mcp.agents.toolbox.tool_executor import ToolExecutor
from knime_mcp.agents.toolbox.tool_search import ToolIndex
from knime_mcp.agents.toolbox.toolset import Toolset
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.runs.checked_calls import Definitions, pinned_tool
from knime_mcp.runs.engine import Run
from knime_mcp.tools import MCPClient
from knime_mcp.types.routing import ServerRoute
from knime_mcp.types.tool import MCPTool
from tests.agents.toolbox import many_tools

NAME, ARGUMENTS = "tool_00001", {"query": "knime"}


def calls(table: Table, url: str, repeat: int, rounds: int) -> None:
    """One call in every way, beside the client alone."""
    route = ServerRoute.parse(url)
    with SessionPool(lambda _: MCPClient(url)) as pool, MCPClient(url) as client:
        tools = [pinned_tool(d, route, shown_name=d.name) for d in pool.client(route).list_tools()]
        run = Run(id="run", pool=pool, definitions=Definitions(pool), secrets=SecretMarker(["token-in-use"]))
        toolset = Toolset(tools)
        executor = ToolExecutor(toolset, run)
        tool = LangchainToolConverter(executor).to_langchain_tool(
            next(b.tool for b in toolset.bound if b.name == NAME), NAME
        )
        turns = itertools.count(1)  # each call in a turn of its own, as the calls of a turn are limited

        def run() -> None:
            request = ToolRequest(id="1", name=NAME, arguments=ARGUMENTS, iteration=next(turns))
            executor.run(request, is_canceled=lambda: False)

        async def ainvoke(times: int) -> None:
            for _ in range(times):
                await tool.ainvoke(ARGUMENTS)

        def bare() -> None:
            client.call_tool(NAME, ARGUMENTS)

        table.compare(
            "agent: one call",
            [
                Way("client.call_tool", repeated(bare, repeat)),
                Way("StructuredTool.invoke", repeated(lambda: tool.invoke(ARGUMENTS), repeat)),
                Way("Toolbox.run", repeated(run, repeat)),
                Way(
                    "StructuredTool.ainvoke",
                    lambda: repeated(lambda: asyncio.run(ainvoke(repeat)))() / repeat,
                ),
            ],
            rounds,
        )


class Context:
    """Executes nothing."""

    def _execute_mcp_tool(self, *_: object, running: object = None) -> ToolReply:  # noqa: ARG002 - as called
        request = ToolRequest(id="", name=NAME, arguments=ARGUMENTS, iteration=1)
        return ToolReply(request=request, content="")

    _execute_workflow_tool = _execute_mcp_tool


def wrappers(table: Table, repeat: int, rounds: int) -> None:
    """What LangChain's layer costs around a tool that does nothing, ours beside LangChain's own class."""
    tool = MCPTool(NAME, "Searches", {"type": "object"}, "https://host.example/mcp", NAME)
    ours = LangchainToolConverter(Context()).to_langchain_tool(tool)
    plain = StructuredTool(
        name=NAME,
        description="Searches",
        args_schema={"type": "object", "properties": {}},
        func=lambda **_: ("", None),
        response_format="content_and_artifact",
    )
    call = {"type": "tool_call", "id": "1", "name": NAME, "args": ARGUMENTS}
    table.compare(
        "agent: empty tool, ToolCall",
        [
            Way("LangChain's own class", repeated(lambda: plain.invoke(call), repeat)),
            Way("ours", repeated(lambda: ours.invoke(call), repeat)),
        ],
        rounds,
        unit="us",
    )


def conversions(table: Table, counts: list[int]) -> None:
    """Binding and converting many tools."""

    for count in counts:
        tools = [
            MCPTool(
                f"{function['name']}_{number}",
                function["description"],
                function["parameters"],
                "https://host.example/mcp",
                function["name"],
            )
            for number in range(-(-count // 500))
            for function in (tool["function"] for tool in many_tools.tools())
        ][:count]
        begin = time.perf_counter()
        toolset = Toolset(tools)
        bound = time.perf_counter()
        converter = LangchainToolConverter(Context())
        converted = [converter.to_langchain_tool(entry.tool, entry.name) for entry in toolset.bound]
        done = time.perf_counter()
        title = f"agent: {len(converted):,} tools"
        table.add(Row(title, "names and functions", "ms", (1000 * (bound - begin),)))
        table.add(Row(title, "StructuredTools", "ms", (1000 * (done - bound),)))


def search(table: Table) -> None:
    """Finding one of many tools."""
    tools = many_tools.tools()
    begin = time.perf_counter()
    index = ToolIndex(tools)
    indexed = time.perf_counter()
    questions = [question for question, _ in many_tools.questions()]
    for question in questions:
        index.find(question, 10)
    found = (time.perf_counter() - indexed) / len(questions)
    title = f"agent: search among {len(tools)} tools"
    table.add(Row(title, "index", "ms", (1000 * (indexed - begin),)))
    table.add(Row(title, "one search", "ms", (1000 * found,)))


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Calls, wrappers, conversions, searches."""
    with fast_server(50) as url:
        calls(table, url, 5 if smoke else 300, rounds)
    wrappers(table, 10 if smoke else 500, rounds)
    conversions(table, [10, 500] if smoke else [10, 500, 5000])
    search(table)
