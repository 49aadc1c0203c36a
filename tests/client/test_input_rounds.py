"""Rounds of a call in which the server asks for input first: what is echoed, who is asked, where it ends."""

import pytest

from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import ProtocolError
from tests.support.scripted_server import (
    ScriptedServer,
    modern,
    rpc,
    text,
)

pytestmark = pytest.mark.quick


def test_input_rounds_echo_the_state_and_nothing_leaks():
    wanted = {
        "resultType": "input_required",
        "requestState": '{"opaque": 1} ',
        "inputRequests": {"a": _form()},
    }
    script = modern(tools__call=[rpc(wanted), rpc(text("done")), rpc(text("next"))])
    with ScriptedServer(script) as server, MCPClient(server.url, elicitation="defaults") as client:
        assert client.call_tool("echo", {"x": 1}).text == "done"
        assert client.call_tool("echo", {"x": 2}).text == "next"
    first, second, third = server.named("tools/call")
    assert first.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"] == {}
    assert second.json["id"] != first.json["id"]
    assert second.params["requestState"] == '{"opaque": 1} '
    assert second.params["inputResponses"] == {"a": {"action": "accept", "content": {"n": 1}}}
    assert second.params["arguments"] == {"x": 1}
    assert "requestState" not in third.params
    assert "inputResponses" not in third.params


def _form():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    return {"method": "elicitation/create", "params": {"message": "How many?", "requestedSchema": schema}}


def test_a_state_only_round_is_repeated_at_once():
    script = modern(
        tools__call=[rpc({"resultType": "input_required", "requestState": "s"}), rpc(text("done"))]
    )
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "done"
    assert "inputResponses" not in server.requests[-1].params
    assert server.requests[-1].params["requestState"] == "s"


def test_input_that_nobody_can_give_is_a_clear_error():
    script = modern(tools__call=rpc({"resultType": "input_required", "inputRequests": {"a": _form()}}))
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url) as client,
        pytest.raises(ProtocolError, match="How many") as caught,
    ):
        client.call_tool("echo")
    assert caught.value.tool == "echo"
    assert server.methods.count("tools/call") == 1


def test_input_is_given_ten_times_at_most():
    script = modern(tools__call=rpc({"resultType": "input_required"}))
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url) as client,
        pytest.raises(ProtocolError, match="11 times"),
    ):
        client.call_tool("echo")
    assert server.methods.count("tools/call") == 11
