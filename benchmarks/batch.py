"""Batches as the node and `knime-mcp batch` run them: calls in flight, servers that take their time."""

import itertools
import time
import tracemalloc

from processes import fast_server
from timing import Row, Table

from knime_mcp.audit.definitions import Definitions, Pinning, pinned_tool
from knime_mcp.audit.dispatch import Call, Dispatcher, failed_call, recorded_call
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.tools import MCPClient
from knime_mcp.tools.caller.batch import run_batch
from knime_mcp.tools.session_pool import SessionPool
from knime_mcp.types.routing import ServerRoute

NAME = "tool_00001"


def dispatcher(pool: SessionPool) -> Dispatcher:
    """What makes and records the calls."""
    return Dispatcher(
        run="benchmark",
        pool=pool,
        definitions=Definitions(pool),
        secrets=SecretMarker(),
        pinning=Pinning.IGNORE,
    )


def batch(url: str, rows: int, in_flight: int) -> tuple[float, float]:
    """Seconds until the first row and until the last; nothing is kept of the rows."""
    route = ServerRoute.parse(url)
    with SessionPool(lambda found: MCPClient(found.url)) as pool:
        shared = dispatcher(pool)
        tool = pinned_tool(shared.definitions.find(route, NAME), route, shown_name=NAME)
        calls = (Call(tool=tool, arguments={"query": f"row {row}"}) for row in range(rows))
        start = time.perf_counter()
        results = run_batch(
            calls,
            lambda call: recorded_call(call, shared),
            failed=lambda call, error: failed_call(call, error, shared),
            concurrency=in_flight,
        )
        assert next(results).record.ok
        first = time.perf_counter() - start
        for outcome in results:
            assert outcome.record.ok
        return first, time.perf_counter() - start


def peak_memory(url: str, rows: int, in_flight: int) -> float:
    """MB of Python objects at the highest point of a batch; slows it down, so it is run by itself."""
    tracemalloc.start()
    try:
        batch(url, rows, in_flight)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Each latency with each number of calls in flight."""
    rows = 20 if smoke else 1000
    for latency, in_flight in itertools.product((0, 5, 50), (1, 8, 32)):
        with fast_server(50, latency / 1000) as url:
            found = [batch(url, rows, in_flight) for _ in range(1 if latency == 50 else rounds)]
        title = f"{rows:,} calls, {latency} ms, {in_flight} in flight"
        ideal = latency / 1000 * -(-rows // in_flight)
        share = [last / ideal for _, last in found] if ideal else []
        ratio = sorted(share)[len(share) // 2] if share else None
        table.add(Row(title, "whole batch", "s", tuple(last for _, last in found), ratio))
        table.add(Row(title, "first row", "ms", tuple(1000 * first for first, _ in found)))
    with fast_server(50) as url:
        for count in (rows, 10 * rows):
            peak = (peak_memory(url, count, 8),)
            table.add(Row("peak memory, 8 in flight", f"{count:,} calls", "MB", peak))
    table.notes.append("Ratios are against the latency alone, with all calls in flight all the time.")
