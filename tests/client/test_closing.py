"""Closing a client while others are at work with it, and what a good-bye is not worth."""

import asyncio
import threading
import time

import pytest

from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import Canceled, ConnectError, TimedOut
from tests.client.child_servers import connected, in_background
from tests.client.logins import NO_TOKEN, Renewing
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    event,
    legacy,
    modern,
    rpc,
    stream,
    text,
    tool,
)
from tests.support.waiting import until

pytestmark = pytest.mark.quick


PATIENT = Timeouts(connect=90, idle=90)


def closed_in_time(client, *threads):
    """Closes the client from a thread, so that a test that fails does not hang."""
    closing, _ = in_background(client.close)
    for thread in (closing, *threads):
        thread.join(30)
        assert not thread.is_alive()


def test_whoever_connects_is_told_at_once():
    with ScriptedServer({"*": [Part.STALL]}) as server:
        client = MCPClient(server.url, timeouts=PATIENT)
        thread, box = in_background(client.connect)
        until(lambda: server.requests)
        closed_in_time(client, thread)
        assert isinstance(box[0], ConnectError)
        assert "client was closed" in str(box[0])
    assert len(server.requests) == 1, "nobody is asked for a closed client"


@pytest.mark.usefixtures("nothing_is_left")
def test_a_coroutine_connects_and_closes(era):
    async def called(url):
        async with MCPClient(url) as client:
            result = await asyncio.to_thread(client.call_tool, "t")
            return result.text

    with ScriptedServer(era(tools__call=rpc(text("done")))) as server:
        assert asyncio.run(called(server.url)) == "done"


def test_a_coroutine_that_is_canceled_does_not_connect_on():
    async def canceled(server):
        async def opened():
            async with MCPClient(server.url, timeouts=PATIENT):
                pass

        task = asyncio.create_task(opened())
        await asyncio.to_thread(until, lambda: server.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    with ScriptedServer({"*": [Part.STALL]}) as server:
        asyncio.run(canceled(server))


@pytest.mark.usefixtures("nothing_is_left")
def test_whoever_connects_to_a_silent_process_is_told_at_once():
    client = connected("silent on probe", "silent", timeouts=PATIENT)
    thread, box = in_background(client.connect)
    until(lambda: [t for t in threading.enumerate() if t.name == "knime-mcp-stdio-in"])
    closed_in_time(client, thread)
    assert "client was closed" in str(box[0])


def test_a_call_whose_reply_is_being_read_is_told_who_ended_it(era):
    """The server may have said that it wants a minute before the stream is taken up again."""
    held = stream(event("", id="1", retry=60_000), Part.EVENTS, end=False)
    with ScriptedServer(era(tools__call=held)) as server:
        client = MCPClient(server.url)
        client.connect()
        thread, box = in_background(lambda: client.call_tool("echo"))
        until(lambda: "tools/call" in server.methods)
        time.sleep(0.2)
        closed_in_time(client, thread)
        assert "client was closed" in str(box[0])


def test_nobody_logs_in_for_a_good_bye():
    auth = Renewing()
    script = legacy(session="s", tools__call=[Part.STALL])
    script |= {"DELETE": NO_TOKEN, "notifications/cancelled": NO_TOKEN}
    with ScriptedServer(script) as server, MCPClient(server.url, auth=auth) as client:
        with pytest.raises(TimedOut):
            client.call_tool("echo", timeout=0.3)
        client.close()
    assert "notifications/cancelled" in server.methods
    assert "DELETE" in server.methods
    assert auth.seen == []


def test_what_one_server_listed_says_nothing_about_another_one():
    """The second server has a tool of the same name, which promises something else."""
    promises = {"type": "object", "required": ["a"]}
    first = modern(tools__list=rpc({"tools": [tool(outputSchema=promises)], "resultType": "complete"}))
    result = text("b", structuredContent={"b": 1}, resultType="complete")
    with ScriptedServer(first) as one, ScriptedServer(modern(tools__call=rpc(result))) as other:
        client = MCPClient()
        client.connect(one.url)
        client.list_tools()
        client.connect(other.url)
        assert client.call_tool("echo").structured_content == {"b": 1}
        client.close()


def test_closing_ends_the_login_of_whoever_connects():
    begun = threading.Event()

    def wait_for_a_person(_):
        begun.set()
        until(auth.is_canceled)
        raise Canceled("Canceled")

    auth = Renewing(wait_for_a_person)
    with ScriptedServer({"*": NO_TOKEN}) as server:
        client = MCPClient(server.url, auth=auth)
        thread, box = in_background(client.connect)
        assert begun.wait(30)
        closed_in_time(client, thread)
        assert "client was closed" in str(box[0])
