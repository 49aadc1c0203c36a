"""Meets bombs in the ways that servers are reached, in one process; prints what each way said and cost.

``python -m tests.faults.bomb_ways URLS``: those of `bombs.running`, as JSON. A line of JSON per way: the
error, the processor time, and the peak of memory in MiB beyond what the process had before.
"""

import contextlib
import functools
import io
import json
import re
import sys
import time
from pathlib import Path

from knime_mcp.cli import app
from knime_mcp.client.limits import Timeouts
from knime_mcp.client.mcp_client import MCPClient, StdioServer
from knime_mcp.types.errors import MCPError
from knime_mcp_graph.commands import program
from tests.support.host import get_host

PEAK = Path("/proc/self/clear_refs")
GRAPH = """
version: "1.0"
server: {{name: g, version: 1.0.0}}
mcpServers:
  bad: {{type: streamableHttp, url: "{url}"}}
tools:
  - name: go
    description: Goes.
    inputSchema: {{type: object}}
    outputSchema: {{type: object}}
    nodes:
      - {{id: start, type: entry, next: ask}}
      - {{id: ask, type: mcp, server: bad, tool: echo, args: {{}}, next: end}}
      - {{id: end, type: exit}}
"""


def memory(name):
    """In MiB; 0 where the system is not Linux."""
    if not PEAK.exists():
        return 0
    return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def command(*words):
    """What a command wrote."""
    is_graph = words[0] == "mcpgraph"
    sys.argv = [*words] if is_graph else ["knime-mcp", *words]
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
        (program if is_graph else app).main()
    return out.buffer.getvalue().decode()


def client(url, use):
    target = {"stdio": StdioServer("bomb", url)} if isinstance(url, list) else {"server_uri": url}
    try:
        with MCPClient(**target, timeouts=Timeouts(idle=120, total=240)) as mcp:
            use(mcp)
    except MCPError as error:
        return str(error)
    return "no error"


def node(url):
    result = get_host().run("mcp_tool_caller", [None, None, None], {"server_url": url, "tool_name": "echo"})
    return str(result.failure or result.outputs[0].arrow["Error"].to_pylist())


def graph(url):
    Path("graph.yaml").write_text(GRAPH.format(url=url))
    return command("mcpgraph", "run", "graph.yaml", "go")


def agent(url, model):
    return command("agent", "go", "--server", url, "--model-url", model, "--model", "test-model", "--json")


def batch(url):
    Path("rows.csv").write_text("x\n1\n2\n3\n4\n")
    return command("batch", url, "echo", "rows.csv", "--json", "--concurrency", "4")


def main_ways(urls):
    """Bomb, way, and what is done."""
    every_way = {
        "call_tool": lambda url: client(url, lambda mcp: mcp.call_tool("echo")),
        "call": lambda url: command("call", url, "echo", "--json"),
        "batch": batch,
        "node": node,
        "graph": graph,
        "agent": lambda url: agent(url, urls["model"]),
    }
    for bomb in ("result", "event"):
        for way, do in every_way.items():
            yield bomb, way, functools.partial(do, urls[bomb])
    called = every_way["call_tool"]
    for bomb in ("deflate", "status 500", "error", "progress", "large notifications", "comments"):
        yield bomb, "call_tool", functools.partial(called, urls[bomb])
    for bomb in ("old transport", "stdio"):
        yield bomb, "call_tool", functools.partial(called, urls[bomb])
    for bomb in ("initialize", "initialize, event"):
        yield bomb, "connect", functools.partial(client, urls[bomb], lambda _mcp: None)
    yield "list", "list_tools", lambda: client(urls["list"], lambda mcp: mcp.list_tools())
    yield "list", "list", lambda: command("list", urls["list"])
    yield "resource", "read", lambda: client(urls["resource"], lambda mcp: mcp.read_resource("a:b"))
    yield "prompt", "get", lambda: client(urls["prompt"], lambda mcp: mcp.get_prompt("p"))


if __name__ == "__main__":
    get_host()
    for bomb, way, do in main_ways(json.loads(sys.argv[1])):
        if PEAK.exists():
            PEAK.write_text("5")  # the peak begins anew
        before, cpu = memory("VmRSS"), time.process_time()
        said = do()
        line = {
            "bomb": bomb,
            "way": way,
            "said": said[-3000:],
            "cpu": round(time.process_time() - cpu, 2),
            "more": round(memory("VmHWM") - before),
        }
        print(json.dumps(line), flush=True)
