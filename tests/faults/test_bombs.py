"""A few kilobytes that unpack to 60 MB of small values are refused in every way that a server is reached."""

import json
import subprocess
import sys
import zlib
from pathlib import Path

from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.scripted_server import ScriptedServer, http, legacy, rpc, tool

ROOT = Path(__file__).parents[2]
WAYS = ("call_tool", "list_tools", "initialize", "call", "list", "batch", "node", "graph", "agent")
READ_ONLY = rpc({"tools": [tool(annotations={"readOnlyHint": True})]})


def packed(*parts):
    packer = zlib.compressobj(wbits=31)
    return b"".join(map(packer.compress, parts)) + packer.flush()


def bomb(beginning, end):
    rest = packed(*[b"0," * 500_000] * 60, end)
    assert len(rest) < 100_000

    def reply(request):
        # The members of a gzip file follow each other: only the first one is packed for each request.
        head = packed(b'{"jsonrpc": "2.0", "id": %d, "result": %s' % (request.json["id"], beginning))
        return http(200, head + rest, headers={"Content-Encoding": "gzip"})

    return reply


def test_bombs_are_refused_in_every_way(tmp_path):
    result = bomb(b'{"content": [], "structuredContent": {"v": [', b"0]}}}")
    tools = bomb(b'{"tools": [', b"0]}}")
    greeting = bomb(b'{"protocolVersion": "2025-11-25", "capabilities": {"x": [', b"0]}}}")
    with (
        ScriptedServer(legacy(tools__list=READ_ONLY, tools__call=result)) as called,
        ScriptedServer(legacy(tools__list=tools)) as listed,
        ScriptedServer(legacy(initialize=greeting)) as greeted,
        ChatServer([calls(call("echo", {})), says("done")], repeat=True) as model,
    ):
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.bomb_ways", called.url, listed.url, greeted.url, model.url],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    found = {line["way"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert tuple(found) == WAYS, done.stderr
    for way, line in found.items():
        assert "more than 2,000,000 values: 30,000," in line["said"], line
        assert "KNIME_MCP_LIMITS='values=4000000'" in line["said"], line
        # 60 MB of text and what is made of it to count; as values they would be gigabytes.
        assert line["more"] < 150, (way, line)
