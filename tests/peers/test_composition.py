"""`server-everything` behind a graph server, as the official client sees it: both eras, both transports."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.graph.graphs import EXIT, tool, yaml
from tests.graph.live import SERVE, client_of, command, run, served
from tests.peers.test_graphs import node_server

pytestmark = pytest.mark.peer

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
ASK = [
    "{id: entry, type: entry, next: a}",
    "{id: a, type: mcp, server: ev, tool: trigger-elicitation-request, args: {}, next: b}",
    "{id: b, type: transform, transform: {expr: \"{'said': $nodeContent('a')[1].text}\"}, next: exit}",
]
PUBLISH = """
publish:
  ev:
    tools:
      except: [gzip*]
      change:
        get-sum:
          name: add_40
          description: Adds forty.
          arguments: {a: {name: number}, b: {value: 40}}
    resources: true
    prompts: true
    questions: true
    logs: true
  other: {tools: [echo], resources: true, prompts: [simple-prompt]}
"""


@pytest.fixture
def file(tmp_path):
    everything = node_server("server-everything", "stdio")
    servers = f"mcpServers:\n  ev: {everything}\n  other: {everything}\n"
    file = tmp_path / "graph.yaml"
    file.write_text(yaml(tool(*ASK, EXIT, name="asks"), servers=servers, more=PUBLISH))
    return file


async def fill_in(_, params):
    assert "name" in params.requested_schema["properties"]
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def answer(_, params):
    content = types.TextContent(type="text", text=f"said {params.messages[0].content.text[-4:]}")
    return types.CreateMessageResult(role="assistant", model="m", content=content)


@asynccontextmanager
async def guarded_client(file, **options):
    """The official client, of 2026-07-28, on a server over HTTP that wants a key."""
    keys = file.with_name("keys.json")
    key = command("nodes", "keys", "create", "ci", "--keys-file", keys).stdout.strip()
    with served(*SERVE, file, "--http", "0", "--keys-file", keys) as server:
        http = create_mcp_http_client(headers={"X-API-Key": key})
        transport = streamable_http_client(server.url, http_client=http)
        async with http, Client(transport, mode="2026-07-28", **options) as client:
            yield client


@pytest.mark.parametrize("opened", [partial(client_of, mode="legacy"), guarded_client], ids=["stdio", "keys"])
def test_a_client_has_of_the_servers_what_the_document_publishes(file, opened):
    done, logged = [], []

    async def log(params):
        logged.append(params.level)

    async def progress(progress, total, _message):
        done.append((progress, total))

    async def uses(client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"asks", "add_40", "echo", "other_echo", "trigger-sampling-request"} <= tools.keys()
        assert not {"get-sum", "gzip-file-as-resource"} & tools.keys()
        assert tools["add_40"].description == "Adds forty."
        assert tools["add_40"].input_schema["properties"].keys() == {"number"}
        assert await said(client, "add_40", number=2) == "The sum of 2 and 40 is 42."
        assert await said(client, "other_echo", message="hi") == "Echo: hi"
        picture = await client.call_tool("get-tiny-image", {})
        assert [block.type for block in picture.content] == ["text", "image", "text"]
        long = {"duration": 0.2, "steps": 2}
        await client.call_tool("trigger-long-running-operation", long, progress_callback=progress)
        assert done == [(1, 2), (2, 2)]

        assert "Ann" in await said(client, "trigger-elicitation-request", block=1)
        assert "said text" in await said(client, "trigger-sampling-request", prompt="text")
        assert "Ann" in (await client.call_tool("asks", {})).structured_content["said"]

        await client.call_tool("toggle-simulated-logging", {}, meta={LOG_LEVEL: "debug"})
        while not logged:
            await asyncio.sleep(0.02)

        resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
        own = [uri for uri in resources if uri.startswith("demo:")]
        assert resources == [*own, *(f"other+{uri}" for uri in own)]
        templates = [
            found.uri_template for found in (await client.list_resource_templates()).resource_templates
        ]
        assert "other+demo://resource/dynamic/text/{resourceId}" in templates
        for uri in (
            own[0],
            f"other+{own[0]}",
            "demo://resource/dynamic/text/3",
            "other+demo://resource/dynamic/text/3",
        ):
            (content,) = (await client.read_resource(uri)).contents
            assert (str(content.uri), bool(content.text)) == (uri, True)
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert {"args-prompt", "simple-prompt", "other_simple-prompt"} <= prompts
        assert "other_args-prompt" not in prompts
        weather = await client.get_prompt("args-prompt", {"city": "Konstanz"})
        assert "Konstanz" in weather.messages[0].content.text

    async def whole():
        asked = {"elicitation_callback": fill_in, "sampling_callback": answer, "logging_callback": log}
        server = file if opened is guarded_client else [*SERVE, file]
        async with opened(server, **asked) as client:
            await uses(client)

    run(whole())


async def said(client, tool, block=0, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.content[block].text
