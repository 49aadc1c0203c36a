"""How cost grows: the same work at five sizes, along each axis that can become large.

The sizes of an axis take turns, round after round. The exponent is the slope of the cost between the upper
sizes, where what is the same for all sizes no longer counts: 1 is linear, 2 is quadratic.
"""

import json
import math
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import httpx
from batch import batch
from processes import HERE, build_peers, fast_server
from replay_rate import post

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.audit.verify import verify_file
from knime_mcp.tools import MCPClient
from knime_mcp.types.arrow import decode_tools, encode_tools
from knime_mcp.types.tool import MCPTool

PICTURE = "growth.png"
TOOL, ARGUMENTS = "tool_00001", {"query": "knime"}
LINEAR = 1.15
"""The largest exponent that is still called linear: above it is more than the noise of a quiet machine."""
LISTING, COLUMN = "listing tools", "a column of tools, there and back"
IN_FLIGHT = "calls in flight, 20 calls each"
BESIDE = "the same by bare httpx"
COLLECTOR = "Python's garbage collector looks at all tools again and again; linear without it"
WORSE = {
    LISTING: COLLECTOR,
    COLUMN: COLLECTOR,
    BESIDE: "not ours; its threads take turns at Python's interpreter",
    IN_FLIGHT: "while few are in flight the server's 5 ms hide what calls cost; with more, their threads take"
    " turns at Python's interpreter, as those of bare httpx do",
}
"""Why an axis is worse than linear, by its name."""

Work = Callable[[int], float]


