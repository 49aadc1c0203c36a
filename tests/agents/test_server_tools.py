"""The tools of servers for agents of other libraries, with one call."""

import asyncio
import base64
import json
import socket
import threading

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tools import ToolException

from knime_mcp.agents import langchain_tools
from knime_mcp.agents.toolbox.call_rules import CallRules
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import ConnectError, SettingInvalid
from tests.support import peers
from tests.support import scripted_server as scripted
from tests.support.waiting import until

NOBODY = "http://127.0.0.1:9/mcp"


@pytest.fixture(scope="module")
def server():
    """A counting server; paths /one and /two."""
    with peers.running(peers.counting()) as running:
        yield running


def named(tools, name):
    """The tools whose names begin so."""
    return [tool for tool in tools if tool.name.startswith(name)]


def one_call(name, **arguments):
    """A call as agents make it, whose answer is a message."""
    return {"name": name, "args": arguments, "id": "c", "type": "tool_call"}


def test_the_tools_of_a_server_keep_their_names_and_can_be_called(server):
    with langchain_tools(MCPClient(server.url("/one"))) as tools:
        by_name = {tool.name: tool for tool in tools}
        assert by_name["add"].invoke({"a": 1, "b": 2}) == "3"
        assert by_name["add"].args["a"]["type"] == "integer"


def test_tools_of_several_servers_have_unique_names(server):
    with langchain_tools(*(MCPClient(server.url(path)) for path in ("/one", "/two"))) as tools:
        assert len({tool.name for tool in tools}) == len(tools)
        assert tools[-1].name == "read_result"
        assert [tool.invoke({}) for tool in named(tools, "who")] == ["one", "two"]


def test_rules_hold_and_every_call_is_on_record(server, tmp_path):
    rules = ToolOptions(rules=CallRules.parse("deny who"))
    with (
        Journal(tmp_path / "run.jsonl", run="run-1") as journal,
        langchain_tools(MCPClient(server.url("/one")), options=rules, journal=journal) as tools,
    ):
        named(tools, "add")[0].invoke({"a": 1})
        named(tools, "who")[0].invoke({})
    content = read_journal(tmp_path / "run.jsonl")
    assert [(record.tool_name, record.status.value) for record in content.records] == [
        ("add", "ok"),
        ("who", "denied"),
    ]
    assert {record.run for record in content.records} == {"run-1"}


def test_a_call_that_is_under_way_at_the_end_is_on_record(server, tmp_path):
    with Journal(tmp_path / "run.jsonl", run="run-1") as journal:
        with langchain_tools(MCPClient(server.url("/one")), journal=journal) as tools:
            called, wait = named(tools, "called")[0], named(tools, "wait")[0]
            before = called.invoke({})
            thread = threading.Thread(target=wait.invoke, args=({"seconds": 60.0},))
            thread.start()
            until(lambda: called.invoke({}) != before, seconds=30)
        thread.join(30)
    last = read_journal(tmp_path / "run.jsonl").records[-1]
    assert (last.tool_name, last.status.value) == ("wait", "canceled")
    assert "whether it did its work is not known" in last.error


def test_tables_are_not_kept_where_no_tool_takes_any(shapes):
    """In a long-lived agent they would fill the memory."""
    with langchain_tools(MCPClient(shapes.url("/legacy/json/parameterless"))) as tools:
        result = named(tools, "empty_schema")[0].invoke({"rows": [{"city": "Bodman"}]})
    assert json.loads(result) == {"rows": [{"city": "Bodman"}]}


def test_after_the_block_calls_say_that_the_connection_is_closed(server):
    with langchain_tools(MCPClient(server.url("/one"))) as tools:
        pass
    assert "is closed" in named(tools, "add")[0].invoke({"a": 1})


def test_a_key_in_the_address_reaches_the_server_and_no_tool_cell(server, tmp_path):
    client = MCPClient(f"{server.url('/one')}?api_key=canary-key-0003")
    with (
        Journal(tmp_path / "run.jsonl", run="run-1") as journal,
        langchain_tools(client, journal=journal) as tools,
    ):
        assert named(tools, "who")[0].invoke({}) == "one"
    assert "canary-key-0003" not in (tmp_path / "run.jsonl").read_text("utf-8")


def test_a_server_that_cannot_be_reached_is_said(server):
    clients = MCPClient(server.url("/one")), MCPClient(NOBODY)
    with pytest.raises(ConnectError, match="port 9"), langchain_tools(*clients):
        raise AssertionError("must not get here")


