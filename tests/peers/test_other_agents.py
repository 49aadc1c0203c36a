"""What `docs/agents.md` promises to agents of others: those of LangChain, LangGraph and pydantic-ai.

Their packages are in `.peers/agents`, and are imported into the tests' own process. The models are scripts.
"""

import asyncio
import re
import sys
from pathlib import Path

import httpx
import pytest
from langchain_core.messages import AIMessage

from knime_mcp.agents import langchain_tools
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.audit.record import CallStatus
from knime_mcp.tools import MCPClient
from tests.peers import build_peers
from tests.support import peers
from tests.support.chat_server import ChatServer, call, calls, says

pytestmark = pytest.mark.peer

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
THREAD = {"configurable": {"thread_id": "1"}}
QUESTION = {"messages": "What is 19 and 23?"}


@pytest.fixture(autouse=True, scope="module")
def packages():
    peers.needs("agents")
    with pytest.MonkeyPatch.context() as patch:
        # At the end: where a package is installed twice, it is the one of this project's environment.
        patch.setattr(sys, "path", [*sys.path, str(build_peers.packages("agents"))])
        yield


@pytest.fixture(scope="module")
def server():
    with peers.running(peers.counting()) as running:
        yield running


@pytest.fixture
def model():
    """A scripted model as LangChain's."""
    from langchain_openai import ChatOpenAI

    def of(scripted, **more):
        return ChatOpenAI(model="test-model", base_url=scripted.url, api_key="none", max_retries=0, **more)

    return of


def results(scripted):
    """What the model was told by tools in its last request."""
    return [message["content"] for message in scripted.requests[-1].messages if message["role"] == "tool"]


