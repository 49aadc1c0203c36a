"""Batches as the node and `knime-mcp batch` run them, beside clients that make as many calls at once.

Ours opens its connections anew for every batch, checks and records each call and gives the results in order;
the others stay connected and throw the results away.
"""

import itertools
import statistics
import time
import tracemalloc
from contextlib import ExitStack

import processes
from processes import ClientKind, fast_server, there, warm_client
from timing import Row, Table, Way

from knime_mcp.audit.definitions import Definitions, Pinning, pinned_tool
from knime_mcp.audit.dispatch import Call, Dispatcher, failed_call, recorded_call
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.tools import MCPClient
from knime_mcp.tools.caller.batch import run_batch
from knime_mcp.tools.session_pool import SessionPool
from knime_mcp.types.routing import ServerRoute

NAME = "tool_00001"
KINDS = (
    processes.HTTPX,
    processes.SDK2,
    processes.SDK1,
    processes.FASTMCP4,
    processes.FASTMCP3,
    processes.ADAPTER_SESSION,
)
LONG = 4.0
"""Seconds of latency alone beyond which only bare httpx is run beside ours: the rest would only wait."""


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
        ideal = latency / 1000 * -(-rows // in_flight)
        kinds = KINDS if not smoke and ideal < LONG else KINDS[:1]
        few = rounds if latency == 0 else min(rounds, 3) if latency == 5 or in_flight == 32 else 1
        _compare(table, latency, in_flight, rows, kinds, few, ideal)
    _memory(table, rows, rounds)
    table.notes.append(
        "Ratios are against ours. That of the latency alone, with all calls in flight all the time, is the"
        " share of the ideal that ours reaches."
    )


def _memory(table: Table, rows: int, rounds: int) -> None:
    """Many rows beside the highest of ten batches of a tenth: both are the highest of as many calls.

    A single batch of few rows has fewer chances that all replies in flight meet at one moment.
    """
    found: dict[int, list[float]] = {rows: [], 10 * rows: []}
    with fast_server(50) as url:
        batch(url, rows, 8)  # what is made once is there before
        for _ in range(min(rounds, 2)):
            found[rows].append(max(peak_memory(url, rows, 8) for _ in range(10)))
            found[10 * rows].append(peak_memory(url, 10 * rows, 8))
    for count, peaks in found.items():
        ratio = statistics.median(own / few for own, few in zip(peaks, found[rows], strict=True))
        table.add(Row("peak memory, 8 in flight", f"ours: {count:,} calls", "MB", tuple(peaks), ratio))


def _compare(
    table: Table,
    latency: int,
    in_flight: int,
    rows: int,
    kinds: tuple[ClientKind, ...],
    rounds: int,
    ideal: float,
) -> None:
    title = f"{rows:,} calls, {latency} ms, {in_flight} in flight"
    found: list[tuple[float, float]] = []

    def ours(url: str) -> float:
        found.append(batch(url, rows, in_flight))
        return found[-1][1]

    with fast_server(50, latency / 1000) as url, ExitStack() as stack:
        ways = [Way("ours: run_batch", lambda: ours(url))]
        for kind in there(kinds):
            client = stack.enter_context(warm_client(kind, url))
            ways.append(Way(kind.name, lambda client=client: client.seconds(rows, at_once=in_flight) * rows))
        table.compare(title, ways, rounds, unit="s")
    if ideal:
        share = statistics.median(ideal / last for _, last in found)
        table.add(Row(title, "the latency alone", "s", (ideal,), share))
    table.add(Row(title, "ours: first row", "ms", tuple(1000 * first for first, _ in found)))