def test_two_clients_of_one_server_are_refused(server):
    clients = [MCPClient(server.url("/one")) for _ in range(2)]
    with pytest.raises(SettingInvalid, match="same server"), langchain_tools(*clients):
        raise AssertionError("must not get here")


def test_tools_of_the_same_name_say_where_they_are(server):
    with langchain_tools(*(MCPClient(server.url(path)) for path in ("/one", "/two"))) as tools:
        assert [f":{server.port}/one" in tool.description for tool in named(tools, "who")] == [True, False]


def test_a_prefix_for_the_names(server):
    clients = [MCPClient(server.url(path)) for path in ("/one", "/two")]
    with langchain_tools(*clients, prefix="{server}-") as tools:
        names = [tool.name for tool in tools if tool.name.endswith("who")]
    assert len(names) == 2
    assert all(f"_{server.port}_" in name for name in names)


class Noting(BaseCallbackHandler):
    def __init__(self):
        self.errors = []

    def on_tool_error(self, error, **_):
        self.errors.append(error)


def test_a_failure_can_be_an_exception(server):
    noting = Noting()
    with langchain_tools(MCPClient(server.url("/one")), on_tool_error="raise") as tools:
        with pytest.raises(ToolException, match="rain"):
            named(tools, "fail")[0].invoke({"why": "rain"}, {"callbacks": [noting]})
        assert named(tools, "who")[0].invoke({}) == "one"
    assert len(noting.errors) == 1


def test_a_block_in_a_coroutine(server):
    async def added():
        async with langchain_tools(MCPClient(server.url("/one"))) as tools:
            return tools, await named(tools, "add")[0].ainvoke({"a": 1, "b": 2})

    tools, result = asyncio.run(added())
    assert result == "3"
    assert "is closed" in named(tools, "add")[0].invoke({"a": 1})


def test_an_error_in_the_block_comes_out_of_it_and_closes_it(server):
    seen = []

    async def broken():
        async with langchain_tools(MCPClient(server.url("/one"))) as tools:
            seen.extend(tools)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(broken())
    assert "is closed" in named(seen, "add")[0].invoke({"a": 1})


def test_who_stops_waiting_for_the_block_ends_the_connecting(server):
    """The event loop goes on while a server is silent, and the connection to it does not stay."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        port = silent.getsockname()[1]

        async def give_up():
            opening = asyncio.create_task(
                langchain_tools(MCPClient(f"http://127.0.0.1:{port}/mcp")).__aenter__()
            )
            connection, _ = await asyncio.to_thread(silent.accept)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            return connection

        with asyncio.run(give_up()) as connection:
            connection.settimeout(30)
            while connection.recv(65_536):  # what was sent, then its end
                pass


@pytest.mark.parametrize("images", [False, True])
def test_images_are_in_the_content_if_asked_for(server, images):
    with langchain_tools(MCPClient(server.url("/one")), images=images) as tools:
        message = named(tools, "pixel")[0].invoke(one_call("pixel"))
        assert named(tools, "who")[0].invoke({}) == "one"
    text, picture = message.artifact.content
    assert message.content == ([text, picture] if images else text["text"])
    assert text["text"] == "[image image/png, 70 bytes]"
    assert (picture["type"], picture["mime_type"]) == ("image", "image/png")
    assert base64.b64decode(picture["base64"]).startswith(b"\x89PNG")


def test_reading_on_in_a_long_result(server):
    with langchain_tools(MCPClient(server.url("/one")), options=ToolOptions(longest_result=1000)) as tools:
        read = named(tools, "read_result")[0]
        assert "no result 'r1'" in read.invoke({"id": "r1"})
        shown = named(tools, "big")[0].invoke({"megabytes": 1})
        assert 'call read_result with {"id": "r1", "offset": 750}' in shown
        more = read.invoke({"id": "r1", "offset": 750})
        place = "Characters 750 to 1,750 of the 1,048,576 of result r1; 1,046,826 characters follow"
        assert more == f"[{place}]\n{'x' * 1000}"
        assert read.invoke(one_call("read_result", id="r2")).status == "error"
        assert set(read.args) == {"id", "offset"}


def test_a_server_with_a_tool_of_the_readers_name_keeps_it():
    listed = scripted.rpc({"tools": [scripted.tool("read_result")]})
    with (
        scripted.ScriptedServer(scripted.legacy(tools__list=listed)) as server,
        langchain_tools(MCPClient(server.url)) as tools,
    ):
        assert [tool.name for tool in tools] == ["read_result", "read_result_2"]
