"""Odd but legal servers (`tests/support/servers/shapes_server.py`), over every route that leads to them."""

import json
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from knime_mcp.client.protocol.tools import ImageContent, TextContent, UnknownContent
from knime_mcp.tools import ABSENT, Limits, MCPClient
from knime_mcp.types.errors import MCPError, ResultTooLarge, ServerError, ToolNotFound
from tests.support.peers import Server
from tests.support.servers.shapes import FOREST, HUGE, LONG_NAME, NAMES, SURROGATE, encode

ROUTES = ["/legacy/json", "/legacy/sse", "/modern/json", "/modern/sse", "/old"]
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28", "old": "2024-11-05"}


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def connected(shapes: Server, route: str) -> Any:
    @contextmanager
    def connect(shape: str, **options: Any) -> Iterator[MCPClient]:
        with MCPClient(shapes.url(f"{route}/{shape}"), **options) as client:
            yield client

    return connect


def _has_surrogates(value: object) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in json.dumps(value, ensure_ascii=False))


def test_era_and_transport_of_every_route(route: str, connected: Any) -> None:
    with connected("parameterless") as client:
        assert client.server.protocol_version == VERSIONS[route.split("/")[1]]
        assert client.server.transport == ("sse" if route == "/old" else "http")


@pytest.mark.parametrize("shape", ["empty", "no-tools-capability"])
def test_a_server_without_tools_has_an_empty_list(connected: Any, shape: str) -> None:
    with connected(shape) as client:
        assert client.list_tools() == []


@pytest.mark.requirement("T17")
def test_two_thousand_tools_over_pages(connected: Any) -> None:
    with connected("many") as client:
        tools = client.list_tools()
        assert [tool.name for tool in tools] == [f"tool_{number:04}" for number in range(2000)]
        assert tools[1999].description == "No. 1999"
        assert client.call_tool("tool_1999", {"value": 7}).structured_content == {"value": 7}


def test_an_empty_cursor_is_a_cursor_and_an_empty_page_is_not_the_end(connected: Any) -> None:
    with connected("empty-cursor") as client:
        assert [tool.name for tool in client.list_tools()] == ["first", "second", "third"]


def test_a_cursor_that_leads_to_the_same_page_ends_the_listing_and_is_told(connected: Any) -> None:
    with connected("endless") as client:
        assert len(client.list_tools()) == len({tool.name for tool in client.list_tools()})
        assert [name for name, _ in client.dropped_tools] == ["(further tools)"]


def test_the_cap_on_pages_is_an_error_that_says_so(shapes: Server) -> None:
    with (
        MCPClient(shapes.url("/modern/json/many"), limits=Limits(pages=3)) as client,
        pytest.raises(ResultTooLarge, match="3 pages") as raised,
    ):
        client.list_tools()
    assert raised.value.limit == 3


@pytest.mark.requirement("T3")
def test_tools_without_parameters(connected: Any) -> None:
    with connected("parameterless") as client:
        schemas = {tool.name: tool.input_schema for tool in client.list_tools()}
        assert schemas == {
            "bare": {"type": "object"},
            "no_properties": {"type": "object", "properties": {}},
            "closed": {"type": "object", "additionalProperties": False},
            "empty_schema": {},
        }
        for name in schemas:
            assert client.call_tool(name).structured_content == {}
            assert client.call_tool(name, {}).structured_content == {}


@pytest.mark.requirement("T3")
def test_schemas_come_as_they_are_in_the_servers_order(connected: Any) -> None:
    arguments = {
        "tree": {"label": "root", "children": [{"label": "leaf", "children": []}, {"label": "größe"}]},
        "colour": None,
        "size": "L",
        "grid": [[1, 2.5], []],
        "place": {"city": {"zip": "78467"}},
    }
    with connected("schemas") as client:
        (tool,) = client.list_tools()
        assert json.dumps(tool.input_schema) == json.dumps(FOREST)
        assert json.dumps(tool.output_schema) == json.dumps(FOREST)
        assert (tool.title, tool.annotations, tool.raw["x_more"]) == ("Forest", {"readOnlyHint": True}, 1)
        assert client.call_tool("forest", arguments).structured_content == arguments


def test_unusual_names_are_listed_and_called_as_they_are(connected: Any) -> None:
    with connected("names") as client:
        listed = [tool.name for tool in client.list_tools()]
        assert len(listed) == len(NAMES)
        assert not _has_surrogates(listed)
        legal = [name for name in NAMES if SURROGATE not in name]
        assert [name for name in listed if name in legal] == legal
        assert LONG_NAME in listed
        assert all(unicodedata.is_normalized("NFC", name) for name in listed)
        for name in legal:
            assert client.call_tool(name, {"called": name}).structured_content == {"called": name}


def test_two_tools_of_one_name_are_both_listed(connected: Any) -> None:
    with connected("twins") as client:
        tools = client.list_tools()
        assert [(tool.name, tool.description) for tool in tools] == [
            ("twin", "first"),
            ("other", None),
            ("twin", "second"),
        ]
        assert tools[0].digest != tools[2].digest
        assert client.call_tool("twin", {"n": 1}).structured_content == {"n": 1}


