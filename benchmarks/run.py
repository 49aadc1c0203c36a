"""What things cost, beside the same thing done without us, in one run: `make bench`.

Every measurement is a pair of functions that run interleaved, round after round, so that whatever else the
machine does hits both. Printed are medians over the rounds and their ratio; nothing is asserted about time.
`--smoke` only shows that everything runs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from knime_mcp.tools import MCPClient
from knime_mcp.types.arrow import decode_tools, encode_tools
from knime_mcp.types.tool import MCPTool

HERE = Path(__file__).parent
REVISION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class Measurement:
    """One line of the report: `ours` beside `bare`, each run `repeat` times a round."""

    name: str
    ours: Callable[[], object]
    bare: Callable[[], object]
    bare_name: str
    repeat: int


@contextmanager
def fast_server(tools: int, latency: float = 0.0) -> Iterator[str]:
    """The URL of a fast server in a process of its own."""
    command = [sys.executable, str(HERE / "fast_server.py"), str(tools), str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdin
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(timeout=10)


def post(client: httpx.Client, url: str, method: str, **params: object) -> dict[str, object]:
    """The same exchange by bare httpx, with what the protocol demands and nothing more."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": method,
    }
    if "name" in params:
        headers["Mcp-Name"] = str(params["name"])
    return client.post(url, json=body, headers=headers).json()["result"]


def list_bare(client: httpx.Client, url: str) -> int:
    """Fetches and parses all pages; returns how many tools there are."""
    count, cursor = 0, None
    while True:
        page = post(client, url, "tools/list", **({"cursor": cursor} if cursor else {}))
        count += len(page["tools"])
        cursor = page.get("nextCursor")
        if cursor is None:
            return count


COLD_OURS = """
import sys
from knime_mcp.tools import MCPClient
with MCPClient(sys.argv[1]) as client:
    client.list_tools()
    client.call_tool("tool_00001", {"query": "x"})
"""
COLD_BARE = """
import sys
import httpx, json
P = "io.modelcontextprotocol/"
META = {P + "protocolVersion": "2026-07-28", P + "clientCapabilities": {}}
ACCEPT = "application/json, text/event-stream"
def post(client, method, **params):
    headers = {"Accept": ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    return client.post(sys.argv[1], json=body, headers=headers).json()
with httpx.Client(verify=False) as client:
    post(client, "server/discover")
    post(client, "tools/list")
    post(client, "tools/call", name="tool_00001", arguments={"query": "x"})
"""


def process(code: str, *arguments: str) -> None:
    """Runs code in a fresh interpreter, as KNIME runs every execution of a node."""
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, timeout=60)


class PerCell:
    """A value factory that works cell by cell, as KNIME's Python API calls them."""

    @staticmethod
    def encode(tool: MCPTool) -> dict[str, object]:
        """One cell's storage value."""
        schema = json.dumps(tool.parameter_schema)
        values = (1, tool.name, tool.description, schema, None, None, -1, None, tool.server_uri)
        return dict(zip("012345678", values, strict=True))

    @staticmethod
    def decode(cell: dict[str, object]) -> MCPTool:
        """One cell's value."""
        return MCPTool(cell["1"], cell["2"], json.loads(cell["3"]), cell["8"], cell["1"])


def tool_columns(count: int, repeat: int) -> list[Measurement]:
    """Encoding and decoding of whole columns beside the per-cell way."""
    import pyarrow as pa

    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    tools = [
        MCPTool(f"tool_{i}", "Searches.", schema, "http://127.0.0.1/mcp", f"tool_{i}") for i in range(count)
    ]
    column = encode_tools(tools)
    storage = column.type
    return [
        Measurement(
            f"encode {count:,} tools",
            lambda: encode_tools(tools),
            lambda: pa.array([PerCell.encode(tool) for tool in tools], type=storage),
            "per cell",
            repeat,
        ),
        Measurement(
            f"decode {count:,} tools",
            lambda: decode_tools(column),
            lambda: [PerCell.decode(cell.as_py()) for cell in column],
            "per cell",
            repeat,
        ),
    ]


def report(measurements: list[Measurement], rounds: int) -> None:
    """Runs all rounds and prints the table."""
    print(f"{'':34}{'ours':>12}{'beside':>12}{'ratio':>8}   beside what")
    for m in measurements:
        ours, bare = [], []
        for _ in range(rounds):
            for function, seconds in ((m.ours, ours), (m.bare, bare)):
                start = time.perf_counter()
                for _ in range(m.repeat):
                    function()
                seconds.append((time.perf_counter() - start) / m.repeat)
        ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
        print(
            f"{m.name:34}{1000 * statistics.median(ours):>9.3f} ms{1000 * statistics.median(bare):>9.3f} ms"
            f"{ratio:>8.2f}   {m.bare_name}"
        )


def main() -> None:
    """Measures everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="small counts: shows only that it runs")
    smoke = parser.parse_args().smoke
    rounds = 1 if smoke else 7
    with fast_server(50) as small, fast_server(2000) as large:
        clients = httpx.Client(verify=False), MCPClient(small), MCPClient(large)
        with clients[0] as bare, clients[1] as ours, clients[2] as ours_large:
            arguments = {"query": "knime"}
            report(
                [
                    Measurement(
                        "warm call",
                        lambda: ours.call_tool("tool_00001", arguments),
                        lambda: post(bare, small, "tools/call", name="tool_00001", arguments=arguments),
                        "bare httpx",
                        10 if smoke else 500,
                    ),
                    Measurement(
                        "list 2,000 tools",
                        ours_large.list_tools,
                        lambda: list_bare(bare, large),
                        "bare httpx, fetch and parse",
                        1 if smoke else 5,
                    ),
                    Measurement(
                        "process: import, connect, list 50, call",
                        lambda: process(COLD_OURS, small),
                        lambda: process(COLD_BARE, small),
                        "bare httpx",
                        1,
                    ),
                    *tool_columns(100 if smoke else 20_000, 1),
                ],
                rounds,
            )


if __name__ == "__main__":
    main()
