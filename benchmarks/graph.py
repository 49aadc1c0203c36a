"""What graphs cost: calls of three nodes and long loops, beside npm's mcpgraph in the same run.

Both run at the same time and are spoken to in turns, a few calls each, so that what else the machine does
hits both alike. Calls are written and read as lines, since a client would take longer than the servers do;
the official client's time stands beside it.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from processes import build_peers
from timing import Row, Table

STARTS = 9
LOOPS = (500, 1000, 2000, 4000)
DOCUMENT = """
version: "1.0"
server: {name: bench, version: "1"}
executionLimits: {maxNodeExecutions: 100000}
tools:
  - name: three
    description: three nodes
    inputSchema: {type: object}
    outputSchema: {type: object}
    nodes:
      - {id: entry, type: entry, next: x}
      - {id: x, type: transform, transform: {expr: "{'r': entry.v + 1}"}, next: exit}
      - {id: exit, type: exit}
  - name: loop
    description: counts and adds
    inputSchema: {type: object}
    outputSchema: {type: object}
    nodes:
      - {id: entry, type: entry, next: inc}
      - id: inc
        type: transform
        transform:
          expr: |
            $executionCount("inc") = 0
              ? { "i": 1, "sum": 1 }
              : { "i": $nodeExecution("inc", -1).i + 1,
                  "sum": $nodeExecution("inc", -1).sum + $nodeExecution("inc", -1).i + 1 }
        next: again
      - id: again
        type: switch
        conditions:
          - rule: {"<": [{var: inc.i}, {var: entry.n}]}
            target: inc
          - target: out
      - {id: out, type: transform, transform: {expr: "{'sum': inc.sum}"}, next: exit}
      - {id: exit, type: exit}
"""


class Server:
    """A server's process, spoken to line by line.

    Args:
        command: What starts it.
    """

    def __init__(self, command: list[str]) -> None:
        began = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        client = {"name": "bench", "version": "1"}
        self._ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.start = (time.perf_counter() - began) * 1000
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: int) -> dict[str, Any]:
        """The structured result of a call."""
        return self._ask("tools/call", name=tool, arguments=arguments)["result"]["structuredContent"]

    def close(self) -> None:
        """Ends it."""
        self._process.communicate(timeout=30)

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._send({"id": 1, "method": method, "params": params})
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()


Times = dict[str, list[float]]


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Starts, small calls and loops."""
    commands = {"ours": [sys.executable, "-m", "knime_mcp_graph.commands.program"]}
    if build_peers.is_fresh("graph-node"):
        program = build_peers.node_package("mcpgraph", "graph-node") / "dist" / "main.js"
        commands["npm mcpgraph"] = [str(build_peers.node()), str(program)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "graph.yaml")
        file.write_text(DOCUMENT, encoding="utf-8")
        whole = {name: [*command, "-g", str(file)] for name, command in commands.items()}
        sizes = (1, 5, (50,)) if smoke else (rounds, 100, LOOPS)
        found = asyncio.run(_times(whole, *sizes))
    for what, reference in found["ours"].items():
        for name, times in found.items():
            ratio = statistics.median(own / ours for own, ours in zip(times[what], reference, strict=True))
            table.add(Row(f"graph: {what}", name, "ms", tuple(times[what]), ratio))


async def _times(
    commands: dict[str, list[str]], rounds: int, calls: int, loops: tuple[int, ...]
) -> dict[str, Times]:
    """Milliseconds by server and by what is measured, one for each round.

    Args:
        commands: What starts each server.
        rounds: How often all servers have their turn.
        calls: Small calls in a turn; their median counts.
        loops: Lengths of the long runs, of which each turn has one.
    """
    found: dict[str, Times] = {name: defaultdict(list) for name in commands}
    for _ in range(min(rounds, STARTS)):
        for name, command in commands.items():
            server = Server(command)
            found[name]["start to first answer"].append(server.start)
            server.close()
    with Path(os.devnull).open("w") as log:
        async with AsyncExitStack() as stack:
            servers: dict[str, Server] = {}
            clients: dict[str, Client] = {}
            for name, command in commands.items():
                servers[name] = Server(command)
                stack.callback(servers[name].close)
                parameters = StdioServerParameters(command=command[0], args=command[1:])
                client = Client(stdio_client(parameters, errlog=log), mode="legacy")
                clients[name] = await stack.enter_async_context(client)
            for turn in range(-1, rounds):  # the first one warms up
                for name in commands:
                    small = [_small(servers[name], number) for number in range(calls)]
                    through = [await _small_through(clients[name], number) for number in range(calls)]
                    if turn >= 0:
                        found[name]["three nodes"].append(statistics.median(small))
                        found[name]["three nodes, SDK client"].append(statistics.median(through))
            for length in loops:
                for _ in range(min(rounds, 3)):
                    for name, server in servers.items():
                        found[name][f"loop of {length}"].append(_loop(server, length))
    return found


def _small(server: Server, number: int) -> float:
    began = time.perf_counter()
    result = server.call("three", v=number)
    took = time.perf_counter() - began
    assert result == {"r": number + 1}
    return took * 1000


async def _small_through(client: Client, number: int) -> float:
    began = time.perf_counter()
    result = await client.call_tool("three", {"v": number})
    took = time.perf_counter() - began
    assert result.structured_content == {"r": number + 1}
    return took * 1000


def _loop(server: Server, length: int) -> float:
    began = time.perf_counter()
    result = server.call("loop", n=length)
    took = time.perf_counter() - began
    assert result == {"sum": length * (length + 1) // 2}
    return took * 1000
