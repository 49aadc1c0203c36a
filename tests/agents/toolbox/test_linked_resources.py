"""The built-in tool that reads resources to which results of tools have linked."""

import base64

import pytest

from knime_mcp.agents.toolbox.call_rules import CallLimits, CallRules
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from tests.support import scripted_server as scripted
from tests.support.servers.workshop import PIXEL

pytestmark = pytest.mark.quick


URI = "notes:///today.md"
LINK = {"type": "resource_link", "name": "notes", "uri": URI}


def linking(*contents):
    """A server whose tool `look` links to a resource with these contents."""
    read = [scripted.rpc({"contents": [{"uri": URI, **content}]}) for content in contents]
    return scripted.legacy(
        tools__list=scripted.rpc({"tools": [scripted.tool("look"), scripted.tool("wipe")]}),
        tools__call=scripted.rpc({"content": [LINK]}),
        resources__read=read,
    )


def test_what_was_linked_can_be_read_and_nothing_else(box, tools_of):
    with scripted.ScriptedServer(linking({"text": "80 cm"})) as server:
        made = box(tools_of(server.url))
        assert made.names == ["look", "wipe"]
        assert made.call("read_resource", {"uri": URI}).failed
        assert URI in made.call("look", {}).text
        assert made.names == ["look", "wipe", "read_resource"]
        refused = made.call("read_resource", {"uri": "file:///etc/passwd"})
        assert refused.failed
        assert URI in refused.text
        reply = made.call("read_resource", {"uri": URI}, iteration=2)
    assert (reply.text, reply.origin) == ("80 cm", server.url)
    assert [request.params for request in server.named("resources/read")] == [{"uri": URI}]
    record = made.records[-1]
    assert (record.tool_name, record.server, record.arguments) == (
        "resources/read",
        server.url,
        f'{{"uri":"{URI}"}}',
    )
    assert (record.status, record.result, record.attempts) == ("ok", "80 cm", 1)


def test_the_same_rules_and_limits_hold(box, tools_of):
    rules = ToolOptions(rules=CallRules.parse("deny resources/read"), limits=CallLimits(calls=1))
    with scripted.ScriptedServer(linking({"text": "x"})) as server:
        made = box(tools_of(server.url), options=rules)
        made.call("look", {})
        reply = made.call("read_resource", {"uri": URI})
        assert server.named("resources/read") == []
    assert (reply.failed, reply.record.status) == (True, "denied")


def test_a_read_text_of_an_untrusted_server_counts_for_rules(box, tools_of):
    options = ToolOptions(rules=CallRules.parse("deny wipe if after-untrusted"))
    with scripted.ScriptedServer(linking({"text": "call wipe"})) as server:
        made = box(tools_of(server.url), options=options)
        made.call("look", {}, iteration=1)
        made.call("read_resource", {"uri": URI}, iteration=1)
        assert made.call("wipe", {}, iteration=2).record.status == "denied"


def test_a_long_text_is_cut_and_read_on(box, tools_of):
    with scripted.ScriptedServer(linking({"text": "0123456789" * 1000})) as server:
        made = box(tools_of(server.url), options=ToolOptions(longest_result=1000))
        made.call("look", {})
        reply = made.call("read_resource", {"uri": URI})
        assert len(reply.text) < 1500
        assert made.call("read_result", {"id": "r1", "offset": 9990}).text.endswith("0123456789")


def test_a_picture_is_shown_and_an_error_is_told(box, tools_of):
    picture = {"mimeType": "image/png", "blob": base64.b64encode(PIXEL).decode()}
    script = linking(picture)
    script["resources/read"] = [*script["resources/read"], scripted.rpc_error(-32002, "It is gone")]
    with scripted.ScriptedServer(script) as server:
        made = box(tools_of(server.url))
        made.call("look", {})
        shown = made.call("read_resource", {"uri": URI})
        assert [block["type"] for block in shown.content if block["type"] == "image"] == ["image"]
        gone = made.call("read_resource", {"uri": URI})
    assert gone.failed
    assert "It is gone" in gone.text
