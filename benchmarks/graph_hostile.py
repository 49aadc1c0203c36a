"""What a caller of a served graph notices while another one sends expressions that would never end.

The 95th percentile of small calls, alone and beside each hostile expression, in turns at the same server. The
ratio is what counts, as the machine slows both; then the highest memory of the server.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

from timing import Row, Table, Way

from knime_mcp.client.mcp_client import MCPClient, StdioServer
from knime_mcp.types.errors import MCPError

FEWEST = 20
HOSTILE = {
    "$pad of 3 billion": "$pad('', 3000000000, 'x')",
    "doubling of a text": "$reduce([1..40], function($t, $_) {$t & $t}, 'xxxxxxxx')",
    "$shuffle of 5 million": "$count($shuffle([1..5000000]))",
    "endless recursion": "($f := function($n) {$f($n + 1)}; $f(1))",
    "nested $map": "$count($map([1..100000], function($v) {$map([1..1000], function($w) {$w * $v})}))",
    "slow pattern": "$match('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab', /(a+)+$/)",
}
HEAD = """
version: "1.0"
server: {{name: bench, version: "1"}}
executionLimits: {{maxExecutionTimeMs: {limit}}}
tools:
"""
TOOL = """
  - name: {name}
    description: d
    inputSchema: {{type: object}}
    outputSchema: {{type: object}}
    nodes:
      - {{id: entry, type: entry, next: x}}
      - {{id: x, type: transform, transform: {{expr: "{expression}"}}, next: exit}}
      - {{id: exit, type: exit}}
"""


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Small calls alone and beside hostile ones, and the server's highest memory."""
    limit = 300 if smoke else 3000
    tools = {"small": "{'r': entry.v + 1}"} | {f"h{n}": text for n, text in enumerate(HOSTILE.values())}
    document = [HEAD.format(limit=limit), *(TOOL.format(name=n, expression=e) for n, e in tools.items())]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.yaml"
        file.write_text("".join(document), encoding="utf-8")
        command = [sys.executable, "-m", "knime_mcp_graph.commands.program", "serve", str(file)]
        with MCPClient(stdio=StdioServer("bench", command)) as client:
            _small(client)
            ways = [Way("alone", lambda: _alone(client, 20 if smoke else 300))]
            ways += [
                Way(f"beside {name}", lambda tool=f"h{n}": _beside(client, tool))
                for n, name in enumerate(HOSTILE)
            ]
            table.compare("graph: p95 of a small call", ways, min(rounds, 3))
            table.add(Row("graph: hostile expressions", "the server at its highest", "MB", (_highest(file),)))


def _alone(client: MCPClient, count: int) -> float:
    return _p95([_small(client) for _ in range(count)])


def _beside(client: MCPClient, tool: str) -> float:
    ended = threading.Event()

    def hostile() -> None:
        try:
            client.call_tool(tool, {}, timeout=120)
        except MCPError as error:
            print(error, file=sys.stderr)
        ended.set()

    threading.Thread(target=hostile).start()
    found: list[float] = []
    while not ended.is_set() or len(found) < FEWEST:  # some are refused at once
        found.append(_small(client))
    return _p95(found)


def _small(client: MCPClient) -> float:
    began = time.perf_counter()
    result = client.call_tool("small", {"v": 1})
    took = time.perf_counter() - began
    assert result.structured_content == {"r": 2}
    time.sleep(0.005)
    return took


def _p95(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.95)]


def _highest(document: Path) -> float:
    """The highest memory of the server of a document, in MB."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            status = (process / "status").read_text(encoding="utf-8")
        except OSError:  # it has ended
            continue
        if words[-2:] == [str(document).encode(), b""]:
            return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    raise RuntimeError("The server has ended")
