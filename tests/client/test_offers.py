"""Listing and reading what a server offers beside tools."""

import pytest

from knime_mcp.client.authorization import BearerAuth
from knime_mcp.client.limits import Limits
from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import ProtocolError, ResultTooLarge, ServerError
from tests.support.scripted_server import ScriptedServer, legacy, modern, rpc, rpc_error

pytestmark = pytest.mark.quick


TOKEN = "t0ken-9f2c4e6a8b1d"


@pytest.mark.parametrize("era", [legacy, modern])
def test_all_pages_and_templates_are_listed(era):
    pages = [
        rpc({"resources": [{"uri": "a:1", "name": "one"}], "nextCursor": "next"}),
        rpc({"resources": [{"uri": "a:2"}, {"name": "no uri"}]}),
    ]
    templates = rpc({"resourceTemplates": [{"uriTemplate": "a:{x}"}]})
    script = era(resources__list=pages, resources__templates__list=templates)
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        listed = client.list_resources()
        assert server.named("resources/list")[1].params["cursor"] == "next"
    assert [(each.uri, each.is_template) for each in listed] == [
        ("a:1", False),
        ("a:2", False),
        ("a:{x}", True),
    ]


def test_a_server_without_them_has_none():
    unknown = rpc_error(-32601, "Method not found")
    script = legacy(resources__list=unknown, resources__templates__list=unknown, prompts__list=unknown)
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.list_resources() == []
        assert client.list_prompts() == []


def test_secrets_that_a_server_repeats_are_hidden_from_its_readers():
    told = {"description": f"for {TOKEN}", "title": TOKEN}
    script = legacy(
        resources__list=rpc({"resources": [{"uri": "a:1", "name": "one", **told}]}),
        resources__templates__list=rpc({"resourceTemplates": [{"uriTemplate": "a:{x}", **told}]}),
        prompts__list=rpc({"prompts": [{"name": "p", "arguments": [{"name": "a", **told}], **told}]}),
    )
    with ScriptedServer(script) as server, MCPClient(server.url, auth=BearerAuth(TOKEN)) as client:
        resource, template = client.list_resources()
        (prompt,) = client.list_prompts()
    assert (resource.uri, template.uri, template.is_template) == ("a:1", "a:{x}", True)
    for said in (resource, template, prompt, prompt.arguments[0]):
        assert said.description == "for [secret]"
    assert TOKEN not in repr([resource.raw, template.raw, prompt.raw])


@pytest.mark.parametrize("part", [{"title": "t" * 10_001}, {"arguments": [{"name": "a"}] * 400_000}])
def test_what_nobody_could_look_at_is_left_out(part):
    """A URI of 30 MB kept `resources list` for minutes."""
    script = legacy(
        resources__list=rpc({"resources": [{"uri": "a:1"}, {"uri": "a:2", **part}]}),
        resources__templates__list=rpc({"resourceTemplates": []}),
        prompts__list=rpc({"prompts": [{"name": "p"}, {"name": "q", **part}]}),
    )
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert [each.uri for each in client.list_resources()] == ["a:1"]
        assert [each.name for each in client.list_prompts()] == ["p"]


def test_a_list_in_circles_ends():
    script = legacy(prompts__list=rpc({"prompts": [{"name": "a"}], "nextCursor": "same"}))
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url) as client,
        pytest.raises(ProtocolError, match="in circles"),
    ):
        client.list_prompts()


def test_all_pages_of_a_list_together_end_at_the_limit():
    """Each of them is small enough by itself."""

    def page(request):
        number = int(request.params.get("cursor", "0"))
        resource = {"uri": f"a:{number}", "description": "x" * 1000}
        return rpc({"resources": [resource], "nextCursor": str(number + 1)})(request)

    with (
        ScriptedServer(legacy(resources__list=page)) as server,
        MCPClient(server.url, limits=Limits(listing_bytes=10_000)) as client,
        pytest.raises(ResultTooLarge, match=r"list of resources is larger than 10\.0 KB"),
    ):
        client.list_resources()
    assert len(server.named("resources/list")) < 11


def test_modern_requests_name_what_they_want_in_a_header():
    script = modern(
        resources__read=rpc({"contents": [], "resultType": "complete"}),
        prompts__get=rpc({"messages": [], "resultType": "complete"}),
    )
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.read_resource("a://b/ü")
        client.get_prompt("greet", {"who": "x"})
        client.get_prompt("hello")
        (read,), (got, bare) = server.named("resources/read"), server.named("prompts/get")
    assert read.headers["mcp-name"].startswith("=?base64?") or read.headers["mcp-name"] == "a://b/ü"
    assert read.params["uri"] == "a://b/ü"
    assert got.headers["mcp-name"] == "greet"
    assert got.params["arguments"] == {"who": "x"}
    assert bare.params["arguments"] == {}  # which SDKs want where all arguments are optional


def test_a_round_of_input_is_followed():
    script = modern(
        resources__read=[
            rpc({"resultType": "input_required", "requestState": "s1"}),
            rpc({"resultType": "complete", "contents": [{"uri": "a:b", "text": "x"}]}),
        ]
    )
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.read_resource("a:b")["contents"][0]["text"] == "x"
        assert server.named("resources/read")[1].params["requestState"] == "s1"


def test_a_refusal_is_the_servers_own_words():
    script = legacy(resources__read=rpc_error(-32002, "Resource not found"))
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url) as client,
        pytest.raises(ServerError, match="Resource not found"),
    ):
        client.read_resource("a:gone")
