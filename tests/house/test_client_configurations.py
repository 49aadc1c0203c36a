"""What the documents tell people to write into programs that start MCP servers starts a server with tools."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from knime_mcp.tools import MCPClient, StdioServer
from tests.support.peers import OWN_CODE

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = [sys.executable, "-m", "knime_mcp.cli.app"]


def configured():
    for path in sorted(DOCS.glob("*.md")):
        for block in BLOCK.findall(path.read_text(encoding="utf-8")):
            parsed = json.loads(block)
            if "cases" in parsed:  # of graphs; tests/graph/test_graph_cases.py runs them
                continue
            for name, entry in parsed["mcpServers"].items():
                yield pytest.param(entry, id=f"{path.name}: {name}")


@pytest.mark.parametrize("entry", list(configured()))
def test_a_configured_server_has_tools(entry, tmp_path):
    assert entry["command"] == "/path/to/knime-mcp/.venv/bin/knime-mcp"
    document = tmp_path / "my.yaml"
    subprocess.run([*COMMAND, "graph", "new", document], check=True, capture_output=True, timeout=60)
    words = [word.replace("/path/to/my.yaml", str(document)) for word in entry["args"]]
    env = OWN_CODE | {"XDG_CACHE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    with MCPClient(stdio=StdioServer("configured", [*COMMAND, *words], env)) as client:
        assert client.list_tools()


def test_servers_of_both_kinds_are_configured():
    assert {param.values[0]["args"][0] for param in configured()} == {"nodes", "graph"}
