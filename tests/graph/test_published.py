"""What servers say during calls goes to the client whose call it is; with the official SDK on both sides."""

import asyncio

import mcp_types as types
import pytest
from mcp.client import Client

from knime_mcp.graph import McpGraphApi
from knime_mcp.graph.graph_service import GraphService
from knime_mcp.graph.input_rounds import InputRounds
from knime_mcp.graph.sdk_server import GraphServer
from knime_mcp.stdio.session import Refused, RequestedCall
from tests.support import peers
from tests.support.peers import running

from .graphs import EXIT, load, tool, yaml
from .live import ERAS, run

ENTRY = "{id: entry, type: entry, next: a}"
ORDER = "{id: a, type: mcp, server: shop, tool: order, args: {}, next: b}"
SAID = "{id: b, type: transform, transform: {expr: \"{'said': a}\"}, next: exit}"


@pytest.fixture(scope="module")
def shop():
    with running(peers.asking()) as server:
        yield server


@pytest.fixture
def server(shop):
    text = yaml(
        tool(ENTRY, ORDER, SAID, EXIT, name="bought"),
        servers=f"mcpServers: {{shop: {{type: streamableHttp, url: '{shop.url('/mcp')}'}}}}\n",
        more="publish: {shop: {tools: true, resources: true, prompts: true, questions: true}}\n",
    )
    service = GraphService(McpGraphApi(load(text)))
    yield GraphServer(service).server
    service.close()


def named(name):
    """Answers forms: a person with this name."""

    async def answer(_, params):
        assert params.message == "Who orders?"
        await asyncio.sleep(0.05)  # until the others have asked, too
        return types.ElicitResult(action="accept", content={"name": name, "pieces": 2})

    return answer


@pytest.mark.parametrize("mode", ERAS)
def test_each_client_is_asked_what_its_own_call_asks(server, mode):
    async def ordered(name, tool):
        async with Client(server, mode=mode, elicitation_callback=named(name)) as client:
            result = await client.call_tool(tool, {})
            return result.content[0].text

    async def orders():
        asked = [(name, tool) for name in ("Ann", "Bob", "Cy") for tool in ("order", "bought")]
        return asked, await asyncio.gather(*(ordered(*one) for one in asked))

    asked, answers = run(orders())
    for (name, _), answer in zip(asked, answers, strict=True):
        assert f"name='{name}'" in answer, answer


@pytest.mark.parametrize("mode", ERAS)
def test_the_model_of_the_client_is_asked(server, mode):
    async def answer(_, params):
        assert params.messages[0].content.text == "Summarize: long"
        content = types.TextContent(type="text", text="short")
        return types.CreateMessageResult(role="assistant", model="m", content=content)

    async def summary():
        async with Client(server, mode=mode, sampling_callback=answer) as client:
            return (await client.call_tool("summarize", {"text": "long"})).content[0].text

    assert run(summary()) == "m: short"


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_that_cannot_be_asked_is_not(server, mode):
    async def ordered():
        async with Client(server, mode=mode) as client:
            return await client.call_tool("bought", {})

    assert run(ordered()).is_error


@pytest.mark.parametrize("mode", ERAS)
def test_resources_and_prompts_are_those_of_the_server(server, mode):
    async def offered():
        async with Client(server, mode=mode) as client:
            resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
            (text,) = (await client.read_resource("notes:///today.md")).contents
            prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
            message = (await client.get_prompt("letter", {"to": "Ann"})).messages[0]
            with pytest.raises(Exception, match=r"nowhere:///x"):
                await client.read_resource("nowhere:///x")
            with pytest.raises(Exception, match="no prompt 'lettre'"):
                await client.get_prompt("lettre")
            return resources, text.text, prompts, message.content.text

    resources, text, prompts, message = run(offered())
    assert resources == ["notes:///today.md", "notes:///long.txt"]
    assert text == "The desk is 80 cm high."
    assert (prompts, message) == (["letter"], "Write a friendly letter to Ann.")


def test_answers_to_nothing_that_waits_are_refused(server):
    async def answered():
        async with Client(server, mode="2026-07-28") as client:
            asked = {"action": "accept", "content": {"name": "Ann"}}
            with pytest.raises(Exception, match="No call waits for these answers"):
                await client.session.call_tool(
                    "order", {}, input_responses={"q1": asked}, request_state="guessed"
                )

    run(answered())


def test_calls_that_wait_for_ever_leave_room_for_others():
    async def waits():
        rounds = InputRounds(lambda call, _: call.client.ask("elicitation/create", {"message": "?"}))
        call = RequestedCall(tool="t", arguments={}, meta={}, any_json=True)
        states = [(await rounds.call(call, None, state=None, answers={}))["requestState"] for _ in range(65)]
        with pytest.raises(Refused, match="No call waits"):
            await rounds.call(call, None, state=states[0], answers={"q1": {"action": "cancel"}})
        answer = await rounds.call(call, None, state=states[1], answers={"q1": {"action": "cancel"}})
        rounds.close()
        return answer

    assert run(waits()) == {"action": "cancel"}


def test_a_tool_of_a_server_that_has_not_listed_may_be_there_later():
    gone = "mcpServers: {slow: {type: streamableHttp, url: 'http://127.0.0.1:9/mcp'}}\n"
    text = yaml(
        tool(ENTRY.replace("next: a", "next: exit"), EXIT),
        servers=gone,
        more="publish: {slow: {tools: true}}\n",
    )
    service = GraphService(McpGraphApi(load(text)))
    try:

        async def called():
            async with Client(GraphServer(service).server) as client:
                return (await client.call_tool("order", {})).content[0].text

        said = run(called())
    finally:
        service.close()
    assert "Tool not found: order; not listed yet: the tools of slow" in said
    assert "Try again once it answers" in said
