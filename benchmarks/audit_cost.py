"""What the record of a call costs: ``python benchmarks/audit_cost.py [--calls 500] [--rounds 9]``.

The same tool is called bare through the client, recorded, and recorded into a journal on disk, in turns,
round after round, against the benchmark's own server, which answers at once. Printed are medians per call
over the rounds, what the record and the journal add to a warm call, the bytes of a record on disk, and how
long it takes to check the chain of the whole journal.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from run import fast_server

from knime_mcp.audit.definitions import Definitions, Pinning
from knime_mcp.audit.dispatch import Call, Dispatcher, recorded_call
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.audit.verify import verify_file
from knime_mcp.tools import MCPClient
from knime_mcp.tools.session_pool import SessionPool
from knime_mcp.types.routing import ServerRoute
from knime_mcp.types.tool import MCPTool

ARGUMENTS = {"query": "how much does a record cost"}


def timed(work: Callable[[], object], calls: int) -> float:
    """Microseconds per call."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls * 1e6


def listed(url: str) -> MCPTool:
    """The tool, as a server lists it."""
    with MCPClient(url) as client:
        own = next(tool for tool in client.list_tools() if tool.name == "tool_00001")
    return MCPTool(own.name, own.description or "", own.input_schema, url, own.name)


def measure(calls: int, rounds: int, folder: Path) -> dict[str, float]:
    """Medians per call, in microseconds, and the size and check of the journal."""
    with fast_server(50) as url, SessionPool(lambda route: MCPClient(route.url)) as pool:
        tool = listed(url)
        client = pool.client(ServerRoute(url))
        dispatcher = Dispatcher(
            run="benchmark",
            pool=pool,
            definitions=Definitions(pool),
            secrets=SecretMarker(),
            pinning=Pinning.IGNORE,
        )
        call = Call(tool=tool, arguments=ARGUMENTS)
        path = folder / "journal.jsonl"
        with Journal(path, run="benchmark", calls=calls * (rounds + 1)) as journal:
            ways: dict[str, Callable[[], object]] = {
                "bare": lambda: client.call_tool(tool.tool_name, ARGUMENTS),
                "recorded": lambda: recorded_call(call, dispatcher),
                "journaled": lambda: journal.append(recorded_call(call, dispatcher).record),
            }
            for work in ways.values():
                timed(work, calls)
            found = [{name: timed(work, calls) for name, work in ways.items()} for _ in range(rounds)]
        records = calls * (rounds + 1)
        start = time.perf_counter()
        assert verify_file(path).runs
        checked = (time.perf_counter() - start) / records * 1e6
        result = {name: statistics.median(own[name] for own in found) for name in ways}
        return {**result, "bytes": path.stat().st_size / records, "check": checked, "records": records}


def main() -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.calls, options.rounds, Path(folder))
    bare = found["bare"]
    print(f"warm call, bare client     {bare:9.0f} us")
    for name in ("recorded", "journaled"):
        added = found[name] - bare
        print(f"warm call, {name:<15} {found[name]:9.0f} us  (+{added:.0f} us, {found[name] / bare:.2f}x)")
    print(f"bytes per record           {found['bytes']:9.0f}")
    print(f"check of the chain         {found['check']:9.0f} us per record, {found['records']:.0f} records")


if __name__ == "__main__":
    main()
