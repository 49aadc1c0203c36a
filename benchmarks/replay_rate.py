"""How fast a replay is.

Records rows against the benchmark's own server, which answers at once, writes the journal, and replays it.
Beside each other: reading and verifying the journal, the replay, and the same calls through bare
httpx from as many threads.
"""

import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
from batch import run_of
from processes import fast_server
from timing import Row, Table, Way

from knime_mcp.audit.journal import Journal
from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import pinned_tool
from knime_mcp.runs.engine import RunRecords
from knime_mcp.runs.replaying import Replayer, ReplayOptions, read_recording
from knime_mcp.tools import MCPClient
from knime_mcp.types.routing import ServerRoute


def record(url: str, rows: int, in_flight: int, journal_file: Path) -> None:
    """Makes the calls for the first time."""
    route = ServerRoute.parse(url)
    with SessionPool(lambda found: MCPClient(found.url)) as pool:
        shared = run_of(pool)
        name = "tool_00000"
        tool = pinned_tool(shared.definitions.find(route, name), route, shown_name=name)
        with Journal(journal_file, run="r") as journal, ThreadPoolExecutor(in_flight) as threads:
            calls = (PlannedCall(tool=tool, arguments={"query": f"row {row}"}) for row in range(rows))
            shared.records.journal = journal
            list(threads.map(shared.call, calls))


def replay(journal_file: Path, in_flight: int) -> tuple[float, float, Counter[str]]:
    """Seconds for reading and verifying, seconds for the replay with a journal of its own, verdicts."""
    began = time.perf_counter()
    recording = read_recording(journal_file)
    read = time.perf_counter() - began
    again = journal_file.with_suffix(".again.jsonl")
    again.unlink(missing_ok=True)  # of the round before
    with SessionPool(lambda found: MCPClient(found.url)) as pool, Journal(again, run="again") as journal:
        replayer = Replayer(
            replace(run_of(pool), records=RunRecords(journal)),
            options=ReplayOptions(concurrency=in_flight),
        )
        began = time.perf_counter()
        verdicts = Counter(call.verdict.value for call in replayer.replay(recording.calls))
        return read, time.perf_counter() - began, verdicts


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Adds reading, replaying, and the same calls through bare httpx from as many threads."""
    rows, in_flight = (50 if smoke else 2_000), 8
    reads: list[float] = []
    with tempfile.TemporaryDirectory() as folder, fast_server(50) as url, httpx.Client(timeout=30) as client:
        journal_file = Path(folder) / "run.jsonl"
        record(url, rows, in_flight, journal_file)

        def replayed() -> float:
            read, seconds, verdicts = replay(journal_file, in_flight)
            assert sum(verdicts.values()) == rows
            reads.append(1e6 * read / rows)
            return seconds / rows

        def bare() -> float:
            arguments = [{"query": f"row {row}"} for row in range(rows)]
            began = time.perf_counter()
            with ThreadPoolExecutor(in_flight) as threads:
                for _ in threads.map(lambda given: post(client, url, given), arguments):
                    pass
            return (time.perf_counter() - began) / rows

        title = f"replay of {rows:,} rows, {in_flight} in flight, per row"
        table.compare(title, [Way("bare httpx", bare), Way("replay", replayed)], rounds, unit="us")
        table.add(Row(title, "journal read and verified", "us", tuple(reads)))


def post(client: httpx.Client, url: str, arguments: dict[str, str]) -> object:
    """One call without anything of ours."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "tool_00000", "arguments": arguments, "_meta": meta}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "tool_00000",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return client.post(url, json=body, headers=headers).json()["result"]
