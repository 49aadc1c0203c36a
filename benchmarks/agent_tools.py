"""What the tools side of an agent costs: `python benchmarks/agent_tools.py`, `--smoke` for small counts.

A call through LangChain's tool beside the same call of the client alone; making toolsets of many tools;
finding one among five hundred, with what a model's context is spared and how often the right tool is found.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from langchain_core.tools import StructuredTool
from processes import fast_server
from timing import Row, Table, Way, repeated

sys.path.insert(0, str(Path(__file__).parent.parent))

from knime_mcp.agents._tool import LangchainToolConverter
from knime_mcp.agents.toolbox.executor import ToolExecutor
from knime_mcp.agents.toolbox.functions import token_estimate
from knime_mcp.agents.toolbox.tool_search import ToolIndex
from knime_mcp.agents.toolbox.toolbox import ToolReply, ToolRequest
from knime_mcp.agents.toolbox.toolset import Toolset
from knime_mcp.audit.definitions import Definitions, pinned_tool
from knime_mcp.audit.dispatch import Dispatcher
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.tools import MCPClient
from knime_mcp.tools.session_pool import SessionPool
from knime_mcp.types.routing import ServerRoute
from knime_mcp.types.tool import MCPTool
from tests.agents.toolbox import many_tools

NAME, ARGUMENTS = "tool_00001", {"query": "knime"}


def calls(table: Table, url: str, repeat: int, rounds: int) -> None:
    """One call in every way, beside the client alone."""
    route = ServerRoute.parse(url)
    with SessionPool(lambda _: MCPClient(url)) as pool, MCPClient(url) as client:
        tools = [pinned_tool(d, route, shown_name=d.name) for d in pool.client(route).list_tools()]
        dispatcher = Dispatcher(
            run="run", pool=pool, definitions=Definitions(pool), secrets=SecretMarker(["token-in-use"])
        )
        executor = ToolExecutor(Toolset(tools), dispatcher)
        tool = executor.langchain_tool(NAME)
        request = ToolRequest(id="1", name=NAME, arguments=ARGUMENTS, iteration=1)

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
                Way(
                    "Toolbox.run", repeated(lambda: executor.run(request, is_canceled=lambda: False), repeat)
                ),
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


def search() -> None:
    """Finding tools: how often, how fast, what it spares."""
    tools, questions = many_tools.tools(), many_tools.questions()
    names = [tool["function"]["name"] for tool in tools]
    begin = time.perf_counter()
    index = ToolIndex(tools)
    indexed = time.perf_counter()
    found = [(name, [names[place] for place in index.find(question, 10)]) for question, name in questions]
    done = time.perf_counter()
    by_name = dict(zip(names, tools, strict=True))
    cost = sum(token_estimate(by_name[name] for name in best) for _, best in found) / len(found)
    print(f"{len(tools)} tools, {len(questions)} questions")
    for first in (1, 5, 10):
        right = sum(name in best[:first] for name, best in found)
        print(f"  found among the first {first:>2}: {right} ({100 * right / len(found):.1f} %)")
    print(f"  tokens: all tools {token_estimate(tools):,}; the ten that a search finds {cost:,.0f} (mean)")
    each = 1e6 * (done - indexed) / len(found)
    print(f"  index {1000 * (indexed - begin):.1f} ms, a search {each:.0f} us (mean)")


def main() -> None:
    """Measures everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="small counts: shows only that it runs")
    smoke = parser.parse_args().smoke
    measure(Table("Agent, tools"), smoke=smoke, rounds=1 if smoke else 7)
    search()


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Calls, wrappers, conversions."""
    with fast_server(50) as url:
        calls(table, url, 5 if smoke else 300, rounds)
    wrappers(table, 10 if smoke else 500, rounds)
    conversions(table, [10, 500] if smoke else [10, 500, 5000])


if __name__ == "__main__":
    main()
