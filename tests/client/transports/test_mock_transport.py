"""A function in place of a server: the client above it is the real one."""

import pytest

from knime_mcp.tools import MCPClient, MockTransport
from knime_mcp.types.errors import (
    Canceled,
    ConnectError,
    ResultInvalid,
    ServerError,
    SettingInvalid,
    ToolNotFound,
)

pytestmark = pytest.mark.quick


ADD = {
    "name": "add",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}},
    "annotations": {"readOnlyHint": True},
}


def answering(calls):
    """A client whose server lists one tool, and answers calls with a function."""

    def answer(request):
        if request["method"] == "tools/list":
            return {"tools": [ADD]}
        return calls(request["params"])

    return MCPClient(transport=MockTransport(answer))


def test_calls_and_listings_are_answered_by_the_function():
    def add(params):
        return {"content": [], "structuredContent": {"sum": sum(params["arguments"].values())}}

    with answering(add) as client:
        assert [tool.name for tool in client.list_tools()] == ["add"]
        assert client.call_tool("add", {"a": 2, "b": 40}).structured_content == {"sum": 42}
        assert client.server.url == "mock:server"


def test_results_are_checked_as_those_of_any_server():
    with answering(lambda _: {"content": [], "structuredContent": {"sum": "many"}}) as client:
        client.list_tools()
        with pytest.raises(ResultInvalid):
            client.call_tool("add")


def test_an_error_of_the_server_is_one():
    def refuse(params):
        raise ServerError(f"Unknown tool: {params['name']}", code=-32602)

    with answering(refuse) as client, pytest.raises(ToolNotFound):
        client.call_tool("subtract")


def test_a_connection_can_fail_and_the_call_is_not_made_twice():
    made = []

    def fail(params):
        made.append(params["name"])
        raise ConnectError("The server closed the connection", phase="http")

    with answering(fail) as client, pytest.raises(ConnectError):
        client.call_tool("add")
    assert made == ["add"]


def test_callbacks_and_cancel_work():
    sent = []
    with answering(lambda _: {"content": [{"type": "text", "text": "done"}]}) as client:
        busy = lambda: sent.append("busy")  # noqa: E731
        attempt = lambda: sent.append("attempt")  # noqa: E731
        assert client.call_tool("add", on_sent=busy, on_attempt=attempt).text == "done"
        with pytest.raises(Canceled):
            client.call_tool("add", is_canceled=lambda: True)
    assert sent == ["busy", "attempt"]


def test_a_server_is_one_thing_only():
    with pytest.raises(SettingInvalid, match="or a mock"):
        MCPClient("http://127.0.0.1:9/mcp", transport=MockTransport(lambda _: {}))
