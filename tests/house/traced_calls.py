"""Makes one call, as users make it, in a fresh process, and prints which own modules it crosses.

Run as a program: ``python -m tests.house.traced_calls NAME URL``, where NAME is a key of `WORKS`.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from tests.support.crossing import Crossed, crossed

GRAPH = """
version: "1.0.0"
mcpServers:
  counting:
    type: streamableHttp
    url: URL
server:
  name: one_call
  version: "1.0.0"
tools:
  - name: sum
    description: Adds two numbers.
    inputSchema:
      type: object
      properties: {a: {type: number}, b: {type: number}}
      required: [a, b]
    outputSchema: {type: object}
    nodes:
      - {id: entry, type: entry, next: add}
      - id: add
        type: mcp
        server: counting
        tool: add
        args: {a: {expr: $.entry.a}, b: {expr: $.entry.b}}
        next: exit
      - {id: exit, type: exit}
"""


def client_call(url: str) -> Crossed:
    """A warm call: the connection is there, and the tools are listed."""
    from knime_mcp.tools import MCPClient

    with MCPClient(url) as client:
        client.list_tools()
        client.call_tool("add", {"a": 2, "b": 40})
        return crossed(lambda: client.call_tool("add", {"a": 2, "b": 40}))


def provider(url: str) -> Crossed:
    from tests.support.host import get_host

    host = get_host()

    def provide() -> None:
        made = host.run("mcp_tool_provider", [None, None], {"server_url": url})
        assert made.ok, made.failure

    return crossed(provide)


def caller(url: str) -> Crossed:
    """From the table of tools to the line in the journal."""
    from tests.support.host import get_host

    host = get_host()
    listed = host.run("mcp_tool_provider", [None, None], {"server_url": url, "column_form": "auto"})
    tools = listed.outputs[0].as_input()
    pairs = [{"name": "a", "value": "2"}, {"name": "b", "value": "40"}]

    def call() -> None:
        with tempfile.TemporaryDirectory() as folder:
            made = host.run(
                "mcp_tool_caller",
                [tools, None, None],
                {"tool_name": "add", "arguments": pairs},
                workflow_dir=folder,
            )
            assert made.ok, made.failure
            assert list(Path(folder).rglob("*.jsonl"))

    return crossed(call)


def agent_tool(url: str) -> Crossed:
    """A tool call of a model, from the executor to the text for the model; not the first one."""
    from tests.support.toolboxes import made_box

    with made_box(url) as box:
        box.call("add", {"a": 2, "b": 40})
        return crossed(lambda: box.call("add", {"a": 2, "b": 40}))


def graph_run(url: str) -> Crossed:
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "sum.yaml")
        document.write_text(GRAPH.replace("URL", url), encoding="utf-8")
        return crossed(lambda: command("42", "graph", "run", str(document), "sum", "a=2", "b=40"))


def nodes_search(url: str) -> Crossed:
    """A search in the catalogue, once this is built."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
        subprocess.run(
            [sys.executable, "-m", "knime_mcp.cli.app", "nodes", "search", "x"],
            check=False,
            capture_output=True,
        )
        return crossed(lambda: command("Joiner", "nodes", "search", "vlookup"))


def command(expected: str, *words: str) -> None:
    """Runs ``knime-mcp`` in this process."""
    from knime_mcp.cli.commands import build_app

    with redirect_stdout(StringIO()) as out:
        code = build_app()(list(words), standalone_mode=False)
    assert not code
    assert expected in out.getvalue()


WORKS = {
    "client.call_tool": client_call,
    "Provider node": provider,
    "Caller node": caller,
    "an agent's tool call": agent_tool,
    "graph run": graph_run,
    "nodes search": nodes_search,
}


if __name__ == "__main__":
    from knime_mcp.headless import use_standin

    use_standin()
    made = WORKS[sys.argv[1]](sys.argv[2])
    said = {"modules": sorted(made.modules), "functions": made.functions, "loaded": sorted(sys.modules)}
    print(json.dumps(said))
