"""Results as servers write them: of any shape, with or without a type and structured content."""

import base64

import pytest

from knime_mcp.tools import ABSENT, MCPClient
from knime_mcp.types.errors import ProtocolError
from tests.support.scripted_server import (
    ScriptedServer,
    legacy,
    modern,
    rpc,
    text,
    tool,
)

pytestmark = pytest.mark.quick


def call(script):
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        return client.call_tool("echo")


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({}, ""),
        ({"_meta": {"a": 1}}, ""),
        ({"content": None}, ""),
        ({"content": 5}, "5"),
        ({"output": "hi"}, "hi"),
        ({"output": "hi", "rows": [1]}, '{"output": "hi", "rows": [1]}'),
        ({"contents": [{"uri": "a:b", "text": "hi"}]}, "hi"),
        ({"content": "hi"}, "hi"),
        ({"content": {"type": "text", "text": "hi"}}, "hi"),
        ({"content": ["hi"]}, "hi"),
        ({"toolResult": {"a": 1}}, '{"a": 1}'),
        ({"structuredContent": [1, "ü"]}, '[1, "ü"]'),
        ({"structuredContent": 0}, "0"),
        ({"content": [{"type": "text"}]}, '{"type": "text"}'),
        (
            {"content": [{"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}]},
            "[audio audio/wav, 3 bytes]",
        ),
        ({"content": [{"type": "resource_link", "uri": "file:///a"}]}, "[resource link file:///a]"),
        ({"content": [{"type": "resource", "resource": {"uri": "u:1", "text": "hi"}}]}, "hi"),
    ],
)
def test_results_of_any_shape_lose_nothing(era, result, shown):
    assert call(era(tools__call=rpc(result))).text == shown


@pytest.mark.parametrize(
    ("said", "failed"),
    [(True, True), (1, True), ("true", True), (False, False), ("false", False), ({}, False)],
)
def test_a_failure_looks_failed_however_a_server_writes_true(era, said, failed):
    assert call(era(tools__call=rpc(text("no", isError=said)))).is_error is failed


@pytest.mark.parametrize(
    "encoded",
    [
        base64.b64encode(b"\xfb\xff\xfe\x01").decode(),
        base64.b64encode(b"\xfb\xff\xfe\x01").decode().rstrip("="),
        base64.urlsafe_b64encode(b"\xfb\xff\xfe\x01").decode(),
        "data:image/png;base64," + base64.b64encode(b"\xfb\xff\xfe\x01").decode(),
    ],
)
def test_base64_in_the_forms_that_libraries_write(encoded):
    result = call(
        modern(tools__call=rpc({"content": [{"type": "image", "data": encoded, "mimeType": "image/png"}]}))
    )
    assert result.content[0].data == b"\xfb\xff\xfe\x01"


def test_structured_null_is_absent_before_it_was_a_value():
    """Until 2025-11-25 structured content is an object; libraries write null where there is none."""
    listing = rpc({"tools": [tool(outputSchema={"type": "object", "required": ["a"]})]})
    script = legacy(tools__list=listing, tools__call=rpc({**text("hi"), "structuredContent": None}))
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.list_tools()
        assert not client.call_tool("echo").structured_content
        assert client.call_tool("echo").text == "hi"


def test_structured_null_is_a_value():
    script = modern(tools__call=[rpc({"content": [], "structuredContent": None}), rpc({"content": []})])
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").structured_content is None
        assert client.call_tool("echo").structured_content is ABSENT


def test_result_types_mean_nothing_in_the_handshake_era_and_null_is_none():
    assert call(legacy(tools__call=rpc(text("hi", resultType="table")))).text == "hi"
    assert call(modern(tools__call=rpc(text("hi", resultType=None)))).text == "hi"


def test_missing_result_type_means_complete_and_unknown_ones_are_errors():
    with (
        ScriptedServer(modern(tools__call=[rpc(text("ok")), rpc({"resultType": "task"})])) as server,
        MCPClient(server.url) as client,
    ):
        assert client.call_tool("echo").text == "ok"
        with pytest.raises(ProtocolError, match="task"):
            client.call_tool("echo")
