"""Servers that repeat a token without the scheme that it was sent with."""

import subprocess
import sys

import pytest

from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import MCPError
from tests.faults.rows import PATIENT
from tests.support.scripted_server import ScriptedServer, http, legacy, modern, rpc, rpc_error, text, tool

TOKEN = "canary-41d0c5e7"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
REPLIES = {
    "error": rpc_error(-32603, f"bad token {TOKEN}, sent as Bearer {TOKEN}"),
    "refusal": http(403, f"token {TOKEN}", content_type="text/plain"),
    "page": http(503, f"<html><title>No {TOKEN}</title>", content_type="text/html"),
}


@pytest.mark.parametrize("era", [modern, legacy])
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_token_in_a_custom_header_is_not_in_the_error(era, reply):
    with (
        ScriptedServer(era(tools__call=reply)) as server,
        MCPClient(server.url, headers=HEADERS, timeouts=PATIENT) as client,
        pytest.raises(MCPError) as caught,
    ):
        client.call_tool("echo")
    assert TOKEN not in f"{caught.value!r} {caught.value}"
    assert "[secret]" in str(caught.value)


@pytest.mark.parametrize("reply", [*REPLIES.values(), rpc(text(f"you are {TOKEN}"))], ids=[*REPLIES, "text"])
def test_a_token_in_a_graph_document_is_not_in_the_journal(reply, tmp_path):
    listed = rpc({"tools": [tool()], "resultType": "complete"})
    with ScriptedServer(modern(tools__call=reply, tools__list=listed)) as server:
        (tmp_path / "g.yaml").write_text(
            'version: "1.0"\nserver: {name: s, version: "1"}\nmcpServers:\n'
            f"  far: {{type: streamableHttp, url: '{server.url}', headers: {HEADERS}}}\n"
            "tools:\n  - name: t\n    description: d\n    inputSchema: {type: object}\n"
            "    outputSchema: {type: object}\n    nodes:\n"
            "      - {id: entry, type: entry, next: x}\n"
            "      - {id: x, type: mcp, server: far, tool: echo, args: {}, next: exit}\n"
            "      - {id: exit, type: exit}\n"
        )
        command = [
            sys.executable,
            "-m",
            "knime_mcp.cli.app",
            "graph",
            "run",
            "g.yaml",
            "t",
            "--audit",
            "a.jsonl",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    journal = (tmp_path / "a.jsonl").read_text("utf-8")
    assert '"tool_name":"echo"' in journal, done.stderr
    assert TOKEN not in journal
    if reply in list(REPLIES.values()):
        assert TOKEN not in done.stdout + done.stderr
