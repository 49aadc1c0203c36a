"""Listing tools: pages, limits, what is kept, and lists that are none."""

import pytest

from knime_mcp.runs.checked_calls import ArgumentValidator
from knime_mcp.tools import Limits, MCPClient
from knime_mcp.types.errors import ProtocolError, ResultTooLarge
from tests.support.scripted_server import (
    ScriptedServer,
    event,
    http,
    initialize,
    legacy,
    modern,
    notification,
    reply_event,
    rpc,
    rpc_error,
    stream,
    text,
    tool,
)

pytestmark = pytest.mark.quick


def listed(script, **options):
    with ScriptedServer(script) as server, MCPClient(server.url, **options) as client:
        return client.list_tools()


def test_pages_are_followed_to_the_last_one():
    def page(request):
        cursor = request.params.get("cursor")
        number = 0 if cursor is None else int(cursor or "1")
        following = {0: "", 1: "2", 2: None}[number]
        return rpc({"tools": [{"name": f"t{number}", "inputSchema": {}}], "nextCursor": following})(request)

    with ScriptedServer(modern(tools__list=page)) as server, MCPClient(server.url) as client:
        assert [tool.name for tool in client.list_tools()] == ["t0", "t1", "t2"]
    first, second, third = server.named("tools/list")
    assert "cursor" not in first.params
    assert (second.params["cursor"], third.params["cursor"]) == ("", "2")


@pytest.mark.parametrize("form", ["json", "stream"])
def test_all_pages_together_end_at_the_limit(era, form):
    """Each of them is small enough by itself."""

    def page(request):
        number = int(request.params.get("cursor", "0"))
        result = {"tools": [{"name": f"t{number}", "description": "x" * 1000}], "nextCursor": str(number + 1)}
        return (rpc(result) if form == "json" else stream(reply_event(result)))(request)

    limits = Limits(listing_bytes=10_000)
    with (
        ScriptedServer(era(tools__list=page)) as server,
        MCPClient(server.url, limits=limits) as client,
        pytest.raises(ResultTooLarge, match=r"list of tools is larger than 10\.0 KB") as caught,
    ):
        client.list_tools()
    assert caught.value.limit == 10_000
    assert len(server.named("tools/list")) < 11


@pytest.mark.parametrize("result", [{"tools": None}, {}, {"tools": [], "nextCursor": None}])
def test_no_tools_in_the_words_of_several_libraries(era, result):
    assert listed(era(tools__list=rpc(result))) == []


def test_pages_go_on_until_the_cursor_is_null(era):
    pages = [
        {"tools": [tool("a")], "nextCursor": ""},
        {"tools": None, "nextCursor": "x"},
        {"tools": [tool("b")], "nextCursor": None},
    ]
    with (
        ScriptedServer(era(tools__list=[rpc(page) for page in pages])) as server,
        MCPClient(server.url) as client,
    ):
        assert [found.name for found in client.list_tools()] == ["a", "b"]
    assert [r.params.get("cursor", "none") for r in server.named("tools/list")] == ["none", "", "x"]


@pytest.mark.parametrize("cursor", ["", "8"])
def test_a_cursor_that_leads_to_the_same_page_means_the_end(era, cursor):
    """An empty one may mean that there is no more; gateways such as mcp-proxy pass none on."""
    page = {"tools": [tool("a"), tool("b")], "nextCursor": cursor}
    with ScriptedServer(era(tools__list=rpc(page))) as server, MCPClient(server.url) as client:
        assert [found.name for found in client.list_tools()] == ["a", "b"]
        assert [name for name, _ in client.dropped_tools] == (["(further tools)"] if cursor else [])


def test_a_number_that_nobody_can_read_costs_its_tool_its_checks_alone(era):
    def page(request):
        odd = tool("a", inputSchema={"properties": {"x": {"maximum": 0.5}}})
        reply = rpc({"tools": [odd, tool("b")]})(request)[0].replace(b"0.5", b"1" * 5000)
        return http(200, reply.partition(b"\r\n\r\n")[2])

    a, b = listed(era(tools__list=page))
    assert "maximum" in ArgumentValidator.for_schema(a.input_schema_json).fault
    assert ArgumentValidator.for_schema(b.input_schema_json).fault is None


def test_a_list_in_the_words_of_php(era):
    """Where entries were taken out of it, its numbers become names."""
    page = {"tools": {"0": tool("a"), "2": tool("b")}}
    assert [found.name for found in listed(era(tools__list=rpc(page)))] == ["a", "b"]


