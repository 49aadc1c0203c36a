"""The stdio servers that others wrote: both eras, state, progress, cancel, and an orderly end."""

import contextlib
import json
import os
import time

import pytest

from knime_mcp.client.transports import stdio_process
from knime_mcp.tools import MCPClient, StdioServer
from knime_mcp.types.errors import Canceled
from tests.peers import build_peers
from tests.support.waiting import until

SDK_SERVER = """
import asyncio
from mcp.server{module} import {server} as Server, Context

server = Server("sdk")
canceled = []

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

@server.tool()
async def count(steps: int, ctx: Context) -> str:
    for step in range(steps):
        await ctx.report_progress(step, steps)
    return "counted"

@server.tool()
async def wait() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        canceled.append("wait")
        raise

@server.tool()
def canceled_calls() -> list[str]:
    return canceled

server.run("stdio")
"""
SDKS = {
    "mcp2": SDK_SERVER.format(module=".mcpserver", server="MCPServer"),
    "mcp1": SDK_SERVER.format(module=".fastmcp", server="FastMCP"),
}
PINNED = {"mcp2": "2026-07-28", "mcp1": "2025-11-25"}

pytestmark = pytest.mark.peer


def node_server(package, *arguments, env=None):
    _needs("node")
    program = build_peers.node_package(f"@modelcontextprotocol/{package}") / "dist" / "index.js"
    return StdioServer(package, [str(build_peers.node()), str(program), *arguments], env=env or {})


def python_server(environment, *arguments):
    _needs(environment)
    return StdioServer(environment, [str(build_peers.python(environment)), *arguments])


def _needs(environment):
    if not build_peers.is_fresh(environment):
        pytest.fail(f"the peers in {environment} are missing or outdated: run `make peers`", pytrace=False)


@contextlib.contextmanager
def connected(server, **options):
    """A client whose server must end when its input is closed; the test would else run out of time."""
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stdio_process, "_POLITE_SECONDS", 3600)
        with MCPClient(stdio=server, trace=steps.append, **options) as client:
            pid = int(steps[0].detail.removeprefix("process "))
            os.killpg(pid, 0)
            yield client
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


def test_server_everything_with_progress_and_its_own_environment():
    with connected(node_server("server-everything", "stdio", env={"GREETING": "hello"})) as client:
        assert client.server.protocol_version == "2025-11-25"
        assert len(client.list_tools()) > 10
        assert client.call_tool("echo", {"message": "grüß"}).text == "Echo: grüß"
        assert client.call_tool("get-structured-content", {"location": "Chicago"}).structured_content
        told = []
        arguments = {"duration": 0.2, "steps": 4}
        assert client.call_tool("trigger-long-running-operation", arguments, on_progress=told.append).text
        assert len(told) == 4
        shown = json.loads(client.call_tool("get-env").text)
        assert shown["GREETING"] == "hello"
        assert not {"PYTHONPATH", "PWD", "VIRTUAL_ENV"} & set(shown)


def test_server_filesystem_reads_writes_and_refuses(tmp_path):
    (tmp_path / "note.txt").write_text("x" * 300_000)
    with connected(node_server("server-filesystem", str(tmp_path))) as client:
        assert len(client.call_tool("read_text_file", {"path": str(tmp_path / "note.txt")}).text) == 300_000
        client.call_tool("write_file", {"path": str(tmp_path / "new.txt"), "content": "a\nb"})
        assert client.call_tool("read_text_file", {"path": "/etc/passwd"}).is_error
    assert (tmp_path / "new.txt").read_text() == "a\nb"


def test_server_memory_keeps_what_it_was_told(tmp_path):
    server = node_server("server-memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")})
    entity = {"name": "KNIME", "entityType": "tool", "observations": ["speaks MCP"]}
    with connected(server) as client:
        client.call_tool("create_entities", {"entities": [entity]})
    with connected(server) as client:
        assert client.call_tool("read_graph").structured_content["entities"][0]["name"] == "KNIME"


def test_a_server_of_the_modern_era():
    _needs("mcp2")
    program = build_peers.python("mcp2").with_name("mcp-server-time")
    with connected(StdioServer("time", [str(program)])) as client:
        assert client.server.protocol_version == "2026-07-28"
        assert [tool.name for tool in client.list_tools()] == ["get_current_time", "convert_time"]
        assert "UTC" in client.call_tool("get_current_time", {"timezone": "UTC"}).text


@pytest.mark.parametrize("sdk", SDKS)
def test_the_official_sdk(sdk):
    with connected(python_server(sdk, "-c", SDKS[sdk])) as client:
        assert client.server.protocol_version == PINNED[sdk]
        client.list_tools()
        assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"result": 3}
        told = []
        assert client.call_tool("count", {"steps": 3}, on_progress=told.append).text == "counted"
        assert [report.progress for report in told] == [0, 1, 2]
        assert client.call_tool("no such tool").is_error


@pytest.mark.parametrize("sdk", SDKS)
def test_the_official_sdk_cancels_what_we_cancel(sdk):
    with connected(python_server(sdk, "-c", SDKS[sdk])) as client:
        started = time.monotonic()
        with pytest.raises(Canceled):
            client.call_tool("wait", is_canceled=lambda: time.monotonic() > started + 0.5)
        until(lambda: "wait" in client.call_tool("canceled_calls").text, "the server cancels")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_every_revision_can_be_asked_for(version):
    with connected(python_server("mcp2", "-c", SDKS["mcp2"]), protocol_version=version) as client:
        assert client.server.protocol_version == version
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


def test_a_command_that_is_a_script_runs_as_it_is(tmp_path):
    """Many servers are started by a wrapper (npx, uvx, a shell script) that waits for the real one."""
    script = tmp_path / "server.sh"
    script.write_text(f"#!/bin/sh\n'{build_peers.python('mcp2')}' \"$@\"\necho done >&2\n")
    script.chmod(0o755)
    with connected(StdioServer("wrapped", [str(script), "-c", SDKS["mcp2"]])) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
