"""Batches as the node and `knime-mcp batch` run them, beside clients that make as many calls at once.

Ours opens its connections anew for every batch, checks and records each call and gives the results in order;
the others stay connected and throw the results away.
"""

import itertools
import statistics
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack

import processes
from processes import ClientKind, fast_server, there, warm_client
from timing import Row, Table, Way

from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import Definitions, Pinning, pinned_tool
from knime_mcp.runs.engine import Run
from knime_mcp.runs.table_run import run_batch
from knime_mcp.tools import MCPClient
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


def run_of(pool: SessionPool) -> Run:
    """What makes and records the calls."""
    return Run(
        id="benchmark",
        pool=pool,
        definitions=Definitions(pool),
        secrets=SecretMarker(),
        pinning=Pinning.IGNORE,
    )


def batch(
    url: str, rows: int, in_flight: int, on_row: Callable[[], object] = lambda: None
) -> tuple[float, float]:
    """Seconds until the first row and until the last; nothing is kept of the rows."""
    route = ServerRoute.parse(url)
    with SessionPool(lambda found: MCPClient(found.url)) as pool:
        shared = run_of(pool)
        tool = pinned_tool(shared.definitions.find(route, NAME), route, shown_name=NAME)
        calls = (PlannedCall(tool=tool, arguments={"query": f"row {row}"}) for row in range(rows))
        start = time.perf_counter()
        results = run_batch(calls, shared.call, failed=shared.not_made, concurrency=in_flight)
        assert next(results).record.ok
        first = time.perf_counter() - start
        for outcome in results:
            assert outcome.record.ok
            on_row()
        return first, time.perf_counter() - start


def peaks(url: str, rows: int, in_flight: int, *, parts: int) -> list[float]:
    """MB of Python objects at the highest point of each part of a batch; slows it down, so it runs alone."""
    found: list[float] = []
    passed = itertools.count(2)  # nobody is told of the first row

    def on_row() -> None:
        if next(passed) % (rows // parts) == 0:
            found.append(tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.reset_peak()

    tracemalloc.start()
    try:
        batch(url, rows, in_flight, on_row)
    finally:
        tracemalloc.stop()
    return found


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Each latency with each number of calls in flight."""
    rows = 20 if smoke else 1000
    for latency, in_flight in itertools.product((0, 5, 50), (1, 8, 32)):
        ideal = latency / 1000 * -(-rows // in_flight)
        kinds = KINDS if not smoke and ideal < LONG else KINDS[:1]
        few = rounds if latency == 0 else min(rounds, 3) if latency == 5 or in_flight == 32 else 1
        _compare(table, latency, in_flight, rows, kinds, few, ideal)
    _memory(table, 10 * rows, rounds)
    table.notes.append(
        "Ratios are against ours. That of the latency alone, with all calls in flight all the time, is the"
        " share of the ideal that ours reaches."
    )


def _memory(table: Table, rows: int, rounds: int) -> None:
    """The last rows of many beside the first ones, each a tenth, without the tenth that connects.

    By the parts of one batch, as the peak of a part depends on how many replies meet at one moment: that
    differs from batch to batch by more than anything that might grow.
    """
    early: list[float] = []
    late: list[float] = []
    with fast_server(50) as url:
        batch(url, rows, 8)  # what is made once is there before
        for _ in range(min(rounds, 3)):
            found = peaks(url, rows, 8, parts=10)
            early.append(statistics.median(found[1:5]))
            late.append(statistics.median(found[6:]))
    for name, values in ((f"ours: early among {rows:,} calls", early), ("ours: late among them", late)):
        ratio = statistics.median(own / first for own, first in zip(values, early, strict=True))
        table.add(Row("peak memory, 8 in flight", name, "MB", tuple(values), ratio))


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
