"""What the servers of a run say about their tools: asked once, and again when the answer holds no more."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.runs import checked_calls
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import Definitions
from knime_mcp.runs.engine import new_run
from knime_mcp.tools import Limits, MCPClient
from knime_mcp.types.errors import Canceled, ConnectError, ToolNotFound
from knime_mcp.types.routing import ServerRoute
from knime_mcp.types.tool import MCPTool
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    event,
    http,
    modern,
    notification,
    reply_event,
    rpc,
    stream,
    text,
    tool,
)
from tests.support.waiting import until

pytestmark = pytest.mark.quick


LISTED = rpc({"tools": [tool()], "resultType": "complete"})


@pytest.fixture
def asked():
    """Definitions by a server that is being restarted when it is first asked."""
    with (
        ScriptedServer(modern(tools__list=[http(503), LISTED])) as server,
        SessionPool(lambda route: MCPClient(route.url, limits=Limits(attempts=1))) as pool,
    ):
        yield server, ServerRoute(server.url), Definitions(pool)


def test_a_server_that_could_not_be_asked_is_not_asked_again_at_once(asked):
    server, route, definitions_of_run = asked
    frames: list[int] = []
    for _ in range(3):
        with pytest.raises(ConnectError, match="503") as caught:
            definitions_of_run.find(route, "echo")
        frames.append(len(caught.traceback))
    assert server.methods.count("tools/list") == 1
    assert frames[1] == frames[2], "the error remembers all who got it"


def test_a_server_that_could_not_be_asked_is_asked_again_after_a_while(asked, monkeypatch):
    monkeypatch.setattr(checked_calls, "_FAILURE_HOLDS_SECONDS", 0.0)
    server, route, definitions_of_run = asked
    with pytest.raises(ConnectError, match="503"):
        definitions_of_run.find(route, "echo")
    assert definitions_of_run.find(route, "echo").name == "echo"
    definitions_of_run.find(route, "echo")
    assert server.methods.count("tools/list") == 2


@pytest.fixture
def two_calls():
    """Two calls that ask for the same listing, which does not come: each with what cancels it."""
    script = modern(tools__list=[[Part.STALL], LISTED])
    with (
        ScriptedServer(script) as server,
        SessionPool(lambda route: MCPClient(route.url)) as pool,
        ThreadPoolExecutor(2) as threads,
    ):
        route, of_run = ServerRoute(server.url), Definitions(pool)
        stops = Event(), Event()
        asking = []
        for stop in stops:
            asking.append(threads.submit(of_run.find, route, "echo", is_canceled=stop.is_set))
            until(lambda: "tools/list" in server.methods)
        yield server, stops, asking
        for stop in stops:
            stop.set()


def test_a_call_that_waits_for_the_listing_of_a_canceled_one_asks_itself(two_calls):
    server, (stop, _), (first, second) = two_calls
    stop.set()
    with pytest.raises(Canceled):
        first.result(60)
    assert second.result(60).name == "echo"
    assert server.methods.count("tools/list") == 2


def test_a_call_that_waits_for_the_listing_of_another_one_can_be_canceled(two_calls):
    _, (_, stop), (first, second) = two_calls
    stop.set()
    with pytest.raises(Canceled):
        second.result(60)
    assert not first.done()


def test_a_tool_that_was_left_out_is_said_to_be_that():
    listed = rpc({"tools": [tool(), tool("wide", title="t" * 20_000)], "resultType": "complete"})
    with (
        ScriptedServer(modern(tools__list=listed)) as server,
        SessionPool(lambda route: MCPClient(route.url)) as pool,
        pytest.raises(ToolNotFound, match="no tool 'wide' that can be used: its title has 20,000 characters"),
    ):
        Definitions(pool).find(ServerRoute(server.url), "wide")


def test_a_call_that_was_canceled_while_it_was_checked_is_not_blamed_for_its_arguments():
    schema = {"required": [f"p{n}" for n in range(1000)]}
    asked = MCPTool(
        name="a", description="", parameter_schema=schema, server_uri="http://a.b/", tool_name="a"
    )
    outcome = new_run(lambda route: None).call(
        PlannedCall(tool=asked, arguments={}), is_canceled=lambda: True
    )
    assert (outcome.record.status.value, outcome.record.attempts) == ("canceled", 0)


def test_a_server_that_tells_of_changes_with_every_call_is_not_listed_with_every_call():
    tells = event(notification("notifications/tools/list_changed"))
    script = modern(tools__list=LISTED, tools__call=stream(tells, reply_event(text("hi"))))
    with (
        ScriptedServer(script) as server,
        SessionPool(lambda route: MCPClient(route.url)) as pool,
    ):
        route, of_run = ServerRoute(server.url), Definitions(pool)
        for _ in range(10):
            of_run.find(route, "echo")
            pool.client(route).call_tool("echo")
        assert server.methods.count("tools/list") == 2
        server.script["tools/list"] = rpc({"tools": [tool(description="new")], "resultType": "complete"})
        until(lambda: of_run.find(route, "echo").description == "new", "a change is seen after a pause")