@pytest.mark.parametrize("schema", [None, True, [], "x", {}])
def test_a_tool_without_a_usable_schema_takes_anything(era, schema):
    definition = {"name": "echo", "inputSchema": schema, "description": None, "annotations": None}
    if schema == "x":
        del definition["inputSchema"]
    with (
        ScriptedServer(era(tools__list=rpc({"tools": [definition]}))) as server,
        MCPClient(server.url) as client,
    ):
        (found,) = client.list_tools()
        assert found.input_schema == {}
        assert client.call_tool("echo", {"any": [1]}).text == "hi"
    assert server.named("tools/call")[0].params["arguments"] == {"any": [1]}


def test_a_server_without_tools_has_an_empty_list():
    script = legacy(tools__list=rpc_error(-32601))
    script["initialize"] = initialize(capabilities={})
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.list_tools() == []


def test_capabilities_are_not_believed_more_than_answers():
    script = legacy()
    script["initialize"] = initialize(capabilities={})
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert [definition.name for definition in client.list_tools()] == ["echo"]


@pytest.mark.parametrize(("ttl", "requests"), [(60_000, 1), (0, 2), (None, 2)])
def test_a_listing_is_kept_for_as_long_as_the_server_says(ttl, requests):
    with (
        ScriptedServer(modern(tools__list=rpc({"tools": [tool()], "ttlMs": ttl}))) as server,
        MCPClient(server.url) as client,
    ):
        assert client.list_tools() == client.list_tools()
    assert server.methods.count("tools/list") == requests


def test_a_listing_is_kept_only_in_the_modern_era_and_never_across_clients():
    with (
        ScriptedServer(legacy(tools__list=rpc({"tools": [tool()], "ttlMs": 60_000}))) as server,
        MCPClient(server.url) as client,
    ):
        client.list_tools()
        client.list_tools()
    assert server.methods.count("tools/list") == 2
    with ScriptedServer(modern(tools__list=rpc({"tools": [tool()], "ttlMs": 60_000}))) as server:
        for _ in range(2):
            with MCPClient(server.url) as client:
                client.list_tools()
    assert server.methods.count("tools/list") == 2


def test_list_changed_ends_the_cache_at_once():
    script = modern(
        tools__list=rpc({"tools": [tool()], "ttlMs": 60_000}),
        tools__call=stream(event(notification("notifications/tools/list_changed")), reply_event(text("ok"))),
    )
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.list_tools()
        client.call_tool("echo")
        client.list_tools()
    assert server.methods.count("tools/list") == 2


@pytest.mark.parametrize("result", [{"tools": "x"}, {"resultType": "input_required", "requestState": "x"}])
def test_a_listing_that_is_something_else_is_not_taken_for_an_empty_one(result):
    with pytest.raises(ProtocolError, match="not a list"):
        listed(modern(tools__list=rpc(result)))


@pytest.mark.requirement("T3")
def test_a_large_listing_and_odd_definitions_arrive_whole():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"n": {"properties": {"c": {"$ref": "#/$defs/n"}}}},
        "properties": {
            "x": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
            "a": {"enum": ["ü", 1, None]},
        },
        "if": {"required": ["x"]},
        "x-unknown": [1, 2],
    }
    tools = [{"name": f"t{i}" * 50, "inputSchema": schema, "future": {"k": i}} for i in range(2000)]
    with ScriptedServer(modern(tools__list=rpc({"tools": tools}))) as server, MCPClient(server.url) as client:
        listed = client.list_tools()
    assert [tool.raw for tool in listed] == tools
    assert list(listed[0].input_schema) == list(schema)


@pytest.mark.parametrize("key", ["name", "title", "description"])
def test_a_tool_with_a_text_that_nobody_could_look_at_is_left_out(era, key):
    """Ten million invisible characters in a description took 800 MB in the table of tools."""
    long = "\u200b" * 200_001
    tools = [tool("echo"), {**tool("bad"), key: long}]
    with ScriptedServer(era(tools__list=rpc({"tools": tools}))) as server, MCPClient(server.url) as client:
        assert [tool.name for tool in client.list_tools()] == ["echo"]
        ((name, why),) = client.dropped_tools
    assert why.startswith(f"its {key} has 200,001 characters, of at most ")
    assert len(name) <= 100


@pytest.mark.parametrize(
    "part", [{"inputSchema": {"description": "\u200b" * 400_000}}, {"icons": [{"src": ""}] * 30_000}]
)
def test_a_tool_whose_definition_is_larger_than_a_schema_may_be_is_left_out(era, part):
    """A schema of 16 million characters took 690 MB where the table of tools was printed."""
    tools = [tool("fine"), {**tool("bad"), **part}]
    limits = Limits(schema_bytes=200_000)
    with (
        ScriptedServer(era(tools__list=rpc({"tools": tools}))) as server,
        MCPClient(server.url, limits=limits) as client,
    ):
        assert [tool.name for tool in client.list_tools()] == ["fine"]
        assert client.dropped_tools == (("bad", "its definition is longer than 200,000 characters"),)
