"""Resources and prompts of `@modelcontextprotocol/server-everything`."""

import pytest

from knime_mcp.client.protocol.offers import contents_of, messages_of_prompt
from knime_mcp.client.protocol.tools import EmbeddedResource
from knime_mcp.tools import MCPClient

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_resources_and_prompts_of_another_server(request, transport):
    server = request.getfixturevalue(f"everything_{transport}")
    with MCPClient(server.url("/mcp" if transport == "http" else "/sse")) as client:
        listed = client.list_resources()
        assert {each.uri for each in listed if each.is_template} == {
            "demo://resource/dynamic/text/{resourceId}",
            "demo://resource/dynamic/blob/{resourceId}",
        }
        (text,) = contents_of(client.read_resource(listed[0].uri))
        assert isinstance(text, EmbeddedResource)
        assert text.text
        (blob,) = contents_of(client.read_resource("demo://resource/dynamic/blob/1"))
        assert isinstance(blob, EmbeddedResource)
        assert blob.blob
        prompts = {prompt.name: prompt for prompt in client.list_prompts()}
        assert [argument.name for argument in prompts["args-prompt"].arguments] == ["city", "state"]
        (message,) = messages_of_prompt(client.get_prompt("args-prompt", {"city": "Konstanz"}))
        assert "Konstanz" in str(message.content)
