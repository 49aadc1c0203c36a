"""Tools that insist on running as tasks (2025-11-25)."""

import math
import time

import pytest

from knime_mcp.tools import Limits, MCPClient
from knime_mcp.types.errors import Canceled, MCPError, ProtocolError, ServerError, TimedOut
from tests.client.child_servers import in_background
from tests.support.scripted_server import ScriptedServer, http, initialize, legacy, rpc, rpc_error, text, tool
from tests.support.waiting import until

pytestmark = pytest.mark.quick


CAPABILITIES = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
TOOL = tool("research", execution={"taskSupport": "required"})


def task(status, **more):
    return {"taskId": "t-1", "status": status, "pollInterval": 50, **more}


def script(**replies):
    return {
        **legacy(tools__list=rpc({"tools": [TOOL, tool("plain", execution={"taskSupport": "optional"})]})),
        "initialize": initialize(capabilities=CAPABILITIES),
        "tools/call": rpc({"task": task("working")}),
        "tasks/get": [rpc(task("working", statusMessage="half")), rpc(task("completed"))],
        "tasks/result": rpc(text("found")),
        "tasks/cancel": rpc(task("cancelled")),
        **replies,
    }


def test_a_task_is_polled_and_its_result_fetched():
    told = []
    with ScriptedServer(script()) as server, MCPClient(server.url) as client:
        client.list_tools()
        assert client.call_tool("research", {"q": 1}, timeout=30, on_progress=told.append).text == "found"
    call = server.named("tools/call")[0]
    assert call.params["task"] == {"ttl": 30_000}
    assert call.params["arguments"] == {"q": 1}
    assert server.methods[-3:] == ["tasks/get", "tasks/get", "tasks/result"]
    assert server.requests[-1].params["taskId"] == "t-1"
    assert [progress.message for progress in told] == ["half"]


def test_a_call_without_an_end_asks_for_no_lifetime():
    with ScriptedServer(script()) as server, MCPClient(server.url) as client:
        client.list_tools()
        assert client.call_tool("research", timeout=math.inf).text == "found"
    assert server.named("tools/call")[0].params["task"] == {}


def test_a_progress_callback_that_fails_does_not_end_the_task(caplog):
    def fail(progress):
        raise RuntimeError("token-of-mine")

    with ScriptedServer(script()) as server, MCPClient(server.url) as client:
        client.list_tools()
        assert client.call_tool("research", {"q": 1}, timeout=30, on_progress=fail).text == "found"
    assert f"a progress callback failed: RuntimeError at {__file__}:" in caplog.text
    assert "token-of-mine" not in caplog.text


def test_other_tools_are_called_plainly():
    with ScriptedServer(script(**{"tools/call": rpc(text("hi"))})) as server, MCPClient(server.url) as client:
        client.list_tools()
        assert client.call_tool("plain").text == "hi"
    assert "task" not in server.requests[-1].params


def test_cancel_cancels_the_task():
    started = time.monotonic()
    endless = script(**{"tasks/get": rpc(task("working"))})
    with ScriptedServer(endless) as server, MCPClient(server.url) as client:
        client.list_tools()
        with pytest.raises(Canceled):
            client.call_tool("research", is_canceled=lambda: time.monotonic() > started + 0.4)
    assert server.named("tasks/cancel")[0].params == {"taskId": "t-1"}


def test_a_server_that_makes_no_task_is_an_error():
    with (
        ScriptedServer(script(**{"tools/call": rpc(text("hi"))})) as server,
        MCPClient(server.url) as client,
    ):
        client.list_tools()
        with pytest.raises(ProtocolError, match="without one"):
            client.call_tool("research")


@pytest.mark.parametrize(
    "refusal",
    [
        rpc_error(-32601, "This tool must run as a task"),
        rpc(text("MCP error -32601: Tool research requires task augmentation", isError=True)),
    ],
)
def test_a_tool_that_was_never_listed_is_called_as_a_task_after_all(refusal):
    """The server says so by refusing the plain call, which has not run then."""
    calls = [refusal, rpc({"task": task("working")})]
    with ScriptedServer(script(**{"tools/call": calls})) as server, MCPClient(server.url) as client:
        assert client.call_tool("research").text == "found"
    first, second = server.named("tools/call")
    assert "task" not in first.params
    assert "task" in second.params


def test_a_plain_tool_that_is_refused_is_not_called_again():
    calls = script(**{"tools/call": rpc_error(-32601, "no")})
    with (
        ScriptedServer(calls) as server,
        MCPClient(server.url) as client,
        pytest.raises(ServerError, match="no"),
    ):
        client.call_tool("plain")
    assert len(server.named("tools/call")) == 1


@pytest.mark.parametrize("refused", ["tasks/get", "tasks/result"])
@pytest.mark.parametrize(
    "answer", [rpc_error(-32602, "Task not found"), rpc_error(-32603, "no"), http(404), http(503), rpc(7)]
)
def test_a_task_that_the_server_does_not_tell_of_may_have_run(refused, answer):
    with (
        ScriptedServer(script(**{refused: answer})) as server,
        MCPClient(server.url, limits=Limits(attempts=1)) as client,
    ):
        client.list_tools()
        with pytest.raises(MCPError) as caught:
            client.call_tool("research")
    assert caught.value.may_have_run
    assert server.methods.count("tools/call") == 1


def test_a_task_that_failed_has_the_tool_s_own_error():
    replies = script(**{"tasks/get": rpc(task("failed")), "tasks/result": rpc_error(-32603, "sold out")})
    with ScriptedServer(replies) as server, MCPClient(server.url) as client:
        client.list_tools()
        with pytest.raises(ServerError, match="sold out") as caught:
            client.call_tool("research")
    assert not caught.value.may_have_run


def test_a_plain_tool_that_fails_is_not_called_again():
    failed = script(**{"tools/call": rpc(text("no such task", isError=True))})
    with ScriptedServer(failed) as server, MCPClient(server.url) as client:
        assert client.call_tool("plain").is_error
    assert len(server.named("tools/call")) == 1


def test_the_server_s_interval_is_kept_and_the_last_poll_comes_before_the_end():
    polls = [rpc(task("working", pollInterval=60_000)), rpc(task("completed"))]
    replies = script(**{"tools/call": rpc({"task": task("working", pollInterval=300)}), "tasks/get": polls})
    with ScriptedServer(replies) as server, MCPClient(server.url) as client:
        client.list_tools()
        assert client.call_tool("research", timeout=2).text == "found"
    call, first, second = (server.named(name) for name in ("tools/call", "tasks/get", "tasks/result"))
    assert first[0].at - call[0].at >= 0.3
    assert first[1].at - first[0].at >= 0.5
    assert len(second) == 1


def test_a_task_is_canceled_by_a_client_that_was_opened_again_and_not_by_one_that_is_closed():
    endless = script(**{"tasks/get": rpc(task("working"))})
    with ScriptedServer(endless) as server:
        client = MCPClient(server.url)
        client.list_tools()
        client.close()
        client.list_tools()
        with pytest.raises(TimedOut):
            client.call_tool("research", timeout=0.5)
        assert len(server.named("tasks/cancel")) == 1
        thread, box = in_background(lambda: client.call_tool("research"))
        until(lambda: len(server.named("tools/call")) == 2)
        client.close()
        thread.join(30)
        assert "client was closed" in str(box[0])
    assert server.methods.count("initialize") == 2
