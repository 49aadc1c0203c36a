"""What the documents tell people to write into programs that start MCP servers starts a server with tools."""

import json
import re
from pathlib import Path

import pytest

from knime_mcp.tools import MCPClient, StdioServer
from tests.support import commands
from tests.support.peers import OWN_CODE

DOCS = [*Path(__file__).parents[2].glob("packages/*/docs/*.md")]
BLOCK = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)


def configured():
    for path in sorted(DOCS):
        for block in BLOCK.findall(path.read_text(encoding="utf-8")):
            parsed = json.loads(block)
            if "cases" in parsed:  # of graphs; test_graph_cases.py runs them
                continue
            for name, entry in parsed["mcpServers"].items():
                yield pytest.param(entry, id=f"{path.name}: {name}")


@pytest.mark.parametrize("entry", list(configured()))
def test_a_configured_server_has_tools(entry, tmp_path):
    folder, _, program = entry["command"].rpartition("/")
    assert folder == "/path/to/knime-mcp/.venv/bin"
    document = tmp_path / "my.yaml"
    commands.run(commands.words_of("mcpgraph", "new", document), check=True, capture_output=True, timeout=60)
    words = [word.replace("/path/to/my.yaml", str(document)) for word in entry["args"]]
    env = OWN_CODE | {"XDG_CACHE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    with MCPClient(
        stdio=StdioServer("configured", commands.relayed(commands.words_of(program, *words)), env)
    ) as client:
        assert client.list_tools()


def test_servers_of_both_kinds_are_configured():
    assert {Path(param.values[0]["command"]).name for param in configured()} == {"knime-nodes", "mcpgraph"}
