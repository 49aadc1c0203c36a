"""What graphs cost: calls of three nodes and long loops, beside npm's mcpgraph in the same run.

    python benchmarks/graph.py --peer 'node …/node_modules/mcpgraph/dist/main.js'

The peer is optional: `npm install mcpgraph@0.1.23` in any folder. Both are spoken to by the same client over
standard input and output, one after the other.
"""

import argparse
import asyncio
import contextlib
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

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


async def measure(command: list[str], calls: int, loops: tuple[int, ...] = LOOPS) -> dict[str, float]:
    """Milliseconds: median and 95th percentile of small calls, and one loop of each length."""
    found: dict[str, float] = {}
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    with Path("/dev/null").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
            for _ in range(30):
                await client.call_tool("three", {"v": 1})
            times = []
            for number in range(calls):
                started = time.perf_counter()
                result = await client.call_tool("three", {"v": number})
                times.append((time.perf_counter() - started) * 1000)
                assert result.structured_content == {"r": number + 1}
            found["three nodes, median"] = statistics.median(times)
            found["three nodes, p95"] = statistics.quantiles(times, n=20)[-1]
            for length in loops:
                started = time.perf_counter()
                result = await client.call_tool("loop", {"n": length})
                found[f"loop of {length}"] = (time.perf_counter() - started) * 1000
                assert result.structured_content == {"sum": length * (length + 1) // 2}
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="command of npm's mcpgraph, without -g")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    commands = {"ours": [sys.executable, "-m", "knime_mcp.cli.mcpgraph"]}
    if options.peer:
        commands["npm mcpgraph"] = shlex.split(options.peer)
    best: dict[str, dict[str, float]] = {name: {} for name in commands}
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        file = Path(folder) / "graph.yaml"
        file.write_text(DOCUMENT)
        for _ in range(options.rounds):
            for name, command in commands.items():
                for what, took in asyncio.run(measure([*command, "-g", str(file)], options.calls)).items():
                    best[name][what] = min(took, best[name].get(what, took))
    for what in best["ours"]:
        print(f"{what:24}", *(f"{name}: {found[what]:9.2f} ms" for name, found in best.items()), sep="  ")


if __name__ == "__main__":
    main()
