"""The contract: what is counted, what errors say, and how limits are raised."""

import re
import threading

import pytest

from knime_mcp.client.limits import Limits
from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import ResultTooLarge, SettingInvalid
from tests.support import waiting
from tests.support.scripted_server import ScriptedServer, http, legacy, rpc, text, tool

pytestmark = pytest.mark.quick


def test_the_environment_raises_limits(monkeypatch):
    monkeypatch.setenv("KNIME_MCP_LIMITS", " values=5_000_000,result_bytes = 256 MiB ")
    assert Limits.usual() == Limits(values=5_000_000, result_bytes=256 * 1024 * 1024)
    monkeypatch.delenv("KNIME_MCP_LIMITS")
    assert Limits.usual() == Limits()


@pytest.mark.parametrize(
    "wrong", ["values", "values=many", "value=1", "values=0", "values=-1", "values=1 KB"]
)
def test_what_is_no_limit_is_said_before_anything_is_sent(monkeypatch, wrong):
    monkeypatch.setenv("KNIME_MCP_LIMITS", wrong)
    with pytest.raises(SettingInvalid, match=r"which is no limit.*names are attempts, blocks,"):
        MCPClient("http://127.0.0.1:1/mcp")


def refused(script, limits, use=lambda mcp: mcp.call_tool("echo")):
    with ScriptedServer(script) as server, MCPClient(server.url, limits=limits) as mcp:
        with pytest.raises(ResultTooLarge) as caught:
            use(mcp)
        return str(caught.value)


CASES = {
    "values": ({"v": [0] * 5000}, Limits(values=1000), "more than 1,000 values: 5,0"),
    "blocks": (None, Limits(blocks=3), "4 content blocks, more than 3"),
    "result_bytes": ({"v": "x" * 5000}, Limits(result_bytes=2000), r"reply \(5.1 KB\) is larger than 2.0 KB"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_names_the_limit_what_was_sent_and_the_option(name):
    value, limits, words = CASES[name]
    result = text("a") if value is None else {"content": [], "structuredContent": value}
    if value is None:
        result["content"] *= 4
    said = refused(legacy(tools__call=rpc(result)), limits)
    assert re.search(words, said)
    assert f"KNIME_MCP_LIMITS='{name}={2 * getattr(limits, name)}'" in said
    assert f"Limits({name}=" in said


def test_a_listing_has_so_many_values_on_all_its_pages_together():
    def page(request):
        number = int(request.params.get("cursor", 0))
        entry = tool(f"t{number}", inputSchema={"type": "object", "enum": [0] * 600})
        return rpc({"tools": [entry], "nextCursor": str(number + 1)})(request)

    said = refused(legacy(tools__list=page), Limits(values=2000), lambda mcp: mcp.list_tools())
    assert "list of tools has more than 2,000 values: 2,4" in said
    assert "on 4 pages" in said


def test_large_replies_are_read_one_at_a_time_and_small_ones_beside_them():
    go_on, large = threading.Event(), b'{"content": [{"type": "text", "text": "%s"}]}' % (b"x" * 60_000)

    def reply(request):
        if request.params["arguments"]["size"] == "small":
            return rpc(text("small"))(request)
        body = b'{"jsonrpc": "2.0", "id": %d, "result": %s}' % (request.json["id"], large)
        (head,) = http(200, body)
        # Until told to go on, the first one holds the turn, and nothing of the second one is read further.
        return [head[:-30_000], lambda _request: go_on.wait(30) and head[-30_000:]]

    done = []
    limits = Limits(large_bytes=10_000)
    with ScriptedServer(legacy(tools__call=reply)) as server, MCPClient(server.url, limits=limits) as mcp:

        def call(size):
            done.append((size, len(mcp.call_tool("echo", {"size": size}).text)))

        threads = [threading.Thread(target=call, args=("large",)) for _ in range(3)]
        for thread in threads:
            thread.start()
        waiting.until(lambda: len(server.named("tools/call")) == 3, "three calls arrive")
        call("small")
        assert done == [("small", 5)]
        go_on.set()
        for thread in threads:
            thread.join(30)
    assert sorted(done) == [("large", 60_000)] * 3 + [("small", 5)]
