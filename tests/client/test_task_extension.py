"""Calls that a server of the modern era answers with a task (``io.modelcontextprotocol/tasks``)."""

import time

import pytest

from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import Canceled, OutcomeUnknown, ProtocolError, ServerError, TimedOut
from tests.support.scripted_server import ScriptedServer, modern, rpc, rpc_error, text

pytestmark = pytest.mark.quick


EXTENSION = "io.modelcontextprotocol/tasks"
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "message": "Who?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "default": "Luca"}}},
    },
}


def task(status, **more):
    return {
        "resultType": "complete",
        "taskId": "t/1",
        "status": status,
        "createdAt": "2026-07-28T10:00:00Z",
        "lastUpdatedAt": "2026-07-28T10:00:00Z",
        "ttlMs": None,
        "pollIntervalMs": 50,
        **more,
    }


def script(*polls, seed=None, **replies):
    return modern(
        tools__call=rpc(seed or {**task("working"), "resultType": "task"}),
        tasks__get=[rpc(poll) for poll in polls],
        tasks__update=rpc({"resultType": "complete"}),
        tasks__cancel=rpc({"resultType": "complete"}),
        **replies,
    )


def test_a_task_is_polled_to_its_result():
    told = []
    done = task("completed", result={**text("found"), "structuredContent": None})
    polls = task("working", statusMessage="half"), task("working"), done
    with ScriptedServer(script(*polls)) as server, MCPClient(server.url) as client:
        result = client.call_tool("research", {"q": 1}, on_progress=told.append)
    assert result.text == "found"
    assert result.structured_content is None  # a value in this era
    assert server.methods == ["server/discover", "tools/call", *["tasks/get"] * 3]
    assert [(progress.progress, progress.message) for progress in told] == [(1.0, "half")]
    for request in server.requests:
        declared = request.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert declared["extensions"] == {EXTENSION: {}}
    for poll in server.named("tasks/get"):
        assert poll.params["taskId"] == "t/1"
        assert poll.headers["mcp-name"] == "t/1"
        assert poll.headers["mcp-method"] == "tasks/get"
    times = [request.at for request in server.named("tasks/get")]
    assert times[1] - times[0] >= 0.05  # the server's interval


@pytest.mark.parametrize("with_result", [True, False])
def test_a_task_may_be_over_when_it_is_made(with_result):
    done = task("completed", result=text("at once"))
    seed = {**(done if with_result else task("completed")), "resultType": "task"}
    with ScriptedServer(script(done, seed=seed)) as server, MCPClient(server.url) as client:
        assert client.call_tool("research").text == "at once"
    assert server.methods.count("tasks/get") == (0 if with_result else 1)


def test_a_tool_that_fails_is_a_result_and_a_task_that_fails_an_error():
    failed = task("completed", result=text("no", isError=True))
    with ScriptedServer(script(failed)) as server, MCPClient(server.url) as client:
        assert client.call_tool("research").is_error
    broken = task("failed", error={"code": -32603, "message": "rate limit"}, statusMessage="x")
    with (
        ScriptedServer(script(broken)) as server,
        MCPClient(server.url) as client,
        pytest.raises(ServerError, match="rate limit") as caught,
    ):
        client.call_tool("research")
    assert caught.value.code == -32603
    assert "tasks/cancel" not in server.methods


@pytest.mark.parametrize(
    ("poll", "words"),
    [
        (task("cancelled", statusMessage="quota"), "canceled the task: quota"),
        (task("paused"), "status 'paused'"),
        (task("completed"), "no result"),
        (task("failed"), "no result"),
        ({}, "status 'None'"),
    ],
)
def test_a_task_without_a_result_is_an_error(poll, words):
    with (
        ScriptedServer(script(poll)) as server,
        MCPClient(server.url) as client,
        pytest.raises(ProtocolError, match=words),
    ):
        client.call_tool("research")


def test_a_task_without_an_id_is_an_error():
    with (
        ScriptedServer(script(seed={"resultType": "task", "status": "working"})) as server,
        MCPClient(server.url) as client,
        pytest.raises(ProtocolError, match="did not say which"),
    ):
        client.call_tool("research")


def test_what_a_task_asks_is_answered_once():
    asked = task("input_required", inputRequests={"name": QUESTION})
    twice = task("input_required", inputRequests={"name": QUESTION, "other": QUESTION})
    polls = asked, asked, twice, task("completed", result=text("hello"))
    with (
        ScriptedServer(script(*polls)) as server,
        MCPClient(server.url, elicitation="defaults") as client,
    ):
        assert client.call_tool("research").text == "hello"
    answer = {"action": "accept", "content": {"name": "Luca"}}
    assert [update.params["inputResponses"] for update in server.named("tasks/update")] == [
        {"name": answer},
        {"other": answer},
    ]
    assert all(update.headers["mcp-name"] == "t/1" for update in server.named("tasks/update"))


def test_what_nobody_can_answer_ends_the_task():
    asked = task("input_required", inputRequests={"name": QUESTION})
    with (
        ScriptedServer(script(asked)) as server,
        MCPClient(server.url) as client,
        pytest.raises(ProtocolError, match="input from a person"),
    ):
        client.call_tool("research")
    assert server.named("tasks/cancel")[0].params["taskId"] == "t/1"
    assert "notifications/cancelled" not in server.methods


def test_cancel_and_the_clock_cancel_the_task():
    with ScriptedServer(script(task("working"))) as server, MCPClient(server.url) as client:
        started = time.monotonic()
        with pytest.raises(Canceled):
            client.call_tool("research", is_canceled=lambda: time.monotonic() > started + 0.4)
        with pytest.raises(TimedOut):
            client.call_tool("research", timeout=0.7)
    assert len(server.named("tasks/cancel")) == 2
    assert "notifications/cancelled" not in server.methods


def test_an_outage_during_a_poll_is_waited_for():
    polls = [rpc_error(-32000, "busy", status=503), rpc(task("completed", result=text("found")))]
    replies = {**script(), "tasks/get": polls}
    with ScriptedServer(replies) as server, MCPClient(server.url, timeouts=Timeouts(idle=10)) as client:
        assert client.call_tool("research").text == "found"
    assert len(server.named("tools/call")) == 1


@pytest.mark.parametrize("words", ["Task has expired", "tool research not found"])
def test_a_server_that_does_not_tell_of_a_task_any_more_has_begun_it(words):
    replies = {**script(), "tasks/get": rpc_error(-32602, words, status=400)}
    with (
        ScriptedServer(replies) as server,
        MCPClient(server.url) as client,
        pytest.raises(OutcomeUnknown, match=words),
    ):
        client.call_tool("research")
