"""All tools of `@modelcontextprotocol/server-everything`, over both of its HTTP transports."""

import gzip
import json
from collections.abc import Iterator

import pytest

from knime_mcp.client.protocol.tools import EmbeddedResource, ImageContent, ResourceLink, TextContent
from knime_mcp.tools import ABSENT, MCPClient, Progress

pytestmark = pytest.mark.peer

# What the server offers to a client that declares no capability: nothing that would ask the client back.
TOOLS = {
    "echo",
    "get-annotated-message",
    "get-env",
    "get-resource-links",
    "get-resource-reference",
    "get-structured-content",
    "get-sum",
    "get-tiny-image",
    "gzip-file-as-resource",
    "simulate-research-query",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    "trigger-long-running-operation",
}


@pytest.fixture(scope="module", params=["http", "sse"])
def client(request: pytest.FixtureRequest) -> Iterator[MCPClient]:
    server = request.getfixturevalue(f"everything_{request.param}")
    with MCPClient(server.url("/mcp" if request.param == "http" else "/sse")) as client:
        assert client.server.transport == request.param
        yield client


@pytest.mark.requirement("T27")
def test_the_handshake_revision_is_negotiated(client: MCPClient) -> None:
    assert client.server.protocol_version == "2025-11-25"
    assert (client.server.name, client.server.version) == ("mcp-servers/everything", "2.0.0")
    assert client.server.title == "Everything Reference Server"
    assert "tools" in client.server.capabilities
    assert client.server.instructions is not None


@pytest.mark.requirement("T28")
def test_every_tool_is_listed_as_the_server_defines_it(client: MCPClient) -> None:
    tools = {tool.name: tool for tool in client.list_tools()}
    assert set(tools) == TOOLS
    assert tools["get-sum"].title == "Get Sum Tool"
    assert tools["get-sum"].input_schema["properties"]["a"] == {
        "type": "number",
        "description": "First number",
    }
    assert tools["get-sum"].annotations is not None
    assert tools["get-sum"].annotations["readOnlyHint"] is True
    assert set((tools["get-structured-content"].output_schema or {})["properties"]) == {
        "temperature",
        "conditions",
        "humidity",
    }
    assert tools["echo"].output_schema is None
    assert tools["simulate-research-query"].raw["execution"] == {"taskSupport": "required"}


@pytest.mark.requirement("T23")
def test_text_comes_back_as_it_was_sent(client: MCPClient) -> None:
    result = client.call_tool("echo", {"message": "grüße 🎉\nsecond line"})
    assert result.content == (TextContent("Echo: grüße 🎉\nsecond line"),)
    assert result.text == "Echo: grüße 🎉\nsecond line"
    assert not result.is_error
    assert result.structured_content is ABSENT


def test_numbers_arrive_as_numbers(client: MCPClient) -> None:
    assert client.call_tool("get-sum", {"a": 2, "b": 40.5}).text == "The sum of 2 and 40.5 is 42.5."


@pytest.mark.parametrize(
    ("kind", "text", "priority"),
    [
        ("error", "Error: Operation failed", 1.0),
        ("success", "Operation completed successfully", 0.7),
        ("debug", "Debug: Cache hit ratio 0.95, latency 150ms", 0.3),
    ],
)
def test_get_annotated_message(client: MCPClient, kind: str, text: str, priority: float) -> None:
    result = client.call_tool("get-annotated-message", {"messageType": kind, "includeImage": True})
    said, image = result.content
    assert isinstance(said, TextContent)
    assert (said.text, said.raw["annotations"]["priority"]) == (text, priority)
    assert isinstance(image, ImageContent)
    assert image.raw["annotations"] == {"priority": 0.5, "audience": ["user"]}


def test_get_env_without_any_argument(client: MCPClient) -> None:
    assert json.loads(client.call_tool("get-env").text)["GREETING"] == "hello from the test"


def test_get_resource_links(client: MCPClient) -> None:
    intro, *links = client.call_tool("get-resource-links", {"count": 10}).content
    assert isinstance(intro, TextContent)
    assert len(links) == 10
    assert all(isinstance(link, ResourceLink) for link in links)
    assert links[0] == ResourceLink(
        uri="demo://resource/dynamic/blob/1",
        name="Blob Resource 1",
        description="Resource 1: plaintext resource",
        mime_type="text/plain",
    )


