"""What things may cost, beside what they do: the budgets, read off the tables and curves of a run."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from growth import LINEAR, LISTING, Curve
from timing import Row, Table

CALL = "call, JSON, small"
PROCESS = "process: connect, list 50, call"
OURS = "ours: MCPClient"
SDK = "official SDK 2.x"
HTTPX = "bare httpx"
RECORDED = "recorded, kept in a journal"
READS = "recorded, kept, a tool that only reads"
SIGNED = "recorded, kept and signed"


class NotMeasuredError(Exception):
    """The run has no such row: its group failed, was left out, or its peer is not there."""


@dataclass(frozen=True)
class Figures:
    """All rows of a run."""

    tables: Sequence[Table]
    curves: Sequence[Curve] = ()

    def row(self, measurement: str, way: str) -> Row:
        """A row by what is measured and how; both may be beginnings."""
        for table in self.tables:
            for row in table.rows:
                if row.measurement.startswith(measurement) and row.way.startswith(way):
                    return row
        raise NotMeasuredError(f"{measurement}: {way}")

    def ratio(self, measurement: str, way: str, other: str) -> float:
        """The median of the ratios within the rounds."""
        pairs = zip(self.row(measurement, way).values, self.row(measurement, other).values, strict=True)
        return statistics.median(own / others for own, others in pairs)

    def exponent(self, name: str) -> float:
        """How cost grows along an axis."""
        for curve in self.curves:
            if curve.name == name:
                return curve.exponent
        raise NotMeasuredError(name)


@dataclass(frozen=True)
class Budget:
    """A budget: what it is about, what may be, and how to find what is. ``most`` or ``least`` is set."""

    about: str
    find: Callable[[Figures], float]
    most: float | None = None
    least: float | None = None

    def line(self, figures: Figures) -> str:
        """A line of the page."""
        limit = f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"
        try:
            found = self.find(figures)
        except NotMeasuredError as error:
            return f"| {self.about} | {limit} | not measured ({error}) | no |"
        kept = found <= self.most if self.most is not None else found >= (self.least or 0)
        return f"| {self.about} | {limit} | {found:.3g} | {'yes' if kept else '**no**'} |"


def _import_alone(figures: Figures) -> float:
    """Within the rounds, without the start of Python."""
    ways = ("import of our client", "import httpx", "bare Python")
    rows = zip(*(figures.row("process: import", way).values for way in ways), strict=True)
    return statistics.median((ours - python) / (httpx - python) for ours, httpx, python in rows)


def _of_ideal(figures: Figures) -> float:
    share = figures.row("1,000 calls, 50 ms, 32 in flight", "the latency alone").ratio
    assert share is not None
    return share


def _per_cell(operation: str, size: str) -> Callable[[Figures], float]:
    """Beside KNIME's own API where its sources were at hand."""

    def found(figures: Figures) -> float:
        try:
            return figures.ratio(f"{operation} {size} tools in KNIME", "KNIME", "ours")
        except NotMeasuredError:
            return figures.ratio(f"{operation} {size} tools", "per cell", "ours")

    return found


def _recorded(measurement: str) -> Callable[[Figures], float]:
    """What recording adds to a call whose arguments are checked, as a part of a call by the client alone."""
    ways = (RECORDED, "arguments checked", "client alone")

    def found(figures: Figures) -> float:
        rows = zip(*(figures.row(measurement, way).values for way in ways), strict=True)
        return statistics.median((recorded - checked) / alone for recorded, checked, alone in rows)

    return found


def _written_ahead(measurement: str) -> Callable[[Figures], float]:
    """What lines *sent* and signatures add to a call that is recorded, as a part of that call."""
    return lambda figures: figures.ratio(measurement, SIGNED, READS) - 1


def _first(node: str) -> Callable[[Figures], float]:
    return lambda figures: statistics.median(figures.row("first execution", node).values) / 1000


def _against(measurement: str, way: str, other: str) -> Callable[[Figures], float]:
    return lambda figures: figures.ratio(measurement, way, other)


def _paid(tools: int) -> Callable[[Figures], float]:
    """What a run of three turns sends to a model, times the agent of others that sends least."""

    def found(figures: Figures) -> float:
        what = f"agent: three turns, {tools} tools"
        others = ("LangChain", "openai-agents", "pydantic-ai")
        return figures.row(what, "ours").values[0] / min(figures.row(what, o).values[0] for o in others)

    return found


