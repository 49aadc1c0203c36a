"""Servers as people met them, and reported where other clients failed: each listed in docs/servers.md."""

import contextlib
import json

import pytest

from knime_mcp.client.conversation import memory
from knime_mcp.runs.result_records import records_of
from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import MCPError, ResultInvalid
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    event,
    http,
    legacy,
    notification,
    reply_event,
    rpc,
    rpc_error,
    stream,
    text,
    tool,
)

REPORTS = {}
ROWS = [{"name": "a", "n": 1}, {"name": "b", "n": 2}]
CLOCKS = Timeouts(connect=30, idle=30, total=60)


def report(of):
    """A check of one report."""

    def added(check):
        REPORTS[of] = check
        return check

    return added


@contextlib.contextmanager
def connected(script, **options):
    memory.clear()
    clocks = {"timeouts": CLOCKS, **options}
    with ScriptedServer(script) as server, MCPClient(server.url, **clocks) as client:
        yield client, server


def answer_to(script, **arguments):
    with connected(script) as (client, _):
        return client.call_tool("echo", arguments)


def names(*listed, **more):
    with connected(legacy(tools__list=rpc({"tools": [*listed], **more}))) as (client, _):
        return [each.name for each in client.list_tools()]


@report("actionhero/keryx#503")
def a_lost_session_is_told_with_200_and_a_stream():
    lost = stream(event({"error": "Session not found"}))
    script = legacy("s", tools__call=[lost, rpc(text("hi"))])
    with connected(script) as (client, _), pytest.raises(MCPError, match="Session not found"):
        client.call_tool("echo")


@report("gensecaihq/Wazuh-MCP-Server#59")
def a_listing_is_in_an_array_with_a_null_error():
    def listing(request):
        message = {"jsonrpc": "2.0", "id": request.json["id"], "result": {"tools": [tool()]}, "error": None}
        return http(200, json.dumps([message]))

    with connected(legacy(tools__list=listing)) as (client, _):
        assert [each.name for each in client.list_tools()] == ["echo"]


@report("DeusData/codebase-memory-mcp#1247")
def the_cursor_of_the_last_page_is_the_same_again():
    assert names(tool("a"), tool("b"), nextCursor="MTY=") == ["a", "b"]


@report("Factory-AI/factory#7")
def tools_come_in_pages():
    def listing(request):
        at = int(request.params.get("cursor", 0))
        page = [tool(f"t{number}") for number in range(at, min(at + 50, 101))]
        return rpc({"tools": page, **({"nextCursor": str(at + 50)} if at + 50 < 101 else {})})(request)

    with connected(legacy(tools__list=listing)) as (client, _):
        assert len(client.list_tools()) == 101


@report("anthropics/claude-ai-mcp#154")
def a_result_is_plain_text_by_its_header():
    def reply(request):
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("hi")})
        return http(200, body, content_type="text/plain")

    assert answer_to(legacy(tools__call=reply)).text == "hi"


@report("render-oss/render-mcp-server#26")
def the_servers_stream_is_refused_with_400():
    refused = http(400, "Session registration failed: session already exists", content_type="text/plain")
    with connected(legacy("s", GET=refused)) as (client, _):
        assert [client.call_tool("echo").text for _ in range(3)] == ["hi"] * 3


@report("kaeawc/auto-mobile#1942")
def a_second_stream_of_the_server_is_refused_with_409():
    with connected(legacy("s", GET=[stream(), http(409)])) as (client, _):
        assert [client.call_tool("echo").text for _ in range(3)] == ["hi"] * 3


@report("danny-avila/LibreChat#11868")
def a_server_that_was_restarted_answers_404():
    script = legacy("s", GET=http(404), tools__call=[http(404), rpc(text("hi"))])
    with connected(script) as (client, server):
        assert client.call_tool("echo").text == "hi"
        assert server.methods.count("initialize") == 2


@report("modelcontextprotocol/kotlin-sdk#450")
def a_content_type_may_have_no_parameters():
    with connected(legacy()) as (client, server):
        client.call_tool("echo")
        assert {each.headers["content-type"] for each in server.requests if each.body} == {"application/json"}


@report("bh-rat/context-awesome#11")
def both_media_types_are_accepted_in_one_header():
    with connected(legacy()) as (client, server):
        client.call_tool("echo")
        accepted = {each.headers["accept"] for each in server.requests if each.body}
        assert accepted == {"application/json, text/event-stream"}