def test_the_documents_example(server, monkeypatch, capsys):
    section = PAGE.read_text("utf-8").partition("## In an agent of your own")[2]
    example = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    written = "http://127.0.0.1:8931/mcp"
    assert written in example
    with ChatServer([calls(call("who")), says("The oak desk.")]) as scripted:
        monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        example = example.replace(written, server.url("/one")).replace("gpt-5", "test-model")
        exec(compile(example, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "The oak desk.\n"
    assert results(scripted) == ["one"]


def test_calls_in_an_event_loop_and_failures_that_the_model_corrects(server, model):
    from langchain.agents import create_agent

    turns = [
        calls(call("add", {"a": "nineteen"}), call("fail", {"why": "rain"})),
        calls(call("add", {"a": 19, "b": 23})),
        says("42"),
    ]

    async def answer():
        client = MCPClient(server.url("/one"))
        async with httpx.AsyncClient() as http, langchain_tools(client) as tools:
            agent = create_agent(model(scripted, http_async_client=http), tools)
            return (await agent.ainvoke(QUESTION))["messages"]

    with ChatServer(turns) as scripted:
        messages = asyncio.run(answer())
    told = {message.name: message for message in messages if message.type == "tool"}
    refused, failed, added = results(scripted)
    assert "nineteen" in refused
    assert "rain" in failed
    assert added == "42"
    assert [message.status for message in messages if message.type == "tool"] == ["error", "error", "success"]
    assert told["add"].artifact.record.result == "42"
    assert messages[-1].text == "42"


def test_pictures_reach_the_model_and_long_results_are_read_on(server, model):
    from langchain.agents import create_agent

    turns = [
        calls(call("pixel"), call("big", {"megabytes": 1})),
        calls(call("read_result", {"id": "r1", "offset": 1_048_570})),
        says("A pixel, and an x at the end."),
    ]
    options = ToolOptions(longest_result=1000)
    with (
        ChatServer(turns) as scripted,
        langchain_tools(MCPClient(server.url("/one")), options=options, images=True) as tools,
    ):
        answer = create_agent(model(scripted), tools).invoke(QUESTION)["messages"][-1].text
    (text, picture), cut, rest = results(scripted)
    assert text["text"] == "[image image/png, 70 bytes]"
    assert picture["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert "call read_result" in cut
    assert rest.endswith("this is its end]\nxxxxxx")
    assert answer == "A pixel, and an x at the end."


def test_failures_that_are_raised_are_tried_again(server, model):
    from langchain.agents import create_agent
    from langchain.agents.middleware import ToolRetryMiddleware

    tries = []

    class Counting(ToolRetryMiddleware):
        def wrap_tool_call(self, request, handler):
            return super().wrap_tool_call(request, lambda again: tries.append(again) or handler(again))

    retry = Counting(max_retries=2, initial_delay=0, jitter=False)
    client = MCPClient(server.url("/one"))
    with (
        ChatServer([calls(call("fail", {"why": "rain"})), says("It failed.")]) as scripted,
        langchain_tools(client, on_tool_error="raise") as tools,
    ):
        agent = create_agent(model(scripted), tools, middleware=[retry])
        agent.invoke(QUESTION)
    assert len(tries) == 3
    assert "rain" in results(scripted)[0]


def test_a_person_decides_on_calls_that_are_not_read_only_and_checkpoints_keep_results(server, model, caplog):
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.types import Command

    turns = [calls(call("add", {"a": 1})), calls(call("who"), call("called")), says("two servers")]
    kept = InMemorySaver(
        serde=JsonPlusSerializer(allowed_msgpack_modules=[("knime_mcp.audit.record", "CallStatus")])
    )
    with ChatServer(turns) as scripted, langchain_tools(MCPClient(server.url("/one"))) as tools:
        asked = {tool.name: not (tool.metadata or {}).get("readOnlyHint", False) for tool in tools}
        person = HumanInTheLoopMiddleware(interrupt_on=asked)
        agent = create_agent(model(scripted), tools, middleware=[person], checkpointer=kept)
        (stopped,) = agent.invoke(QUESTION, THREAD)["__interrupt__"]
        assert [action["name"] for action in stopped.value["action_requests"]] == ["who", "called"]
        decisions = [{"type": "approve"}, {"type": "reject", "message": "not now"}]
        agent.invoke(Command(resume={"decisions": decisions}), THREAD)
        messages = agent.get_state(THREAD).values["messages"]
    assert [record for record in caplog.records if record.name.startswith("langgraph")] == []
    added, rejected, who = results(scripted)  # what was rejected did not have to wait
    assert (added, who) == ("2", "one")
    assert "not now" in rejected
    records = {m.name: m.artifact["record"] for m in messages if m.type == "tool" and m.artifact}
    assert {name: record["result"] for name, record in records.items()} == {"add": "2", "who": "one"}
    assert {record["status"] for record in records.values()} == {CallStatus.OK}


def test_a_node_of_tools_in_a_graph(server):
    from langgraph.graph import MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    wanted = [
        {"name": name, "args": arguments, "id": name}
        for name, arguments in {"add": {"a": 1, "b": 2}, "who": {}, "fail": {"why": "rain"}}.items()
    ]
    with langchain_tools(MCPClient(server.url("/one")), MCPClient(server.url("/two"))) as tools:
        # Those of both servers have a suffix where they share a name.
        names = {tool.name.partition("_")[0]: tool.name for tool in tools}
        for one in wanted:
            one["name"] = names[one["name"]]
        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(tools))
        graph.set_entry_point("tools")
        graph.set_finish_point("tools")
        state = graph.compile().invoke({"messages": [AIMessage("", tool_calls=wanted)]})
    told = {message.tool_call_id: message for message in state["messages"][1:]}
    assert (told["add"].content, told["who"].content) == ("3", "two")
    assert "rain" in told["fail"].content
    assert told["fail"].status == "error"


def test_pydantic_ai(server):
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.ext.langchain import LangChainToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    turns = [calls(call("add", {"a": 19, "b": 23}), call("fail", {"why": "rain"})), says("42")]

    async def answer(tools):
        async with AsyncOpenAI(base_url=scripted.url, api_key="none") as client:
            model = OpenAIChatModel("test-model", provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, toolsets=[LangChainToolset(tools)])
            return (await agent.run("What is 19 and 23?")).output

    with ChatServer(turns) as scripted, langchain_tools(MCPClient(server.url("/one"))) as tools:
        assert asyncio.run(answer(tools)) == "42"
    added, failed = results(scripted)
    assert added == "42"
    assert "rain" in failed
