"""How fast a replay is: ``python benchmarks/replay_rate.py [--rows 10000] [--in-flight 8]``.

Records rows against the benchmark's own server, which answers at once, writes the journal, and replays it.
Printed beside each other: reading and verifying the journal, the replay, and the same calls through bare
httpx from as many threads.
"""

import argparse
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from run import fast_server, post

from knime_mcp.audit.definitions import Definitions, Pinning, pinned_tool
from knime_mcp.audit.dispatch import Call, Dispatcher, recorded_call
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.replay import Replayer
from knime_mcp.audit.replay_options import ReplayOptions
from knime_mcp.audit.replay_table import read_recording
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.tools import MCPClient
from knime_mcp.tools.session_pool import SessionPool
from knime_mcp.types.routing import ServerRoute


def dispatcher(pool: SessionPool) -> Dispatcher:
    """What makes the calls."""
    return Dispatcher(
        run="benchmark",
        pool=pool,
        definitions=Definitions(pool),
        secrets=SecretMarker(),
        pinning=Pinning.IGNORE,
    )


def record(url: str, rows: int, in_flight: int, journal_file: Path) -> None:
    """Makes the calls for the first time."""
    route = ServerRoute.parse(url)
    with SessionPool(lambda found: MCPClient(found.url)) as pool:
        shared = dispatcher(pool)
        name = "tool_00000"
        tool = pinned_tool(shared.definitions.find(route, name), route, shown_name=name)
        with Journal(journal_file, run="r") as journal, ThreadPoolExecutor(in_flight) as threads:
            calls = (Call(tool=tool, arguments={"query": f"row {row}"}) for row in range(rows))
            for outcome in threads.map(lambda call: recorded_call(call, shared), calls):
                journal.append(outcome.record)


def replay(journal_file: Path, in_flight: int) -> tuple[float, float, Counter[str]]:
    """Seconds for reading and verifying, seconds for the replay with a journal of its own, verdicts."""
    began = time.perf_counter()
    recording = read_recording(journal_file)
    read = time.perf_counter() - began
    again = journal_file.with_suffix(".again.jsonl")
    with SessionPool(lambda found: MCPClient(found.url)) as pool, Journal(again, run="again") as journal:
        replayer = Replayer(
            dispatcher=dispatcher(pool), options=ReplayOptions(concurrency=in_flight), keep=journal.append
        )
        began = time.perf_counter()
        verdicts = Counter(call.verdict.value for call in replayer.replay(recording.calls))
        return read, time.perf_counter() - began, verdicts


def bare(url: str, rows: int, in_flight: int) -> float:
    """Seconds for the same calls without anything of ours."""
    with httpx.Client(timeout=30) as client, ThreadPoolExecutor(in_flight) as threads:
        began = time.perf_counter()
        arguments = ({"query": f"row {row}"} for row in range(rows))
        for _ in threads.map(
            lambda given: post(client, url, "tools/call", name="tool_00000", arguments=given), arguments
        ):
            pass
        return time.perf_counter() - began


def main() -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=8)
    options = parser.parse_args()
    rows, in_flight = options.rows, options.in_flight
    with tempfile.TemporaryDirectory() as folder, fast_server(50) as url:
        journal_file = Path(folder) / "run.jsonl"
        record(url, rows, in_flight, journal_file)
        read, seconds, verdicts = replay(journal_file, in_flight)
        without = bare(url, rows, in_flight)
    print(f"{rows} rows, {in_flight} in flight: {dict(verdicts)}")
    print(f"read and verified   {read:8.2f} s  {rows / read:10.0f} rows/s")
    print(f"replayed            {seconds:8.2f} s  {rows / seconds:10.0f} calls/s")
    print(f"bare httpx          {without:8.2f} s  {rows / without:10.0f} calls/s  {seconds / without:.2f} x")


if __name__ == "__main__":
    main()