BUDGETS = (
    Budget("a warm call, times bare httpx", _against(CALL, OURS, HTTPX), most=0.7),
    Budget("a warm call, times the official SDK 2.x", _against(CALL, OURS, SDK), most=0.6),
    Budget(
        "a call through a StructuredTool, `invoke`, times bare httpx",
        _against(CALL, "ours: StructuredTool.invoke", HTTPX),
        most=1.2,
    ),
    Budget(
        "a call through a StructuredTool, `ainvoke`, times bare httpx",
        _against(CALL, "ours: StructuredTool.ainvoke", HTTPX),
        most=1.4,
    ),
    # An event loop alone makes a call of httpx a third slower, which the budget above leaves no room for.
    Budget(
        "the same, times bare httpx awaited",
        _against(CALL, "ours: StructuredTool.ainvoke", "bare httpx, awaited"),
        most=1.3,
    ),
    Budget(
        "a process that imports the client, times one with `import httpx`",
        _against("process: import", "import of our client", "import httpx"),
        most=1.5,
    ),
    Budget("the same without the start of Python", _import_alone, most=1.5),
    Budget("a whole process, times the official SDK 2.x", _against(PROCESS, OURS, SDK), most=0.5),
    Budget(
        "a whole process, times the same requests by bare httpx", _against(PROCESS, OURS, HTTPX), most=1.6
    ),
    Budget(
        "`knime-mcp list`, times a process with `import httpx`",
        _against("process: command", "knime-mcp list", "import httpx"),
        most=1.6,
    ),
    Budget("first execution of *MCP Tool Caller*, seconds of CPU", _first("MCP Tool Caller"), most=0.15),
    Budget("first execution of *MCP Tool Provider*, seconds of CPU", _first("MCP Tool Provider"), most=0.25),
    Budget(
        "a list of 2,000 tools, times fetching and parsing the same bytes",
        _against("list 2,000 tools", OURS, HTTPX),
        most=2,
    ),
    Budget(
        "listing 6,000 to 24,000 tools, exponent of the time",
        lambda figures: figures.exponent(LISTING),
        most=LINEAR,
    ),
    Budget("a batch at 32 in flight on a 50 ms server, part of the ideal", _of_ideal, least=0.9),
    Budget(
        "peak memory late among 10,000 rows, times that early among them",
        _against("peak memory, 8 in flight", "ours: late", "ours: early"),
        most=1.1,
    ),
    Budget("encoding 1,000 tools per cell, times ours", _per_cell("encode", "1,000"), least=6),
    Budget("encoding 100,000 tools per cell, times ours", _per_cell("encode", "100,000"), least=6),
    Budget("decoding 1,000 tools per cell, times ours", _per_cell("decode", "1,000"), least=20),
    Budget("decoding 100,000 tools per cell, times ours", _per_cell("decode", "100,000"), least=20),
    Budget(
        "a call that is checked, recorded and kept in a journal, times bare httpx",  # 1.35, and 10 % of it
        _against("audit: warm call", RECORDED, HTTPX),
        most=1.485,
    ),
    Budget(
        "the same against a server on the official SDK",
        _against("audit: call, server on the SDK 2.x", RECORDED, HTTPX),
        most=1.485,
    ),
    Budget(
        "what record and journal add to a warm call, part of it",
        _recorded("audit: warm call"),
        most=0.1,
    ),
    Budget(
        "the same against a server on the official SDK",
        _recorded("audit: call, server on the SDK 2.x"),
        most=0.1,
    ),
    Budget(
        "what lines *sent* and signatures add to a warm call, server on the official SDK, part of it",
        _written_ahead("audit: call, server on the SDK 2.x"),
        most=0.1,
    ),
    Budget("an agent's three turns with 3 tools, times the best peer's bytes", _paid(3), most=1.0),
    Budget("an agent's three turns with 10 tools, times the best peer's bytes", _paid(10), most=1.0),
)


def markdown(tables: Sequence[Table], curves: Sequence[Curve]) -> str:
    """The budgets as a section."""
    figures = Figures(tables, curves)
    lines = ["## Budgets", "", "| what | budget | measured | kept |", "|---|--:|--:|---|"]
    return "\n".join([*lines, *(budget.line(figures) for budget in BUDGETS)]) + "\n"