@report("samihalawa/mcp-server-smtp#4")
def a_result_is_the_value_itself_without_content():
    result = answer_to(legacy(tools__call=rpc({"success": True, "configs": ROWS})))
    assert json.loads(result.text) == {"success": True, "configs": ROWS}
    assert records_of(None, result.text) == [("configs", ROWS)]


@report("aaronsb/obsidian-mcp-plugin#36")
def a_get_is_answered_with_json_about_the_server():
    about = http(200, json.dumps({"message": "MCP endpoint active"}))
    with connected(legacy("s", GET=about)) as (client, _):
        assert [client.call_tool("echo").text for _ in range(3)] == ["hi"] * 3


@report("langchain-ai/langchain-mcp-adapters#619")
def a_failure_has_structured_content():
    result = answer_to(legacy(tools__call=rpc({"isError": True, "structuredContent": {"code": "LIMITED"}})))
    assert result.is_error
    assert result.structured_content == {"code": "LIMITED"}
    assert "LIMITED" in result.text


@report("modelcontextprotocol/python-sdk#2667")
def a_structured_result_violates_its_schema():
    schema = {"type": "object", "properties": {"kind": {"enum": ["a"]}}}
    script = legacy(
        tools__list=rpc({"tools": [tool(outputSchema=schema)]}),
        tools__call=rpc(text("b", structuredContent={"kind": "b"})),
    )
    with connected(script) as (client, _):
        client.list_tools()
        with pytest.raises(ResultInvalid) as caught:
            client.call_tool("echo")
        assert caught.value.result.structured_content == {"kind": "b"}


@report("CALLE-AI/awesome-phone-call-agents#158")
def the_payload_is_json_in_a_text_in_json():
    result = answer_to(legacy(tools__call=rpc(text(json.dumps({"result": json.dumps(ROWS)})))))
    assert records_of(None, result.text)[0][1] == ROWS


@report("IBM/mcp-context-forge#6275")
def a_failed_tool_is_an_error_of_the_protocol():
    with pytest.raises(MCPError, match="Tool invocation failed"):
        answer_to(legacy(tools__call=rpc_error(-32000, "Tool invocation failed")))


@report("lightweight-component/aj-mcp#4")
def a_tool_without_arguments_has_null_as_schema():
    assert names({"name": "time", "inputSchema": None}, {"name": "none"}) == ["time", "none"]


@report("anthropics/claude-code#88049")
def a_schema_is_a_choice_at_its_top():
    choice = {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]}
    assert names(tool("one"), {"name": "two", "inputSchema": choice}) == ["one", "two"]


@report("anthropics/claude-code#44364")
def what_is_required_is_null():
    required = {"type": "object", "properties": {}, "required": None}
    assert names(tool("one"), {"name": "two", "inputSchema": required}) == ["one", "two"]


@report("cognizant-ai-lab/neuro-san#1341")
def there_is_a_null_among_the_tools():
    assert names(tool("one"), None, {"name": "two", "inputSchema": {"$ref": "#/$defs/x"}}) == ["one", "two"]


@report("kenn-io/msgvault#626")
def an_output_schema_is_of_a_list_or_null():
    script = legacy(
        tools__list=rpc({"tools": [tool(outputSchema={"type": ["null", "array"]})]}),
        tools__call=rpc({"content": [], "structuredContent": ROWS}),
    )
    with connected(script) as (client, _):
        assert [each.name for each in client.list_tools()] == ["echo"]
        assert client.call_tool("echo").structured_content == ROWS


@report("datagouv/datagouv-mcp#68")
def an_old_stream_pings_and_never_names_its_endpoint():
    pings = stream(*[b": ping\n\n"] * 3, Part.STALL, end=False)
    script = {"*": http(404), "GET": pings}
    short = Timeouts(connect=1, idle=1, total=30)
    with pytest.raises(MCPError, match="No event within"), connected(script, timeouts=short):
        pass


@report("punkpeye/fastmcp#198")
def parts_of_the_result_come_as_messages_of_another_name():
    part = notification("notifications/tool/streamContent", content=[{"type": "text", "text": "part"}])
    assert answer_to(legacy(tools__call=stream(event(part), reply_event(text("hi"))))).text == "hi"


@report("dirmacs/daedra#4")
def initialized_is_answered_with_an_error():
    error = http(200, json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "no"}}))
    script = legacy(notifications__initialized=error)
    assert answer_to(script).text == "hi"


def test_reported_servers_are_understood():
    wrong = {}
    for of, check in REPORTS.items():
        try:
            check()
        except Exception as error:
            wrong[of] = f"{check.__name__}: {type(error).__name__} {error}"[:500]
    assert not wrong
