"""Meets a bomb in every way that a server is reached, in one process; prints what each way said and cost.

``python -m tests.faults.bomb_ways CALLED LISTED GREETED MODEL``: URLs of servers whose bomb is the result of
a call, the list of tools and the reply to ``initialize``, and of a model. A line of JSON per way: the error,
and the peak of memory in MiB, altogether and beyond what the process had before.
"""

import contextlib
import io
import json
import os
import re
import sys
import time
from pathlib import Path

from knime_mcp.cli.app import main
from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import MCPError
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
    sys.argv = ["knime-mcp", *words]
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
        main()
    return out.buffer.getvalue().decode()


def client(url, use):
    try:
        with MCPClient(url) as mcp:
            use(mcp)
    except MCPError as error:
        return str(error)
    return "no error"


def node(url):
    result = get_host().run("mcp_tool_caller", [None, None, None], {"server_url": url, "tool_name": "echo"})
    return str(result.failure or result.outputs[0].arrow["Error"].to_pylist())


def main_ways(called, listed, greeted, model):
    Path("graph.yaml").write_text(GRAPH.format(url=called))
    Path("rows.csv").write_text("x\n1\n2\n3\n4\n")
    agent = ("agent", "go", "--server", called, "--model-url", model, "--model", "test-model", "--json")
    return {
        "call_tool": lambda: client(called, lambda mcp: mcp.call_tool("echo")),
        "list_tools": lambda: client(listed, lambda mcp: mcp.list_tools()),
        "initialize": lambda: client(greeted, lambda _mcp: None),
        "call": lambda: command("call", called, "echo", "--json"),
        "list": lambda: command("list", listed),
        "batch": lambda: command("batch", called, "echo", "rows.csv", "--json", "--concurrency", "4"),
        "node": lambda: node(called),
        "graph": lambda: command("graph", "run", "graph.yaml", "go"),
        "agent": lambda: command(*agent),
    }


if __name__ == "__main__":
    get_host()
    for name, way in main_ways(*sys.argv[1:]).items():
        if PEAK.exists():
            PEAK.write_text("5")  # the peak begins anew
        before, started, cpu = memory("VmRSS"), time.perf_counter(), os.times()
        said = way()
        spent = [time.perf_counter() - started, os.times().user + os.times().system - cpu.user - cpu.system]
        peak = memory("VmHWM")
        print(
            json.dumps(
                {
                    "way": name,
                    "said": said[-3000:],
                    "peak": round(peak),
                    "more": round(peak - before),
                    "seconds": [round(number, 2) for number in spent],
                }
            ),
            flush=True,
        )