def test_get_resource_reference_as_text(client: MCPClient) -> None:
    result = client.call_tool("get-resource-reference", {"resourceType": "Text", "resourceId": 7})
    _, resource, _ = result.content
    assert isinstance(resource, EmbeddedResource)
    assert (resource.uri, resource.blob) == ("demo://resource/dynamic/text/7", None)
    assert resource.text is not None
    assert "Resource 7" in resource.text


def test_get_resource_reference_as_blob(client: MCPClient) -> None:
    result = client.call_tool("get-resource-reference", {"resourceType": "Blob", "resourceId": 8})
    _, resource, _ = result.content
    assert isinstance(resource, EmbeddedResource)
    assert resource.text is None
    assert resource.blob is not None
    assert b"Resource 8" in resource.blob


@pytest.mark.parametrize(
    ("city", "weather"),
    [
        ("New York", {"temperature": 33, "conditions": "Cloudy", "humidity": 82}),
        ("Chicago", {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}),
        ("Los Angeles", {"temperature": 73, "conditions": "Sunny / Clear", "humidity": 48}),
    ],
)
def test_get_structured_content(client: MCPClient, city: str, weather: dict[str, object]) -> None:
    result = client.call_tool("get-structured-content", {"location": city})
    assert result.structured_content == weather
    assert json.loads(result.text) == weather


def test_get_tiny_image(client: MCPClient) -> None:
    before, image, after = client.call_tool("get-tiny-image", {}).content
    assert isinstance(image, ImageContent)
    assert image.mime_type == "image/png"
    assert image.data.startswith(b"\x89PNG\r\n")
    assert isinstance(before, TextContent)
    assert isinstance(after, TextContent)


def test_an_image_is_named_and_sized_in_the_text(client: MCPClient) -> None:
    text = client.call_tool("get-tiny-image").text
    assert "image/png" in text
    assert "iVBOR" not in text  # the PNG signature in Base64


@pytest.mark.parametrize("form", ["resource", "resourceLink"])
def test_gzip_file_as_resource(client: MCPClient, form: str) -> None:
    data = "data:text/plain;base64,aGVsbG8gZ3ppcA=="
    result = client.call_tool("gzip-file-as-resource", {"name": "a.gz", "data": data, "outputType": form})
    (block,) = result.content
    if form == "resource":
        assert isinstance(block, EmbeddedResource)
        assert gzip.decompress(block.blob or b"") == b"hello gzip"
    else:
        assert isinstance(block, ResourceLink)
        assert (block.name, block.mime_type) == ("a.gz", "application/gzip")


def test_long_running_operation_reports_progress(client: MCPClient) -> None:
    seen: list[Progress] = []
    result = client.call_tool(
        "trigger-long-running-operation", {"duration": 0.4, "steps": 4}, on_progress=seen.append
    )
    assert result.text == "Long running operation completed. Duration: 0.4 seconds, Steps: 4."
    # The last report may be overtaken by the result; none comes twice or out of order.
    reported = [(progress.progress, progress.total) for progress in seen]
    assert reported == [(1, 4), (2, 4), (3, 4), (4, 4)][: len(reported)]
    assert len(reported) >= 3


@pytest.mark.parametrize("name", ["toggle-simulated-logging", "toggle-subscriber-updates"])
def test_notifications_that_nobody_asked_for_are_ignored(client: MCPClient, name: str) -> None:
    assert client.call_tool(name).text.startswith("Started simulated")
    assert client.call_tool("echo", {"message": "still here"}).text == "Echo: still here"
    assert client.call_tool(name).text.startswith("Stopped simulated")


def test_a_tool_that_only_runs_as_a_task_gives_its_result(client: MCPClient) -> None:
    result = client.call_tool("simulate-research-query", {"topic": "python"})
    assert not result.is_error
    assert result.text.startswith("# Research Report: python")


@pytest.mark.parametrize(
    "name", ["trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"]
)
def test_tools_that_ask_the_client_are_an_error_result(client: MCPClient, name: str) -> None:
    result = client.call_tool(name, {"prompt": "hi"})
    assert result.is_error
    assert name in result.text


@pytest.mark.requirement("T28")
def test_arguments_that_the_server_refuses_are_an_error_result(client: MCPClient) -> None:
    result = client.call_tool("get-sum", {"a": "two"})
    assert result.is_error
    assert "Input validation error" in result.text