def test_lone_surrogates_are_replaced_everywhere(connected: Any) -> None:
    with connected("surrogates") as client:
        (tool,) = client.list_tools()
        assert (tool.title, tool.description) == ("t\ufffd", "d\ufffdd")
        result = client.call_tool("talk")
        assert result.text == "before \ufffd after 😀"
        assert result.structured_content == {"k\ufffd": ["v\ufffd"]}
        assert not _has_surrogates(result.raw)
        assert not _has_surrogates(tool.raw)


@pytest.mark.parametrize(
    "route", ["/legacy/json", *(pytest.param(route, marks=pytest.mark.long) for route in ROUTES[1:])]
)
def test_a_text_of_50_mb(connected: Any) -> None:
    with connected("huge") as client:
        result = client.call_tool("text")
        assert len(result.text) == HUGE
        assert result.text.startswith("0123456789abcdef01")
        assert [tool.name for tool in client.list_tools()] == ["text", "image", "structured"]


def test_an_image_of_50_mb(shapes: Server) -> None:
    with MCPClient(shapes.url("/modern/json/huge")) as client:
        (image,) = client.call_tool("image").content
        assert isinstance(image, ImageContent)
        assert len(image.data) == HUGE // 4 * 3
        assert image.data[:4] == b"\x00\x01\x02\x03"


def test_structured_content_of_50_mb(shapes: Server) -> None:
    with MCPClient(shapes.url("/legacy/sse/huge")) as client:
        rows = client.call_tool("structured").structured_content["rows"]
        assert [row["id"] for row in rows] == list(range(HUGE // 1024))


def test_a_result_above_the_limit_is_an_error_and_the_client_goes_on(connected: Any) -> None:
    with connected("huge", limits=Limits(result_bytes=1_000_000)) as client:
        with pytest.raises(ResultTooLarge) as raised:
            client.call_tool("text")
        assert (raised.value.limit, raised.value.tool) == (1_000_000, "text")
        assert [tool.name for tool in client.list_tools()] == ["text", "image", "structured"]


def test_results_of_unusual_content(route: str, connected: Any) -> None:
    with connected("contents") as client:
        unknown = client.call_tool("unknown")
        assert isinstance(unknown.content[0], UnknownContent)
        assert (unknown.content[0].type, unknown.content[0].raw["depth"]) == ("hologram", 3)
        assert isinstance(unknown.content[1], TextContent)
        assert unknown.raw["x"] == 2
        assert client.call_tool("none").content == ()
        assert client.call_tool("none").structured_content is ABSENT
        # Before revision 2026-07-28 it is an object or absent; servers write null for absent.
        modern = route.startswith("/modern")
        assert client.call_tool("null").structured_content is (None if modern else ABSENT)
        assert client.call_tool("list").structured_content == [1, "two", None]
        missing = client.call_tool("missing")
        assert (missing.content, missing.structured_content) == ((), {"content": "left out"})
        failed = client.call_tool("failed")
        assert (failed.is_error, failed.text) == (True, "the disk is full")


def test_errors_of_the_server_keep_code_and_words(connected: Any) -> None:
    with connected("contents") as client:
        with pytest.raises(ServerError, match="the server gave up") as raised:
            client.call_tool("refused")
        assert (raised.value.code, raised.value.tool) == (-32603, "refused")


def test_a_name_that_the_server_does_not_know_is_not_found(connected: Any) -> None:
    with connected("contents") as client:
        client.list_tools()
        with pytest.raises(ToolNotFound, match="faild") as raised:
            client.call_tool("faild")
        assert raised.value.suggestions == ("failed",)


@pytest.mark.parametrize("reply", ["json", "sse"])
def test_what_a_handshake_server_asks_is_answered(shapes: Server, reply: str) -> None:
    with MCPClient(shapes.url(f"/legacy/{reply}/asks")) as client:
        result = client.call_tool("ask")
    assert result.text == "asked"
    assert result.structured_content == {
        "ping": {},
        "roots/list": -32601,
        "sampling/createMessage": -32601,
        "elicitation/create": -32601,
        "made/up": -32601,
    }


@pytest.mark.parametrize("reply", ["json", "sse"])
def test_what_a_modern_server_asks_is_refused_and_its_state_sent_back(shapes: Server, reply: str) -> None:
    with MCPClient(shapes.url(f"/modern/{reply}/asks")) as client:
        again = client.call_tool("again", {"n": 1})
        assert (again.text, again.structured_content) == ("heard twice", {"n": 1})
        with pytest.raises(MCPError, match="language model") as raised:
            client.call_tool("ask")
        assert raised.value.tool == "ask"
        with pytest.raises(ServerError, match="sampling") as refused:
            client.call_tool("demand")
        assert refused.value.code == -32021
        assert refused.value.data == {"requiredCapabilities": {"sampling": {}}}


def test_the_server_is_as_odd_as_it_says() -> None:
    encoded = encode({"text": f"a{SURROGATE}b", "plain": "ü"})
    assert encoded == '{"text": "a\\ud83db", "plain": "ü"}'.encode()
    assert json.loads(encoded)["text"] == "a\ud83db"