@dataclass(frozen=True)
class Axis:
    """Something that can become large: its sizes, and what to do at a size, which returns seconds."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    opened: Callable[[], AbstractContextManager[Work]]

    def scaled(self, smoke: bool) -> tuple[int, ...]:
        """The sizes; very small ones where only running counts."""
        return (1, 2, 3) if smoke else self.sizes


@dataclass(frozen=True)
class Curve:
    """What was measured along an axis: the least seconds of the rounds, by size."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """The slope between the last sizes, by least squares of the logarithms."""
        points = list(zip(map(math.log, self.sizes), map(math.log, self.seconds), strict=True))[-3:]
        x, y = (statistics.fmean(values) for values in zip(*points, strict=True))
        return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)

    @property
    def line(self) -> str:
        """A line of the table."""
        costs = " · ".join(_duration(seconds) for seconds in self.seconds)
        sizes = " · ".join(f"{size:,}" for size in self.sizes)
        verdict = "yes" if self.exponent <= LINEAR else f"**no**: {WORSE.get(self.name, 'not explained')}"
        return f"| {self.name} | {self.unit} | {sizes} | {costs} | {self.exponent:.2f} | {verdict} |"


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def _clients() -> Iterator[Callable[[int, int], MCPClient]]:
    """Finds the client of a server with so many tools and results of so many bytes; each is started once."""
    found: dict[tuple[int, int], MCPClient] = {}
    with ExitStack() as stack:

        def client(tools: int, size: int) -> MCPClient:
            if (tools, size) not in found:
                url = stack.enter_context(fast_server(tools, size=size))
                found[tools, size] = stack.enter_context(MCPClient(url))
                found[tools, size].call_tool(TOOL, ARGUMENTS)
            return found[tools, size]

        yield client


@contextmanager
def _listing() -> Iterator[Work]:
    """Of more tools than caches hold: the second listing of few tools would be cheaper than the first."""
    with _clients() as client:
        yield lambda tools: _timed(client(tools, 0).list_tools)


@contextmanager
def _results() -> Iterator[Work]:
    with _clients() as client:
        yield lambda kilobytes: _timed(partial(client(2, 1000 * kilobytes).call_tool, TOOL, ARGUMENTS))


@contextmanager
def _rows() -> Iterator[Work]:
    with fast_server(2) as url:
        yield lambda rows: batch(url, rows, 8)[1]


@contextmanager
def _in_flight() -> Iterator[Work]:
    """Twenty calls for each one in flight: the time is the same as long as nothing gets in their way."""
    with fast_server(2, 0.005) as url:
        yield lambda calls: batch(url, 20 * calls, calls)[1]


@contextmanager
def _in_flight_httpx() -> Iterator[Work]:
    with fast_server(2, 0.005) as url:

        def work(calls: int) -> float:
            limits = httpx.Limits(max_connections=calls, max_keepalive_connections=calls)
            with httpx.Client(timeout=30, limits=limits) as client, ThreadPoolExecutor(calls) as threads:
                posts = partial(post, client, url)
                return _timed(lambda: list(threads.map(posts, [ARGUMENTS] * (20 * calls))))

        yield work


@contextmanager
def _journal() -> Iterator[Work]:
    record = CallRecord(
        run="r", status=CallStatus.OK, tool_name="tool", arguments='{"query":"knime"}', result="x" * 200
    )

    def work(rows: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "run.jsonl")

            def written_and_checked() -> None:
                with Journal(path, run="r") as journal:
                    for _ in range(rows):
                        journal.append(record)
                verify_file(path)

            return _timed(written_and_checked)

    yield work


@contextmanager
def _column() -> Iterator[Work]:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    made: dict[int, list[MCPTool]] = {}

    def work(count: int) -> float:
        if count not in made:
            server = "http://127.0.0.1/mcp"
            made[count] = [
                MCPTool(f"tool_{i}", "Searches.", schema, server, f"tool_{i}") for i in range(count)
            ]
        return _timed(lambda: decode_tools(encode_tools(made[count])))

    yield work


AXES = (
    Axis(LISTING, "tools", (1_500, 3_000, 6_000, 12_000, 24_000), _listing),
    Axis(COLUMN, "tools", (1_000, 5_000, 20_000, 100_000, 300_000), _column),
    Axis("a batch, 8 in flight", "rows", (100, 300, 1_000, 3_000, 10_000), _rows),
    Axis(IN_FLIGHT, "calls in flight", (1, 4, 16, 32, 64), _in_flight),
    Axis(BESIDE, "calls in flight", (1, 4, 16, 32, 64), _in_flight_httpx),
    Axis("one call", "kB of result", (1, 10, 100, 1_000, 10_000), _results),
    Axis("a journal, written and checked", "audit rows", (300, 1_000, 3_000, 10_000, 30_000), _journal),
)


def measure(*, smoke: bool, rounds: int) -> list[Curve]:
    """All axes."""
    curves: list[Curve] = []
    for axis in AXES:
        found: dict[int, list[float]] = {size: [] for size in axis.scaled(smoke)}
        with axis.opened() as work:
            for _ in range(rounds):
                for size, seconds in found.items():
                    seconds.append(work(size))
        least = tuple(min(seconds) for seconds in found.values())  # what disturbs only adds
        curve = Curve(axis.name, axis.unit, tuple(found), least)
        print(
            f"{curve.name:44.44} {' '.join(map(_duration, least)):60} exponent {curve.exponent:.2f}",
            flush=True,
        )
        curves.append(curve)
    return curves


def plot(curves: list[Curve], picture: Path) -> bool:
    """Draws the curves, in the environment that has the library for it; False if it was not built."""
    if not build_peers.is_fresh("plot"):
        print("plot: not built, left out (`make bench` builds it)")
        return False
    command = [str(build_peers.python("plot")), str(HERE / "growth_plot.py"), str(picture)]
    drawn = json.dumps([asdict(curve) for curve in curves])
    return subprocess.run(command, input=drawn, text=True, timeout=120, check=False).returncode == 0


def markdown(curves: list[Curve], *, has_picture: bool) -> str:
    """The curves as a section."""
    lines = ["## How cost grows", ""]
    if has_picture:
        lines += [f"![Cost against size, both logarithmic]({PICTURE})", ""]
    lines += ["| what | size in | sizes | cost | exponent | linear or better |", "|---|---|---|---|--:|---|"]
    note = (
        "\nCosts are the least of the rounds. The exponent is that of the upper sizes: 1 is linear, and up to"
    )
    note += f" {LINEAR:g} counts as linear."
    return "\n".join([*lines, *(curve.line for curve in curves), note]) + "\n"
